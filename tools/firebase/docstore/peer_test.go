package docstore_test

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/docstore"
	"github.com/orch-dev/orch/tools/firebase/firebasetest"
)

// emulator is Google's emulator.
var emulator = firebasetest.Peer{Command: []string{"../../../scripts/firebase/firestore"}}

func TestMain(m *testing.M) { goleak.VerifyTestMain(emulator.Main(m)) }

const backlog = 64

// open returns an empty database at the emulator.
func open(tb testing.TB, change ...func(*docstore.Config)) *docstore.Client {
	tb.Helper()
	need.Program(tb, "java")
	need.That(tb, "firestore", exec.CommandContext(tb.Context(), emulator.Command[0], "--there").Run() == nil)
	cfg := docstore.Config{Emulator: emulator.Address(tb), Project: emulator.Name(), Backlog: backlog, Call: 5 * time.Minute}
	for _, c := range change {
		c(&cfg)
	}
	c, err := docstore.Open(cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { assert.NoError(tb, c.Close()) })
	return c
}

func TestConformance(t *testing.T) {
	t.Parallel()
	firebasetest.Firestore(t, firebasetest.Kit{
		Open:    func(tb testing.TB) firebase.Backend { tb.Helper(); return open(tb) },
		Backlog: backlog,
		Joins:   true,
	})
}

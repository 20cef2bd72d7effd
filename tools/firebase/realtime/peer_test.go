package realtime_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/firebasetest"
	"github.com/orch-dev/orch/tools/firebase/realtime"
)

// engine is Google's engine behind the protocol of the server.
var engine = firebasetest.Peer{Command: []string{"../../../scripts/firebase/run", "realtime.mjs"}}

func TestMain(m *testing.M) { goleak.VerifyTestMain(engine.Main(m)) }

const backlog = 64

// open returns an empty database at the engine.
func open(tb testing.TB) *realtime.Client {
	tb.Helper()
	need.Program(tb, "node", "npm")
	c, err := realtime.Open(realtime.Config{
		URL: "http://" + engine.Address(tb) + "?ns=" + engine.Name(), Backlog: backlog, Call: 5 * time.Minute,
	})
	require.NoError(tb, err)
	return c
}

func TestConformance(t *testing.T) {
	t.Parallel()
	firebasetest.Realtime(t, firebasetest.Kit{
		Open:    func(tb testing.TB) firebase.Backend { tb.Helper(); return open(tb) },
		Backlog: backlog,
	})
}

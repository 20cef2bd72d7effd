package need_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/test/need"
)

// witness is a testing.TB that records how it ended.
type witness struct {
	testing.TB

	skipped, failed string
}

func (w *witness) Helper() {}

func (w *witness) Skipf(format string, args ...any) {
	w.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (w *witness) Fatalf(format string, args ...any) {
	w.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// of runs a test and returns how it ended.
func of(test func(testing.TB)) *witness {
	w, done := &witness{}, make(chan struct{})
	go func() {
		defer close(done)
		test(w)
	}()
	<-done
	return w
}

func lacking(name string) func(testing.TB) {
	return func(tb testing.TB) { tb.Helper(); need.That(tb, name, false) }
}

func TestLeftOut(t *testing.T) {
	t.Setenv(need.Strict, "")
	t.Setenv(need.Without, "")
	assert.Equal(t, "left out: needs curl (apt-get install curl)", of(lacking("curl")).skipped)
	assert.Equal(t, "left out: needs pytest (apt-get install python3-pytest python3-pytest-cov)", of(lacking("pytest")).skipped)
	assert.Equal(t, "left out: needs mount (run the tests as root)", of(lacking("mount")).skipped)
	assert.Equal(t, witness{}, *of(func(tb testing.TB) { tb.Helper(); need.That(tb, "curl", true) }))
}

func TestStrict(t *testing.T) {
	t.Setenv(need.Strict, "1")
	t.Setenv(need.Without, "mount,java")
	assert.Equal(t, "needs curl (apt-get install curl); ORCH_TEST_STRICT=1 lets nothing be left out", of(lacking("curl")).failed)
	assert.Equal(t, "left out: needs java (apt-get install default-jre-headless)", of(lacking("java")).skipped)
}

func TestBinaryThatIsBuiltAlready(t *testing.T) {
	t.Setenv(need.Binary, "/there/orch")
	path, err := need.Orch(t.TempDir())
	require.NoError(t, err)
	assert.Equal(t, "/there/orch", path)
}

func TestProgram(t *testing.T) {
	t.Setenv(need.Strict, "")
	programs := func(names ...string) *witness {
		return of(func(tb testing.TB) { tb.Helper(); need.Program(tb, names...) })
	}
	assert.Equal(t, witness{}, *programs("bash"))
	t.Setenv("PATH", t.TempDir())
	assert.Equal(t, "left out: needs patch (apt-get install patch)", programs("patch", "npm").skipped)
	assert.Equal(t, "test/need/programs.txt has no line for brainfuck", programs("brainfuck").failed)
}

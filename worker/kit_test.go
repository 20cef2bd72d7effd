package worker_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/logtest"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const task = events.TaskID("TASK_01JD0000000000000000000000")

type none struct{}

type text struct {
	Text string `json:"text"`
}

// spec returns the spec of a tool that is allowed in every state and touches no files.
func spec(name string, effect tools.Effect) tools.Spec {
	return tools.Spec{Name: name, Purpose: "test", Effect: effect, Gate: tools.AnyState, Approval: tools.NoApproval, NoWorkspace: true}
}

// readTool returns a tool without arguments and effects.
func readTool(name string, do func(ctx context.Context, env *tools.Env) (string, error)) tools.Tool {
	return tools.Define(spec(name, tools.Read), func(ctx context.Context, env *tools.Env, _ none) (text, error) {
		out, err := do(ctx, env)
		return text{out}, err
	})
}

// waitTool returns a tool that runs until its context ends, and a channel that signals its start.
func waitTool(name string) (tool tools.Tool, began chan struct{}) {
	began = make(chan struct{}, 16)
	return readTool(name, func(ctx context.Context, _ *tools.Env) (string, error) {
		began <- struct{}{}
		<-ctx.Done()
		return "", ctx.Err()
	}), began
}

func echoTool() tools.Tool {
	return tools.Define(spec("ECHO", tools.Read), func(_ context.Context, _ *tools.Env, in text) (text, error) {
		return in, nil
	})
}

// bench is a worker with its dependencies.
type bench struct {
	*worker.Worker
	owner *owner
	root  *pathguard.Root
	log   *logtest.Buffer
}

func newBench(tb testing.TB, cfg worker.Config, all ...tools.Tool) *bench {
	tb.Helper()
	root, err := pathguard.Open(tb.TempDir())
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = root.Close() })
	catalogue, err := tools.New(all...)
	require.NoError(tb, err)
	b := &bench{owner: newOwner(), root: root, log: &logtest.Buffer{}}
	cfg.Root = root
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewJSONHandler(b.log, nil))
	}
	b.Worker, err = worker.New(b.owner, catalogue, newPolicy(tb, root), cfg)
	require.NoError(tb, err)
	return b
}

// working returns a path below the folder of the test task.
func (b *bench) working(parts ...string) string {
	return filepath.Join(append([]string{b.root.Name(), "Working", string(task)}, parts...)...)
}

// run runs the worker inside a bubble of fake time, and returns the function that stops it and waits.
func (b *bench) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		require.NoError(t, <-ended)
	}
}

// give dispatches calls of the tool to the worker, as steps "a", "b", …
func (b *bench) give(tool string, n int) []work.Call {
	calls := make([]work.Call, n)
	for i := range calls {
		calls[i] = call(tool, "{}")
		calls[i].Step = string(rune('a' + i))
	}
	b.owner.calls <- calls
	return calls
}

func call(tool, args string) work.Call {
	return work.Call{
		Ref: work.Ref{Task: task, Step: "a", Attempt: 1}, Tool: tool, Args: json.RawMessage(args),
		Effect: "read", State: "IN_PROGRESS", Lease: 30 * time.Second, Name: "demo",
	}
}

// advance lets time pass in a bubble, and waits for everything that becomes due.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// noneReported waits until nothing moves any more, and checks that no outcome was reported.
func (b *bench) noneReported(t *testing.T) {
	t.Helper()
	synctest.Wait()
	require.Empty(t, b.owner.outcomes)
}

// withOwner returns a second worker on the same root with another owner.
func (b *bench) withOwner(t *testing.T, o work.Owner, all ...tools.Tool) *worker.Worker {
	t.Helper()
	catalogue, err := tools.New(all...)
	require.NoError(t, err)
	w, err := worker.New(o, catalogue, newPolicy(t, b.root), worker.Config{Root: b.root})
	require.NoError(t, err)
	return w
}

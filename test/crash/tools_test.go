package crash_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/test/crash"
	"github.com/orch-dev/orch/tools"
)

type nothing struct{}

type effectOut struct {
	Attempt int `json:"attempt"`
	PID     int `json:"pid"`
	// Text is the further output of some tools.
	Text string `json:"text,omitempty"`
}

// effects are the tools of the test. All that they do is in the ledger.
func effects(dir string) []tools.Tool {
	return []tools.Tool{
		effect(crash.ToolRead, tools.Read, dir, inProcess),
		effect(crash.ToolIdem, tools.Idempotent, dir, inProcess),
		effect(crash.ToolWrite, tools.Write, dir, inProcess),
		effect(crash.ToolChild, tools.Idempotent, dir, inChild),
		effect(crash.ToolVerified, tools.Write, dir, inChild),
		lookUp(dir),
		effect(crash.ToolSlow, tools.Idempotent, dir, slowly),
		effect(crash.ToolLarge, tools.Read, dir, atLength),
		effect(crash.ToolTell, tools.Read, dir, indiscreetly),
	}
}

// doer performs an effect and returns its output.
type doer func(ctx context.Context, env *tools.Env, dir string, e crash.Effect) (string, error)

func effect(name string, kind tools.Effect, dir string, do doer) tools.Tool {
	spec := tools.Spec{
		Name: name, Purpose: "Write a line into the ledger", Effect: kind, Gate: tools.AnyState,
		Approval: tools.NoApproval, NoWorkspace: true,
	}
	return tools.Define(spec, func(ctx context.Context, env *tools.Env, _ nothing) (effectOut, error) {
		e := crash.Effect{Tool: name, Task: env.Task, Step: env.Step, Attempt: env.Attempt, Key: env.Key, PID: os.Getpid()}
		text, err := do(ctx, env, dir, e)
		return effectOut{Attempt: e.Attempt, PID: e.PID, Text: text}, err
	})
}

func inProcess(ctx context.Context, _ *tools.Env, dir string, e crash.Effect) (string, error) {
	return "", perform(ctx, dir, e, time.Millisecond, 30*time.Millisecond)
}

// slowly takes so long that, when a stopped worker is resumed, the next attempt is already running: only then can a
// result of the older attempt do damage.
func slowly(ctx context.Context, _ *tools.Env, dir string, e crash.Effect) (string, error) {
	return "", perform(ctx, dir, e, lease*3/4, lease*7/4)
}

// atLength returns more than fits into an event, so that the output is in the object store.
func atLength(ctx context.Context, _ *tools.Env, dir string, e crash.Effect) (string, error) {
	text := strings.Repeat(string(e.Task)+" ", events.MaxInline/len(e.Task))
	return text, perform(ctx, dir, e, time.Millisecond, 10*time.Millisecond)
}

// indiscreetly writes a secret to every output that a tool has.
func indiscreetly(ctx context.Context, env *tools.Env, dir string, e crash.Effect) (string, error) {
	text := "the token is " + os.Getenv(envSecret)
	env.Progress(1, 2, text)
	env.Log.InfoContext(ctx, "told", slog.String("text", text))
	env.Record(events.CheckpointCreated, &events.Checkpointed{
		ID: events.NewCheckpointID(env.Task), Name: text, State: events.Inline(fmt.Appendf(nil, "{%q: %q}", "said", text)), At: events.Time(time.Now()),
	})
	if e.Attempt == 1 {
		return "", fault.New(fault.Unavailable, "not with %s", text).WithHint("%s", text)
	}
	return text, perform(ctx, dir, e, time.Millisecond, 10*time.Millisecond)
}

func inChild(ctx context.Context, env *tools.Env, dir string, e crash.Effect) (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	ledger, err := crash.OpenLedger(ledgerPath(dir)) // a file must be there to be let through
	if err != nil {
		return "", err
	}
	if err := ledger.Close(); err != nil {
		return "", err
	}
	result, err := env.Exec.Run(ctx, proc.Command{
		Name: program, Dir: dir, Sandbox: proc.Sandbox{Read: []string{program}, Write: []string{ledgerPath(dir)}},
		Env: map[string]string{
			envRole: roleChild, envDir: dir, envCall: callText(e.Tool, e.Task, e.Step, e.Attempt, e.Key, e.PID),
		},
	})
	if err == nil && result.ExitCode != 0 {
		return "", fault.New(fault.ExecFailed, "the child process ended with %d: %s", result.ExitCode, result.Stderr)
	}
	return "", err
}

func callText(tool string, task events.TaskID, step string, attempt int, key string, pid int) string {
	return fmt.Sprint(tool, " ", string(task), " ", step, " ", attempt, " ", key, " ", pid)
}

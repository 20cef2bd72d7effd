package load_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/tools"
)

// lease is short, so that lost workers are noticed soon.
const lease = 2 * time.Second

type nothing struct{}

// mended is the file that makes the harmful tools harmless.
func mended(dir string) string { return filepath.Join(dir, "mended") }

// toolbox are the tools of the tests.
func toolbox(dir string) []tools.Tool {
	list := []tools.Tool{
		poison("LOAD_NOOP", tools.Read, dir, func(context.Context, *tools.Env) error { return nil }),
		poison("LOAD_SLOW", tools.Read, dir, func(ctx context.Context, _ *tools.Env) error {
			_ = pause.For(ctx, 300*time.Millisecond)
			return nil
		}),
		&brokenTool{Tool: poison("POISON_JSON", tools.Read, dir, nil), dir: dir},
	}
	for _, p := range poisons() {
		if p.do != nil {
			list = append(list, poison(p.tool, p.effect, dir, p.do))
		}
	}
	return list
}

func spec(name string, effect tools.Effect) tools.Spec {
	return tools.Spec{
		Name: name, Purpose: "Serve the load tests", Effect: effect, Gate: tools.AnyState,
		Approval: tools.NoApproval, NoWorkspace: true,
	}
}

// poison is a tool that does harm until it is mended.
func poison(name string, effect tools.Effect, dir string, do func(context.Context, *tools.Env) error) tools.Tool {
	return tools.Define(spec(name, effect), func(ctx context.Context, env *tools.Env, _ nothing) (nothing, error) {
		if _, err := os.Stat(mended(dir)); err == nil {
			return nothing{}, nil
		}
		return nothing{}, do(ctx, env)
	})
}

// brokenTool answers with something that is no JSON.
type brokenTool struct {
	tools.Tool
	dir string
}

// Call implements tools.Tool.
func (b *brokenTool) Call(context.Context, *tools.Env, json.RawMessage) (json.RawMessage, error) {
	if _, err := os.Stat(mended(b.dir)); err == nil {
		return json.RawMessage(`{}`), nil
	}
	return json.RawMessage(`{"n": 1, oops`), nil
}

func panics(context.Context, *tools.Env) error { panic("poison") }

func exits(context.Context, *tools.Env) error {
	os.Exit(3) // what a tool must never do
	return nil
}

func goexits(context.Context, *tools.Env) error {
	runtime.Goexit()
	return nil
}

// hangs ignores its deadline; it ends with the test's patience.
func hangs(context.Context, *tools.Env) error {
	<-time.After(5 * time.Minute)
	return nil
}

// eats allocates until allocation fails. Its own limit protects the machine.
func eats(context.Context, *tools.Env) error {
	const most = 1 << 30
	limit := syscall.Rlimit{Cur: most, Max: most}
	if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &limit); err != nil {
		return err
	}
	var kept []byte
	for {
		kept = append(kept, bytes.Repeat([]byte{1}, 16<<20)...)
		if len(kept) > 4*most {
			return fault.New(fault.Internal, "there is no end of memory")
		}
	}
}

// child runs a shell.
func child(script string) func(context.Context, *tools.Env) error {
	return func(ctx context.Context, env *tools.Env) error {
		_, err := env.Exec.Run(ctx, proc.Command{Name: "bash", Args: []string{"-c", script}, Dir: "/"})
		return err
	}
}

// prints runs a child with excessive output.
func prints(ctx context.Context, env *tools.Env) error {
	size := int64(1 << 30)
	if os.Getenv(envFull) != "" {
		size = 10 << 30
	}
	return child("head -c "+strconv.FormatInt(size, 10)+" /dev/zero")(ctx, env)
}

package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

// A single call goes through the same chain as those of a plan.
func ExampleWorker_Execute() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	root, err := pathguard.Open(dir)
	if err != nil {
		panic(err)
	}
	defer root.Close()
	rules, err := policy.New(policy.Config{Root: root.Name()})
	if err != nil {
		panic(err)
	}
	type hello struct {
		Name string `json:"name"`
	}
	catalogue, err := tools.New(tools.Define(tools.Spec{
		Name: "GREET", Purpose: "Greet someone", Effect: tools.Read,
		Gate: tools.AnyState, Approval: tools.NoApproval, NoWorkspace: true,
	}, func(_ context.Context, _ *tools.Env, in hello) (hello, error) {
		return hello{"hello " + in.Name}, nil
	}))
	if err != nil {
		panic(err)
	}
	w, err := worker.New(newOwner(), catalogue, rules, worker.Config{Root: root})
	if err != nil {
		panic(err)
	}
	for _, args := range []string{`{"name":"Ada"}`, `{}`} {
		out := w.Execute(context.Background(), work.Call{
			Ref: work.Ref{Task: task, Step: "greet", Attempt: 1}, Tool: "GREET", Args: json.RawMessage(args),
			State: "IN_PROGRESS",
		})
		if out.Error != nil {
			fmt.Println(out.Class, out.Error)
			continue
		}
		fmt.Println(string(out.Output))
	}
	// Output:
	// {"name":"hello Ada"}
	// invalid_args REQUIRED_FIELD: name: is required
}

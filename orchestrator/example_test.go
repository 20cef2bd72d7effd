package orchestrator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/index"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// An orchestrator needs a log and a catalogue of tools. It decides; a worker, which is played here, polls for calls and reports them.
func ExampleNew() {
	greet := tools.Define(tools.Spec{
		Name: "GREET", Purpose: "Greet someone", Effect: tools.Read, Gate: tools.AnyState, Approval: tools.NoApproval,
	}, func(_ context.Context, _ *tools.Env, in echoIn) (echoOut, error) { return echoOut(in), nil })
	catalogue, err := tools.New(greet)
	if err != nil {
		panic(err)
	}
	log := memlog.New(memlog.Config{})
	owner, err := orchestrator.New(orchestrator.Config{Log: log, Blobs: log, Checkpoints: log, Catalogue: catalogue, Lists: index.NewOpen()})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- owner.Run(ctx) }()
	<-owner.Ready()

	text, _ := json.Marshal(`{orch: v1, name: hello, steps: [{id: greet, tool: GREET, with: {text: Ada}}], outputs: {said: "${{ steps.greet.output.text }}"}}`)
	task, err := owner.Submit(ctx, api.SubmitRequest{Plan: text, Actor: "user:ada"})
	if err != nil {
		panic(err)
	}
	batch, err := owner.Poll(ctx, work.Poll{Worker: "w1", Free: 1, Wait: time.Minute})
	if err != nil {
		panic(err)
	}
	call := batch.Calls[0]
	fmt.Println(call.Tool, string(call.Args))
	if err := owner.Report(ctx, work.Outcome{Ref: call.Ref, Worker: "w1", Output: json.RawMessage(`{"text":"hello Ada","n":1}`), StartedAt: time.Now()}); err != nil {
		panic(err)
	}
	result, err := owner.Result(ctx, api.ResultRequest{ID: task.ID, Wait: time.Minute})
	fmt.Println(result.State, string(result.Output), err)
	stop()
	fmt.Println(<-ended)
	// Output:
	// GREET {"text":"Ada"}
	// DONE {"said":"hello Ada"} <nil>
	// <nil>
}

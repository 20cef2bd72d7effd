package statemachine_test

import (
	"fmt"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

func ExampleNext() {
	fmt.Println(statemachine.Next(statemachine.InProgress, events.TaskCompleted))
	fmt.Println(statemachine.Next(statemachine.Done, events.TaskStarted))
	// Output:
	// COMPLETED true
	//  false
}

func ExampleCheck() {
	fmt.Println(statemachine.Check(statemachine.NeedsAction, events.TaskPlanned))
	fmt.Println(statemachine.Check(statemachine.Done, events.TaskPlanned) != nil)
	// Output:
	// <nil>
	// true
}

// The state of a task is the fold of its events.
func ExampleTask_Apply() {
	at := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	task := &statemachine.Task{ID: "TASK_01JD0000000000000000000000"}
	for _, e := range []events.Event{
		{Kind: events.TaskSubmitted, Data: &events.Submitted{Name: "greet", Priority: "normal"}},
		{Kind: events.TaskPlanned, Data: &events.Moved{}},
		{Kind: events.TaskStarted, Data: &events.Moved{}},
		{Kind: events.StepReady, Data: &events.Ready{Step: "hello", Attempt: 1, Tool: "GREET"}},
	} {
		if err := task.Apply(at, e); err != nil {
			panic(err)
		}
	}
	fmt.Println(task.State, task.StepState("hello"), task.StepState("bye"))
	fmt.Println(task.Apply(at, events.Event{Kind: events.TaskSubmitted, Data: &events.Submitted{}}) != nil)
	// Output:
	// IN_PROGRESS ready pending
	// true
}

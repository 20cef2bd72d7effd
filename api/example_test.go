package api_test

import (
	"context"
	"fmt"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/statemachine"
)

// A client makes a request of whatever the transport reaches. This transport answers by itself.
func ExampleNewClient() {
	client := api.NewClient(func(_ context.Context, c api.Call) error {
		fmt.Println(c.Name, c.In.(api.GetRequest).ID)
		*c.Out.(*api.TaskView) = api.TaskView{State: statemachine.Done}
		return nil
	})
	task, err := client.Get(context.Background(), api.GetRequest{ID: "TASK_01JD0000000000000000000000"})
	fmt.Println(task.State, err)
	// Output:
	// get TASK_01JD0000000000000000000000
	// DONE <nil>
}

// The table says of each method when a client may repeat a request that got no answer.
func ExampleMethods() {
	for _, m := range api.Methods() {
		if m.Repeat == api.Never {
			fmt.Println(m.Name)
		}
	}
	// Output:
	// retry
	// redrive
	// call
}

package messages_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/messages/messagestest"
)

// A message waits in the inbox of its recipient until it is acknowledged.
func ExampleService() {
	ctx := context.Background()
	broker := (&messagestest.Store{}).Open(messages.Config{})
	sent, err := broker.Send(ctx, "user:ada", messages.Draft{
		To: []string{"agent:bob"}, Type: "task", Payload: json.RawMessage(`{"text":"look at the logs"}`),
	})
	if err != nil {
		panic(err)
	}
	page, err := broker.Inbox(ctx, "agent:bob", messages.Query{})
	if err != nil {
		panic(err)
	}
	fmt.Println(page.Messages[0].Sender, string(page.Messages[0].Payload))
	if _, err := broker.Ack(ctx, "agent:bob", []string{sent.ID}); err != nil {
		panic(err)
	}
	page, err = broker.Inbox(ctx, "agent:bob", messages.Query{})
	fmt.Println(page.Waiting, err)
	// Output:
	// user:ada {"text":"look at the logs"}
	// 0 <nil>
}

// Who is in a group gets what is sent to it from then on.
func ExampleService_Group() {
	ctx := context.Background()
	broker := (&messagestest.Store{}).Open(messages.Config{})
	groups, err := broker.Group(ctx, "agent:bob", messages.GroupChange{Join: "builders"})
	if err != nil {
		panic(err)
	}
	fmt.Println(groups.Groups)
	if _, err := broker.Send(ctx, "user:ada", messages.Draft{To: []string{"group:builders"}, Payload: json.RawMessage(`"build"`)}); err != nil {
		panic(err)
	}
	for _, who := range []string{"agent:bob", "agent:eve"} {
		page, err := broker.Inbox(ctx, who, messages.Query{})
		fmt.Println(who, page.Waiting, err)
	}
	// Output:
	// [group:builders]
	// agent:bob 1 <nil>
	// agent:eve 0 <nil>
}

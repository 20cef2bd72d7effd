package events_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
)

// A commit is one decision about one task. Its wire form is compact JSON, and its hash links the next commit to it.
func ExampleEncode() {
	first := &events.Commit{
		Task: "TASK_01JD0000000000000000000000", Rev: 1, At: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC), Actor: "user:ada",
		Events: []events.Event{{Kind: events.LogWritten, Data: &events.Logged{Level: "INFO", Message: "hello"}}},
	}
	data, err := events.Encode(first)
	if err != nil {
		panic(err)
	}
	again, err := events.Decode(data)
	if err != nil {
		panic(err)
	}
	fmt.Println(again.Actor, again.Events[0].Kind)
	next := events.Commit{Task: first.Task, Rev: 2, Prev: events.Hash(data)}
	fmt.Println(next.CheckLink(first.Rev, events.Hash(data)))
	fmt.Println(next.CheckLink(first.Rev, events.Hash([]byte("something else"))) != nil)
	// Output:
	// user:ada log.written
	// <nil>
	// true
}

// The ids of tasks sort by time. A key always makes the same id.
func ExampleNewTaskID() {
	id := events.NewTaskID(time.Now())
	fmt.Println(strings.HasPrefix(string(id), "TASK_"), len(id))
	nightly := events.KeyedTaskID("", "nightly")
	fmt.Println(nightly == events.KeyedTaskID("", "nightly"), nightly == events.KeyedTaskID("", "weekly"))
	_, err := events.ParseTaskID("TASK_../../etc")
	fmt.Println(err != nil)
	// Output:
	// true 31
	// true false
	// true
}

// A large value lies outside of the event, which holds its digest and size.
func ExampleValue() {
	small := events.Inline(json.RawMessage(`{"ok":true}`))
	text, _ := json.Marshal(strings.Repeat("x", events.MaxInline))
	fmt.Println(small.MustOffload(), events.Inline(text).MustOffload())
	large := events.Offloaded(text)
	fmt.Println(large.Ref()[:7], large.Size(), large.Raw == nil)
	// Output:
	// false true
	// sha256- 65538 true
}

package memlog_test

import (
	"context"
	"fmt"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
)

// record returns the first commit of a task, encoded.
func record(task events.TaskID) events.Record {
	at := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	data, err := events.Encode(&events.Commit{
		Task: task, Rev: 1, At: at, Actor: "user:ada",
		Events: []events.Event{{Kind: events.LogWritten, Data: &events.Logged{Level: "INFO", Message: "hello", At: at}}},
	})
	if err != nil {
		panic(err)
	}
	return events.Record{Head: events.Head{Task: task, Rev: 1, State: "NEEDS_ACTION", At: at}, Data: data}
}

// A history is appended commit by commit, each on the condition that the one before is still the newest.
func ExampleNew() {
	log := memlog.New(memlog.Config{})
	first := record("TASK_01JD0000000000000000000000")
	log.Append(first, func(seq uint64, err error) { fmt.Println(seq, err) })
	log.Append(first, func(seq uint64, err error) { fmt.Println(seq, err) })
	for commit, err := range log.Read(context.Background(), first.Task, 1) {
		if err != nil {
			panic(err)
		}
		c, err := events.Decode(commit.Data)
		if err != nil {
			panic(err)
		}
		fmt.Println(c.Rev, c.Actor, c.Events[0].Kind)
	}
	// Output:
	// 1 <nil>
	// 0 CONFLICT: task: task TASK_01JD0000000000000000000000 has changed: another commit was first
	// 1 user:ada log.written
}

// The log keeps the blobs too: large values under their digest.
func ExampleLog_Put() {
	log := memlog.New(memlog.Config{})
	ref, err := log.Put(context.Background(), []byte(`"a large value"`))
	if err != nil {
		panic(err)
	}
	data, err := log.Get(context.Background(), ref)
	fmt.Println(string(data), err)
	// Output: "a large value" <nil>
}

// A test lets the log fail where it wants to.
func ExampleConfig() {
	log := memlog.New(memlog.Config{Fail: func(*events.Record) error { return context.DeadlineExceeded }})
	log.Append(record("TASK_01JD0000000000000000000000"), func(_ uint64, err error) { fmt.Println(err) })
	// Output: context deadline exceeded
}

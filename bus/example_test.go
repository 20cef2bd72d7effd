package bus_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
)

// The store of an embedded server is an events.Log. What was acknowledged is there when the server starts again.
func ExampleStartServer() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	open := func() (*bus.Store, func()) {
		server, err := bus.StartServer(ctx, bus.ServerConfig{DataDir: filepath.Join(dir, "data"), Durability: bus.Relaxed})
		if err != nil {
			panic(err)
		}
		conn, err := server.Connect(ctx)
		if err != nil {
			panic(err)
		}
		store, err := conn.OpenStore(ctx, bus.StoreConfig{})
		if err != nil {
			panic(err)
		}
		return store, func() {
			_ = store.Close(ctx)
			conn.Close()
			_ = server.Close(ctx)
		}
	}

	const task = "TASK_01JD0000000000000000000000"
	at := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	data, err := events.Encode(&events.Commit{
		Task: task, Rev: 1, At: at, Actor: "user:ada",
		Events: []events.Event{{Kind: events.LogWritten, Data: &events.Logged{Level: "INFO", Message: "hello", At: at}}},
	})
	if err != nil {
		panic(err)
	}
	store, stop := open()
	done := make(chan error)
	head := events.Head{Task: task, Rev: 1, State: "NEEDS_ACTION", Name: "hello", At: at, Created: at}
	go store.Append(events.Record{Head: head, Data: data}, func(_ uint64, err error) { done <- err })
	fmt.Println(<-done)
	stop()

	store, stop = open()
	defer stop()
	for commit, err := range store.Read(ctx, task, 1) {
		fmt.Println(commit.Seq, string(commit.Data) == string(data), err)
	}
	// Output:
	// <nil>
	// 1 true <nil>
}

package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/node"
)

// A node is the whole program in one call: an embedded server, the owner of tasks, and a worker.
func ExampleStart() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.WriteFile(filepath.Join(dir, "notes.md"), []byte("# Notes\n"), 0o600); err != nil {
		panic(err)
	}
	ctx := context.Background()
	n, err := node.Start(ctx, node.Config{
		DataDir: filepath.Join(dir, ".data"), Root: dir, Storage: node.Storage{Durability: "relaxed"}, Worker: node.Worker{Concurrency: 1},
	})
	if err != nil {
		panic(err)
	}
	defer func() { _ = n.Stop(ctx) }()

	text, _ := json.Marshal(`orch: v1
name: look
steps:
  - {id: read, tool: FILE_READ, with: {file_path: "${{ task.root }}/notes.md"}}
outputs:
  lines: ${{ steps.read.output.total_lines }}
`)
	task, err := n.API().Submit(ctx, api.SubmitRequest{Plan: text, Actor: "user:ada"})
	if err != nil {
		panic(err)
	}
	result, err := n.API().Result(ctx, api.ResultRequest{ID: task.ID, Wait: time.Minute})
	fmt.Println(result.State, string(result.Output), err)
	replay, err := n.API().Replay(ctx, api.ReplayRequest{ID: task.ID})
	fmt.Println(replay.Chain, *replay.Live, err)
	// Output:
	// DONE {"lines":1} <nil>
	// true true <nil>
}

package main

import (
	"context"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/tools"
)

// nodes connects commands to nodes. All errors are *fault.Error.
type nodes interface {
	// Dial connects to a running node; UNAVAILABLE if there is none.
	Dial(ctx context.Context, cfg config.Config) (session, error)
	// Open connects to a running node, or else starts one inside this process. In idle mode, it starts no calls and only
	// answers requests.
	Open(ctx context.Context, cfg config.Config, mode mode) (session, error)
	// Serve runs a node until ctx ends and it has stopped. It calls waits with a command that has to hand over the data
	// directory first, and ready with the address of the bus and that of MCP, which may be "".
	Serve(ctx context.Context, cfg config.Config, waits func(bus.Holder), ready func(address, mcp string)) error
	// Nodes lists the nodes that share the log.
	Nodes(ctx context.Context, cfg config.Config) (node.NodesReply, error)
	// Work runs a worker until ctx ends and it has drained.
	Work(ctx context.Context, cfg config.Config) error
	// Verify checks the whole log. It calls progress with the checked and the total number of positions.
	Verify(ctx context.Context, cfg config.Config, progress func(done, total uint64)) (verifyResult, error)
	// Inspect checks the files of the data directory, which a running node may use meanwhile.
	Inspect(ctx context.Context, cfg config.Config) (verifyResult, error)
	// Salvage removes what is damaged in the data directory; CONFLICT if a node uses it.
	Salvage(ctx context.Context, cfg config.Config) (bus.Salvaged, error)
	// Backup checks the whole log and copies it to a new file. It calls tell with what it is doing.
	Backup(ctx context.Context, cfg config.Config, file string, credentials bool, tell func(string)) (backupReport, error)
	// Restore creates the data directory from a backup.
	Restore(ctx context.Context, cfg config.Config, file string, replace bool, tell func(string)) (backupReport, error)
	// Tokens opens the list of bearer tokens while do runs.
	Tokens(ctx context.Context, cfg config.Config, do func(bus.TokenStore) error) error
	// Tools returns the catalogue of this program, always the same one.
	Tools() (*tools.Catalogue, error)
}

// verifyResult is the result of checking the whole log.
type verifyResult struct {
	// Report is the report of the check; it can be encoded as JSON.
	Report any
	// Found counts deviations from what was written. Problems lists them, up to a limit.
	Found    int
	Problems []string
	// Newer counts the commits that only a newer orch can check.
	Newer uint64
	// Lost is what a salvage has removed, nil for nothing.
	Lost *bus.Lost
	// Mended is damage without a loss, which the next start repairs.
	Mended []string
}

// mode is what a node inside this process does.
type mode int

const (
	// idle answers requests and starts no calls.
	idle mode = iota
	// working executes tasks while a command runs. staying does so until it is stopped.
	working
	staying
)

// session is a connection to a node for one command.
type session interface {
	api.API
	agents.Service
	node.Asker
	// Embedded reports whether the node runs in this process and ends with the session.
	Embedded() bool
	// Identity returns the authenticated identity of this process, such as user:ada; empty if it is not known.
	Identity() string
	// Close ends the session. An embedded node stops gracefully; ctx limits how long that takes.
	Close(ctx context.Context) error
}

// backupReport is the result of a backup or a restore.
type backupReport struct {
	File    string `json:"file"`
	DataDir string `json:"data_dir"`
	// Bytes is the size of the content. Tasks and Commits are what a restore has restored.
	Bytes   int64 `json:"bytes"`
	Tasks   int   `json:"tasks,omitempty"`
	Commits int   `json:"commits,omitempty"`
	// Aside is where a restore moved the former content of the data directory.
	Aside string `json:"aside,omitempty"`
}

// isLost reports whether the node is gone: it cannot be reached, or it stopped while it held the request.
func isLost(err error) bool {
	return fault.Has(err, fault.Unavailable) || fault.Has(err, fault.Cancelled)
}

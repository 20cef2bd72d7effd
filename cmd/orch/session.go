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

// nodes is how commands reach a node. All errors are *fault.Error.
type nodes interface {
	// Dial connects to a running node; UNAVAILABLE when there is none.
	Dial(ctx context.Context, cfg config.Config) (session, error)
	// Open connects to a running node, or else starts one inside this process. An idle one starts no
	// calls: it only answers.
	Open(ctx context.Context, cfg config.Config, mode mode) (session, error)
	// Serve runs a node until ctx ends and it has stopped. waits is told of a command that has to give the data directory
	// up before; ready is told the address and where the node speaks MCP, "" for nowhere.
	Serve(ctx context.Context, cfg config.Config, waits func(bus.Holder), ready func(address, mcp string)) error
	// Nodes lists the nodes that share the log.
	Nodes(ctx context.Context, cfg config.Config) (node.NodesReply, error)
	// Work runs a worker until ctx ends and it has drained.
	Work(ctx context.Context, cfg config.Config) error
	// Verify reads the whole log and checks it; progress is told the positions done and in all.
	Verify(ctx context.Context, cfg config.Config, progress func(done, total uint64)) (verifyResult, error)
	// Inspect checks the files of the data directory, which a running node may use meanwhile.
	Inspect(ctx context.Context, cfg config.Config) (verifyResult, error)
	// Salvage gives up what is damaged in the data directory; CONFLICT when a node runs on it.
	Salvage(ctx context.Context, cfg config.Config) (bus.Salvaged, error)
	// Backup checks the whole log and copies it to a new file; tell is told what is in work.
	Backup(ctx context.Context, cfg config.Config, file string, credentials bool, tell func(string)) (backupReport, error)
	// Restore makes the data directory of a backup.
	Restore(ctx context.Context, cfg config.Config, file string, replace bool, tell func(string)) (backupReport, error)
	// Tokens opens the list of bearer tokens for the length of do.
	Tokens(ctx context.Context, cfg config.Config, do func(bus.TokenStore) error) error
	// Tools returns the catalogue of this program, always the same one.
	Tools() (*tools.Catalogue, error)
}

// verifyResult is what a check of the whole log found.
type verifyResult struct {
	// Report is the document of the check; it can be written as JSON.
	Report any
	// Found counts what is not as it was written; Problems says it, one a line, as far as it is kept.
	Found    int
	Problems []string
	// Newer counts the commits that only a newer orch can check.
	Newer uint64
	// Lost is what a salvage has given up, nil when nothing was.
	Lost *bus.Lost
	// Mended is damage without a loss, which the next start mends.
	Mended []string
}

// mode is what a node inside this process does.
type mode int

const (
	// idle answers, and starts no calls.
	idle mode = iota
	// working executes tasks, for as long as a command takes; staying does so until it is told to stop.
	working
	staying
)

// session is a connection to a node for the length of a command.
type session interface {
	api.API
	agents.Service
	node.Asker
	// Embedded reports whether the node lives in this process and ends with the session.
	Embedded() bool
	// Identity is whom the node takes this process for, such as user:ada; empty when it does not say.
	Identity() string
	// Close ends the session. An embedded node stops gracefully; ctx limits how long that takes.
	Close(ctx context.Context) error
}

// backupReport is what a backup or a restore did.
type backupReport struct {
	File    string `json:"file"`
	DataDir string `json:"data_dir"`
	// Bytes is the size of the content, Tasks and Commits what a restore brought back.
	Bytes   int64 `json:"bytes"`
	Tasks   int   `json:"tasks,omitempty"`
	Commits int   `json:"commits,omitempty"`
	// Aside is where a restore put the former content of the data directory.
	Aside string `json:"aside,omitempty"`
}

// isLost reports whether the node went away: it cannot be reached, or it stopped while it held the
// request.
func isLost(err error) bool {
	return fault.Has(err, fault.Unavailable) || fault.Has(err, fault.Cancelled)
}

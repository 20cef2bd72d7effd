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

// nodes connects commands to nodes, and runs nodes and workers. All errors are *fault.Error.
type nodes interface {
	// Dial connects to a running node. It returns UNAVAILABLE if there is none.
	Dial(ctx context.Context, cfg config.Config) (session, error)
	// Attach connects to a running node for a command in the given mode. It returns UNAVAILABLE if there is none.
	Attach(ctx context.Context, cfg config.Config, mode mode) (session, error)
	// Open connects to a running node. If there is none, it starts one in this process, in the given mode.
	Open(ctx context.Context, cfg config.Config, mode mode) (session, error)
	// Serve runs a node until ctx ends, and returns when the node has stopped. If the temporary node of a command holds the data
	// directory, it calls waits with that command. It calls ready with the address of the bus and the URL of MCP, which is "" if
	// MCP is not served.
	Serve(ctx context.Context, cfg config.Config, waits func(bus.Holder), ready func(address, mcp string)) error
	// Nodes lists the nodes that share the log.
	Nodes(ctx context.Context, cfg config.Config) (node.NodesReply, error)
	// Work runs a worker until ctx ends, and returns when the worker has drained.
	Work(ctx context.Context, cfg config.Config) error
	// Verify checks the whole log. It calls progress with the checked and the total number of positions.
	Verify(ctx context.Context, cfg config.Config, progress func(done, total uint64)) (verifyResult, error)
	// Inspect checks the files of the data directory. A running node may use them meanwhile.
	Inspect(ctx context.Context, cfg config.Config) (verifyResult, error)
	// Salvage removes damaged records from the data directory. It returns CONFLICT if a node uses the directory.
	Salvage(ctx context.Context, cfg config.Config) (bus.Salvaged, error)
	// StoreVersion returns the version of the store in the data directory. FinalizeStore raises it to the newest.
	StoreVersion(cfg config.Config) (bus.VersionInfo, error)
	FinalizeStore(cfg config.Config) (bus.VersionInfo, error)
	// Backup checks the whole log and copies it to a new file. It calls tell with messages about its progress.
	Backup(ctx context.Context, cfg config.Config, file string, credentials bool, tell func(string)) (backupReport, error)
	// Restore creates the data directory from a backup.
	Restore(ctx context.Context, cfg config.Config, file string, replace bool, tell func(string)) (backupReport, error)
	// Tokens opens the list of bearer tokens while do runs.
	Tokens(ctx context.Context, cfg config.Config, do func(bus.TokenStore) error) error
	// Tools returns the tools of this program. All calls return the same catalogue.
	Tools() (*tools.Catalogue, error)
}

// verifyResult is the result of checking the whole log.
type verifyResult struct {
	// Report is the complete report of the check, for JSON.
	Report any
	// Found is the number of problems. Problems lists them, up to a limit.
	Found    int
	Problems []string
	// Newer is the number of commits that only a newer version of orch can check.
	Newer uint64
	// Lost lists the records that an earlier salvage has removed; nil if there was none.
	Lost *bus.Lost
	// Mended lists damage that the next start of a node repairs without loss.
	Mended []string
}

// mode determines which calls a node inside this process executes.
type mode int

const (
	// idle nodes answer requests and execute no calls.
	idle mode = iota
	// working nodes execute tasks while a command runs. staying nodes execute tasks until they are stopped.
	working
	staying
	// detached is like working, but a command that finds a running node leaves its calls to the workers of others.
	detached
)

// session is a connection to a node for one command.
type session interface {
	api.API
	agents.Service
	node.Asker
	// Embedded reports whether the node runs in this process and ends with the session.
	Embedded() bool
	// Identity returns the authenticated identity of this process, such as user:ada; empty if unknown.
	Identity() string
	// Close ends the session. An embedded node stops gracefully; ctx limits how long that takes.
	Close(ctx context.Context) error
}

// backupReport is the result of a backup or a restore.
type backupReport struct {
	File    string `json:"file"`
	DataDir string `json:"data_dir,omitempty"`
	// Servers are the servers of a cluster to which a backup was restored, in place of DataDir.
	Servers string `json:"servers,omitempty"`
	// Bytes is the size of the content. Tasks and Commits are the numbers of restored tasks and commits.
	Bytes   int64 `json:"bytes"`
	Tasks   int   `json:"tasks,omitempty"`
	Commits int   `json:"commits,omitempty"`
	// Aside is the path to which a restore has moved the former content of the data directory.
	Aside string `json:"aside,omitempty"`
}

// isLost reports whether err means that the node cannot be reached, or that it stopped during the request.
func isLost(err error) bool {
	return fault.Has(err, fault.Unavailable) || fault.Has(err, fault.Cancelled)
}

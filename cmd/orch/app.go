package main

import (
	"context"
	"os"
	"sync"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/rpc"
)

// app is the command line of a process: its connection to nodes and its tools, which all commands share.
type app struct {
	*connector

	tools *toolset
}

// newApp returns the command line of this process.
func newApp() *app {
	return newAppAt(&connector{env: newEnv(), user: osUser(), nodes: newProcessNodes(os.Stderr)})
}

// newAppAt returns a command line that uses cn to connect to nodes.
func newAppAt(cn *connector) *app {
	return &app{connector: cn, tools: &toolset{connector: cn, defined: &definitions{env: cn.env}}}
}

// noteRefusal returns a function that notes the first refusal of an overloaded node.
func (a *app) noteRefusal() func(*fault.Error) {
	var once sync.Once
	return func(refusal *fault.Error) {
		once.Do(func() { a.note("%s; nothing of it was done, trying again", refusal.Message) })
	}
}

// run executes a command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(rpc.OnRefusal(ctx, a.noteRefusal()))
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil && fault.Has(err, fault.Cancelled) {
		a.note("interrupted")
		return exitDetached
	}
	return a.report(err, args)
}

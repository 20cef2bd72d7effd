// Command orch runs plans of tool calls as durable tasks: it is the node, the worker, and the command
// line for both.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(orch()) }

// orch runs the command line of the process and returns its exit code. The first interrupt asks the
// command to stop, the second one ends the process.
func orch() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return newApp().run(ctx, os.Args[1:])
}

// Command orch runs plans of tool calls as durable tasks: it is the node, the worker, and the command
// line for both.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

func main() {
	// Memory that is never touched costs nothing, but it counts when the garbage collector chooses its
	// next run: a small heap is not collected all the time. GOGC keeps its meaning for what comes on top.
	floor := make([]byte, heapFloor)
	code := orch()
	runtime.KeepAlive(floor)
	os.Exit(code)
}

// heapFloor is the size in bytes below which the heap is left alone; the collector runs at twice that.
const heapFloor = 64 << 20

// orch runs the command line of the process and returns its exit code. The first interrupt asks the
// command to stop, the second one ends the process.
func orch() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return newApp().run(ctx, os.Args[1:])
}

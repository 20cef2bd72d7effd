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
	floor := heapFloor()
	code := orch()
	runtime.KeepAlive(floor)
	os.Exit(code)
}

// heapFloor returns 64 MiB of memory that is never touched. It costs nothing, but it counts when the garbage collector chooses
// its next run: the collector runs at twice that, so that a small heap is not collected all the time. GOGC keeps its meaning
// for what comes on top.
//
// Memory that was in use before is filled with zeros, all of a piece when a part was, and with that takes room. Whatever was
// freed before main makes up the end of the heap then and goes into the small piece, so that the large one is new.
func heapFloor() [2][]byte {
	const used, unused = 4 << 20, 60 << 20
	return [...][]byte{make([]byte, used), make([]byte, unused)}
}

// orch runs the command line of the process and returns its exit code. The first interrupt asks the
// command to stop, the second one ends the process.
func orch() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return newApp().run(ctx, os.Args[1:])
}

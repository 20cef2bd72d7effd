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

// heapFloor returns 64 MiB of memory that is never touched. It costs nothing, but the garbage collector counts it when it
// chooses its next run, at twice the heap. So a small heap is not collected all the time. GOGC applies as usual to memory
// beyond that.
//
// Memory that was in use before would be cleared, and clearing uses real memory for the whole block even if only a part was
// used. Memory that was freed before main is at the end of the heap, where the small block takes it, so that the large block is
// new.
func heapFloor() [2][]byte {
	const used, unused = 4 << 20, 60 << 20
	return [...][]byte{make([]byte, used), make([]byte, unused)}
}

// orch runs the command line of the process and returns its exit code. The first interrupt asks the command to stop, the second
// one ends the process.
func orch() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return newApp().run(ctx, os.Args[1:])
}

// Command orch runs plans of tool calls as durable tasks. It contains the node, the worker, and the command line for both.
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

// heapFloor allocates 32 MiB that are never touched. They use no physical memory, but the garbage collector counts them: its
// next run is at twice the size of the heap, so it does not run all the time while the heap is small.
//
// The memory is allocated as two blocks. If a block reused memory that was freed before main, the runtime would clear it, and
// the whole block would use physical memory. The small block takes such memory, so that the large block is new.
func heapFloor() [2][]byte {
	const used, unused = 4 << 20, 28 << 20
	return [...][]byte{make([]byte, used), make([]byte, unused)}
}

// orch runs the command line of the process and returns its exit code. The first interrupt cancels the context of the command,
// the second one ends the process.
func orch() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return newApp().run(ctx, os.Args[1:])
}

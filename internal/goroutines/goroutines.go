// Package goroutines lets tests inspect the goroutines of a process.
package goroutines

import (
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
)

// Held returns the number of goroutines, without idle goroutines of pools.
func Held() int { return runtime.NumGoroutine() - idle(Stacks()) }

// Stacks returns the stacks of all goroutines, with the number of goroutines for each stack.
func Stacks() string {
	var text strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		return err.Error()
	}
	return text.String()
}

// idle counts the goroutines that wait for a job of their pool.
func idle(stacks string) (n int) {
	for block := range strings.SplitSeq(stacks, "\n\n") {
		count, _, _ := strings.Cut(block, " @ ")
		count = count[strings.LastIndexByte(count, '\n')+1:]
		if i, err := strconv.Atoi(count); err == nil && strings.Contains(block, "gopool.(*Pool).next") {
			n += i
		}
	}
	return n
}

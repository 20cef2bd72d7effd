// Package goroutines lets tests inspect the goroutines of a process.
package goroutines

import (
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
)

// Held returns the number of goroutines except those that are idle in a gopool.Pool.
func Held() int { return runtime.NumGoroutine() - idle(Stacks()) }

// Stacks returns the distinct stacks of all goroutines, each with the number of its goroutines.
func Stacks() string {
	var text strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		return err.Error()
	}
	return text.String()
}

// idle returns the number of goroutines that wait for the next job of a gopool.Pool.
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

// Package goroutines tells tests what a process is doing.
package goroutines

import (
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
)

// Held is the number of goroutines without those that a pool keeps for later jobs.
func Held() int { return runtime.NumGoroutine() - kept(Stacks()) }

// Stacks counts the goroutines of this process by what they do.
func Stacks() string {
	var text strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		return err.Error()
	}
	return text.String()
}

// kept counts the goroutines among the stacks that wait for a job of their pool.
func kept(stacks string) (n int) {
	for block := range strings.SplitSeq(stacks, "\n\n") {
		count, _, _ := strings.Cut(block, " @ ")
		count = count[strings.LastIndexByte(count, '\n')+1:]
		if i, err := strconv.Atoi(count); err == nil && strings.Contains(block, "gopool.(*Pool).next") {
			n += i
		}
	}
	return n
}

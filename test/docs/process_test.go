package docs_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// ports counts the ports that tests have been given.
var ports atomic.Int64

// endGroup asks the processes of a group to end, and kills those that do not.
func endGroup(t *testing.T, group int) {
	t.Helper()
	const between, patience = 50 * time.Millisecond, 20 * time.Second
	_ = syscall.Kill(-group, syscall.SIGTERM) // it may be gone
	tick := time.NewTicker(between)
	defer tick.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for runs(group) {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Errorf("processes of the page do not end: %d", group)
			_ = syscall.Kill(-group, syscall.SIGKILL) // the test has failed already
			return
		}
	}
}

// runs reports whether a process of a group has not ended. One that nobody has waited for has.
func runs(group int) bool {
	found, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	for _, name := range found {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// After the name of the program in parentheses: state, parent, group.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) > 2 && fields[2] == strconv.Itoa(group) && fields[0] != "Z" {
			return true
		}
	}
	return false
}

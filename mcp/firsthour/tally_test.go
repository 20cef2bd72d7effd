package firsthour_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// maxBytes is the most bytes that an agent reads for 20 tasks, lists and results together: about twice the value at the time of writing.
const maxBytes = 640 << 10

// cost is the cost of tasks for their agents.
type cost struct {
	tasks, calls, forms int
	// lists and results are bytes as the SDK encodes them again, with hints that the list leaves out.
	lists, results int
}

// tally adds up costs by kind of task.
type tally struct {
	mu    sync.Mutex
	kinds map[string]cost
}

func (y *tally) add(kind string, c cost) {
	y.mu.Lock()
	defer y.mu.Unlock()
	sum := y.kinds[kind]
	y.kinds[kind] = cost{sum.tasks + c.tasks, sum.calls + c.calls, sum.forms + c.forms, sum.lists + c.lists, sum.results + c.results}
}

// check prints the costs of each kind, and checks their total.
func (y *tally) check(t *testing.T) {
	t.Helper()
	bytes := 0
	for _, kind := range kinds() {
		c := y.kinds[kind.name]
		t.Logf("%-8s %2d tasks, %3d calls, %2d forms, %6d bytes of lists, %6d bytes of results", kind.name, c.tasks, c.calls, c.forms, c.lists, c.results)
		bytes += c.lists + c.results
	}
	assert.LessOrEqual(t, bytes, maxBytes)
}

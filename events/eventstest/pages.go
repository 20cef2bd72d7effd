package eventstest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
)

func testReadFrom(t *testing.T, log events.Log) {
	t.Helper()
	c := NewChain()
	all := c.Grow(t, log, 5)
	assert.Equal(t, all, History(t, log, c.Task, 0))
	assert.Equal(t, all[3:], History(t, log, c.Task, 4))
	assert.Empty(t, History(t, log, c.Task, 6))
}

// testPages checks pages from every revision of a history among others, live and archived.
func testPages(t *testing.T, log events.Log) {
	t.Helper()
	const commits, page = 150, 3
	c, other := NewChain(), NewChain()
	var all []events.Stored
	for i := range commits {
		other.Grow(t, log, i%4)
		all = append(all, c.Grow(t, log, 1)...)
	}
	check := func() {
		for _, from := range []int{60, 1, commits} { // so that a store that remembers readers also gets some from elsewhere
			for i := range commits {
				first := (from-1+i)%commits + 1
				end := min(first-1+page, commits)
				assert.Equal(t, all[first-1:end], Page(t, log, c.Task, uint64(first), page), "from revision %d", first) //nolint:gosec // small
			}
		}
		assert.Empty(t, Page(t, log, c.Task, commits+1, page))
		assert.Empty(t, Page(t, log, c.Task, commits+1000, page))
	}
	check()
	require.NoError(t, log.Archive(t.Context(), c.Task))
	all = archived(all)
	check()
}

// testReadersOfGrowingLog checks that readers who follow a history get each commit once, until the task is archived.
func testReadersOfGrowingLog(t *testing.T, log events.Log) {
	t.Helper()
	const rounds, page = 60, 7
	c, other := NewChain(), NewChain()
	var all, fast, slow []events.Stored
	for range rounds {
		all = append(all, c.Grow(t, log, 2)...)
		other.Grow(t, log, 3)
		fast = append(fast, Page(t, log, c.Task, uint64(len(fast))+1, page)...)
		slow = append(slow, Page(t, log, c.Task, uint64(len(slow))+1, 1)...)
	}
	assert.Equal(t, all, fast)
	assert.Equal(t, all[:rounds], slow)
	require.NoError(t, log.Archive(t.Context(), c.Task))
	assert.Equal(t, archived(all[rounds:]), History(t, log, c.Task, rounds+1))
}

func testLongHistory(t *testing.T, log events.Log) {
	t.Helper()
	const commits = 1200 // more than one page of any store
	c := NewChain()
	all := c.Grow(t, log, commits)
	assert.Equal(t, all, History(t, log, c.Task, 1))
	assert.Equal(t, all, scanFrom(t.Context(), t, log, 0))
	require.NoError(t, log.Archive(t.Context(), c.Task))
	assert.Equal(t, archived(all), History(t, log, c.Task, 1))
}

package eventstest

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Reopener is implemented by a log with persistent content. Reopen closes it and opens it again.
type Reopener interface {
	Reopen(t *testing.T) events.Log
}

// TestLog runs the conformance tests for events.Log. open returns a new and empty log each time and closes it at the
// end of the test.
func TestLog(t *testing.T, open func(t *testing.T) events.Log) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, events.Log){
		"append and read":          testAppendAndRead,
		"unknown task":             testUnknownTask,
		"hostile id":               testHostileID,
		"wrong After":              testWrongAfter,
		"racing appends":           testRacingAppends,
		"read from a revision":     testReadFrom,
		"pages":                    testPages,
		"readers of a growing log": testReadersOfGrowingLog,
		"long history":             testLongHistory,
		"readers may stop":         testReadersMayStop,
		"heads":                    testHeads,
		"scan":                     testScan,
		"archive":                  testArchive,
		"archive and append":       testArchiveThenAppend,
		"past":                     testArchivedHeads,
		"remove":                   testRemove,
		"many concurrent appends":  testManyAppends,
		"rivals among many":        testRivalsAmongMany,
		"cancelled context":        testCancelled,
		"content outlives the log": testReopen,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func testAppendAndRead(t *testing.T, log events.Log) {
	t.Helper()
	a, b := NewChain(), NewChain()
	first := a.Grow(t, log, 2)
	other := b.Grow(t, log, 1)
	first = append(first, a.Grow(t, log, 1)...)
	assert.Equal(t, first, History(t, log, a.Task, 1))
	assert.Equal(t, other, History(t, log, b.Task, 1))
	assert.Less(t, first[1].Seq, other[0].Seq, "positions grow with every append")
	assert.Less(t, other[0].Seq, first[2].Seq, "positions grow with every append")
	checkLinks(t, first)
}

func checkLinks(t *testing.T, history []events.Stored) {
	t.Helper()
	prev := ""
	for i, s := range history {
		c, err := events.Decode(s.Data)
		require.NoError(t, err)
		require.NoError(t, c.CheckLink(uint64(i), prev))
		prev = events.Hash(s.Data)
	}
}

func testUnknownTask(t *testing.T, log events.Log) {
	t.Helper()
	assert.Empty(t, History(t, log, NewChain().Task, 1))
	assert.Empty(t, HeadsOf(t, log))
	assert.Empty(t, ArchivedHeadsOf(t, log))
	assert.Empty(t, scanFrom(t.Context(), t, log, 0))
	err := log.Archive(t.Context(), NewChain().Task)
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
}

func testHostileID(t *testing.T, log events.Log) {
	t.Helper()
	for _, id := range []events.TaskID{"", "*", ">", "TASK_>", "TASK_ a", "TASK_../../etc/passwd"} {
		r := NewChain().Next(t, "node")
		r.Task = id
		_, err := Append(log, r)
		assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err), "append %q", id)
		for _, err := range log.Read(t.Context(), id, 1) {
			assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err), "read %q", id)
		}
		assert.Equal(t, fault.InvalidFormat, fault.CodeOf(log.Archive(t.Context(), id)), "archive %q", id)
	}
	assert.Empty(t, HeadsOf(t, log))
}

func testWrongAfter(t *testing.T, log events.Log) {
	t.Helper()
	c := NewChain()
	early := c.Next(t, "late starter")
	stored := c.Grow(t, log, 2)
	_, err := Append(log, early)
	assert.Equal(t, fault.Conflict, fault.CodeOf(err), "a second first commit")
	for _, after := range []uint64{stored[0].Seq, stored[1].Seq + 1000} {
		r := c.Next(t, "node")
		r.After = after
		_, err := Append(log, r)
		assert.Equal(t, fault.Conflict, fault.CodeOf(err), "after %d", after)
	}
	unborn := NewChain().Next(t, "node")
	unborn.After = stored[0].Seq
	_, err = Append(log, unborn)
	assert.Equal(t, fault.Conflict, fault.CodeOf(err), "a task that has no commit")
	assert.Equal(t, stored, History(t, log, c.Task, 1), "a refused append leaves nothing")
}

// of fifty concurrent appends to one task, exactly one succeeds.
func testRacingAppends(t *testing.T, log events.Log) {
	t.Helper()
	const rivals, rounds = 50, 5
	c := NewChain()
	for range rounds {
		records := make([]events.Record, rivals)
		for i := range records {
			records[i] = c.Next(t, "worker:"+strconv.Itoa(i))
		}
		seqs, errs := appendAll(t, log, records)
		winner := -1
		for i, err := range errs {
			if err == nil {
				require.Equal(t, -1, winner, "two winners")
				winner = i
				continue
			}
			require.Equal(t, fault.Conflict, fault.CodeOf(err))
		}
		require.NotEqual(t, -1, winner, "no winner")
		c.Accept(records[winner], seqs[winner])
		history := History(t, log, c.Task, c.Rev)
		require.Len(t, history, 1)
		assert.Equal(t, records[winner].Data, history[0].Data)
	}
}

// appendAll appends all records concurrently. It fails the test when an answer is missing or arrives twice.
func appendAll(t *testing.T, log events.Log, records []events.Record) ([]uint64, []error) {
	t.Helper()
	seqs, errs := make([]uint64, len(records)), make([]error, len(records))
	answers := make([]atomic.Int32, len(records))
	var appended, answered sync.WaitGroup
	answered.Add(len(records))
	for i, r := range records {
		appended.Go(func() {
			log.Append(r, func(seq uint64, err error) {
				if answers[i].Add(1) == 1 {
					seqs[i], errs[i] = seq, err
					answered.Done()
				}
			})
		})
	}
	appended.Wait()
	within(t, answered.Wait)
	for i := range answers {
		require.Equal(t, int32(1), answers[i].Load(), "done is called exactly once")
	}
	return seqs, errs
}

// within fails the test when wait does not return. The limit is far beyond what a busy machine needs.
func within(t *testing.T, wait func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait()
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Minute):
		require.FailNow(t, "appends are not answered")
	}
}

func testReadersMayStop(t *testing.T, log events.Log) {
	t.Helper()
	c := NewChain()
	all := c.Grow(t, log, 3)
	NewChain().Grow(t, log, 1)
	for got, err := range log.Read(t.Context(), c.Task, 1) {
		require.NoError(t, err)
		assert.Equal(t, all[0], got)
		break
	}
	for got, err := range log.Scan(t.Context(), 0) {
		require.NoError(t, err)
		assert.Equal(t, all[0], got)
		break
	}
	heads := 0
	for _, err := range log.Heads(t.Context()) {
		require.NoError(t, err)
		heads++
		break
	}
	assert.Equal(t, 1, heads)
}

func testHeads(t *testing.T, log events.Log) {
	t.Helper()
	want := map[events.TaskID]events.Head{}
	parent := NewChain()
	for i := range 20 {
		c := NewChain()
		c.Grow(t, log, i%3)
		r := c.Next(t, "node")
		r.State, r.Name, r.Parent = "STATE_"+strconv.Itoa(i), "task "+strconv.Itoa(i)+" — \"ä\"", parent.Task
		seq, err := Append(log, r)
		require.NoError(t, err)
		h := r.Head
		h.Seq = seq
		want[c.Task] = h
	}
	assert.Equal(t, want, HeadsOf(t, log))
}

func testScan(t *testing.T, log events.Log) {
	t.Helper()
	a, b := NewChain(), NewChain()
	var all []events.Stored
	for range 4 {
		all = append(all, a.Grow(t, log, 1)...)
		all = append(all, b.Grow(t, log, 1)...)
	}
	assert.Equal(t, all, scanFrom(t.Context(), t, log, 0))
	assert.Equal(t, all[3:], scanFrom(t.Context(), t, log, all[3].Seq))
	assert.Empty(t, scanFrom(t.Context(), t, log, all[7].Seq+1))
	var seen []events.Stored
	for c, err := range log.Scan(t.Context(), 0) {
		require.NoError(t, err)
		if len(seen) == 0 {
			a.Grow(t, log, 1)
		}
		seen = append(seen, c)
	}
	assert.Equal(t, all, seen, "a scan ends where the log ended when it began")
}

func testArchive(t *testing.T, log events.Log) {
	t.Helper()
	gone, stays := NewChain(), NewChain()
	history := gone.Grow(t, log, 3)
	live := stays.Grow(t, log, 2)
	require.NoError(t, log.Archive(t.Context(), gone.Task))
	require.NoError(t, log.Archive(t.Context(), gone.Task), "archiving twice changes nothing")
	assert.Equal(t, archived(history), History(t, log, gone.Task, 1))
	assert.Equal(t, archived(history[2:]), History(t, log, gone.Task, 3))
	assert.NotContains(t, HeadsOf(t, log), gone.Task)
	assert.Contains(t, HeadsOf(t, log), stays.Task)
	assert.Equal(t, live, scanFrom(t.Context(), t, log, 0))
}

func testArchiveThenAppend(t *testing.T, log events.Log) {
	t.Helper()
	c := &Chain{Task: events.NewTaskID(time.Now().Add(-24 * time.Hour))}
	first := c.Next(t, "node")
	history := c.Grow(t, log, 2)
	require.NoError(t, log.Archive(t.Context(), c.Task))
	for _, r := range []events.Record{first, c.Next(t, "node")} {
		_, err := Append(log, r)
		assert.Equal(t, fault.Conflict, fault.CodeOf(err), "an archived history is closed (after %d)", r.After)
	}
	assert.Equal(t, archived(history), History(t, log, c.Task, 1))
	newborn := NewChain()
	newborn.Grow(t, log, 1)
	require.NoError(t, log.Archive(t.Context(), newborn.Task))
	again := newborn.Next(t, "node")
	again.After = 0
	_, err := Append(log, again)
	assert.Equal(t, fault.Conflict, fault.CodeOf(err), "an archived history is closed, however young")
}

// testRemove checks that a removal is permanent, that other tasks stay, and that a second call changes nothing.
func testRemove(t *testing.T, log events.Log) {
	t.Helper()
	gone, live, stays := &Chain{Task: events.NewTaskID(time.Now().Add(-24 * time.Hour))}, NewChain(), NewChain()
	gone.Grow(t, log, 3)
	liveHistory, history := live.Grow(t, log, 1), stays.Grow(t, log, 2)
	again := gone.Next(t, "node")
	require.NoError(t, log.Archive(t.Context(), gone.Task))
	require.NoError(t, log.Archive(t.Context(), stays.Task))
	for range 2 {
		require.NoError(t, log.Remove(t.Context(), []events.TaskID{gone.Task, live.Task, NewChain().Task}))
	}
	for _, err := range log.Read(t.Context(), gone.Task, 1) {
		assert.Equal(t, fault.Gone, fault.CodeOf(err))
		require.ErrorContains(t, err, "removed by retention")
	}
	again.After = 0
	_, err := Append(log, again)
	assert.Equal(t, fault.Gone, fault.CodeOf(err), "its id is not given to another task")
	assert.Equal(t, liveHistory, History(t, log, live.Task, 1), "what is not archived stays")
	assert.Equal(t, archived(history), History(t, log, stays.Task, 1))
	assert.NotContains(t, ArchivedHeadsOf(t, log), gone.Task)
	assert.Equal(t, fault.InvalidFormat, fault.CodeOf(log.Remove(t.Context(), []events.TaskID{"*"})))
}

// testArchivedHeads checks that an archived task keeps the head that it had in the live log.
func testArchivedHeads(t *testing.T, log events.Log) {
	t.Helper()
	parent, want := NewChain(), map[events.TaskID]events.Head{}
	parent.Grow(t, log, 1)
	for i := range 150 {
		c := NewChain()
		c.Grow(t, log, i%3)
		r := c.Next(t, "node")
		r.State, r.Name, r.Parent = "STATE_"+strconv.Itoa(i), "task "+strconv.Itoa(i)+" — \"ä\"", parent.Task
		seq, err := Append(log, r)
		require.NoError(t, err)
		h := r.Head
		h.Seq = seq
		want[c.Task] = h
	}
	assert.Empty(t, ArchivedHeadsOf(t, log), "live tasks are not past")
	assert.False(t, hasArchived(t, log), "nor do they count as such")
	for task := range want {
		require.NoError(t, log.Archive(t.Context(), task))
	}
	assert.Equal(t, want, ArchivedHeadsOf(t, log))
	assert.True(t, hasArchived(t, log))
	assert.Len(t, HeadsOf(t, log), 1)
	seen := 0
	for _, err := range log.ArchivedHeads(t.Context()) {
		require.NoError(t, err)
		seen++
		break
	}
	assert.Equal(t, 1, seen, "a reader may stop")
}

func hasArchived(t *testing.T, log events.Log) bool {
	t.Helper()
	has, err := log.HasArchived(t.Context())
	require.NoError(t, err)
	return has
}

func testManyAppends(t *testing.T, log events.Log) {
	t.Helper()
	const tasks, revs = 1500, 4
	chains := make([]*Chain, tasks)
	for i := range chains {
		chains[i] = NewChain()
	}
	for range revs {
		records := make([]events.Record, tasks)
		for i, c := range chains {
			records[i] = c.Next(t, "node")
		}
		seqs, errs := appendAll(t, log, records)
		for i, c := range chains {
			require.NoError(t, errs[i])
			c.Accept(records[i], seqs[i])
		}
	}
	bySeq := map[uint64]events.Stored{}
	for _, s := range scanFrom(t.Context(), t, log, 0) {
		bySeq[s.Seq] = s
	}
	require.Len(t, bySeq, tasks*revs)
	heads := HeadsOf(t, log)
	require.Len(t, heads, tasks)
	for _, c := range chains {
		require.Equal(t, c.After, heads[c.Task].Seq)
		require.Equal(t, c.prev, events.Hash(bySeq[c.After].Data), "the answer named the right position")
	}
	checkLinks(t, History(t, log, chains[0].Task, 1))
}

// testRivalsAmongMany appends conflicting commits of many tasks. For each task exactly one must succeed.
func testRivalsAmongMany(t *testing.T, log events.Log) {
	t.Helper()
	const tasks, rivals = 600, 3
	var records []events.Record
	for range tasks {
		c := NewChain()
		for i := range rivals {
			records = append(records, c.Next(t, "worker:"+strconv.Itoa(i)))
		}
	}
	seqs, errs := appendAll(t, log, records)
	stored := map[uint64]events.Stored{}
	for _, s := range scanFrom(t.Context(), t, log, 0) {
		stored[s.Seq] = s
	}
	assert.Len(t, stored, tasks)
	for i := range tasks {
		winners := 0
		for j := i * rivals; j < (i+1)*rivals; j++ {
			if errs[j] == nil {
				winners++
				require.Equal(t, records[j].Data, stored[seqs[j]].Data)
				continue
			}
			require.Equal(t, fault.Conflict, fault.CodeOf(errs[j]))
		}
		require.Equal(t, 1, winners)
	}
}

func testCancelled(t *testing.T, log events.Log) {
	t.Helper()
	c := NewChain()
	c.Grow(t, log, 2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	reads, scans, heads, past := 0, 0, 0, 0
	for _, err := range log.Read(ctx, c.Task, 1) {
		assert.Equal(t, fault.Cancelled, fault.CodeOf(err))
		reads++
	}
	for _, err := range log.Scan(ctx, 0) {
		assert.Equal(t, fault.Cancelled, fault.CodeOf(err))
		scans++
	}
	for _, err := range log.Heads(ctx) {
		assert.Equal(t, fault.Cancelled, fault.CodeOf(err))
		heads++
	}
	for _, err := range log.ArchivedHeads(ctx) {
		assert.Equal(t, fault.Cancelled, fault.CodeOf(err))
		past++
	}
	_, err := log.HasArchived(ctx)
	assert.Equal(t, fault.Cancelled, fault.CodeOf(err))
	assert.Equal(t, []int{1, 1, 1, 1}, []int{reads, scans, heads, past}, "the error is the only thing they yield")
}

func testReopen(t *testing.T, log events.Log) {
	t.Helper()
	c, old := NewChain(), NewChain()
	all := c.Grow(t, log, 3)
	gone := old.Grow(t, log, 2)
	require.NoError(t, log.Archive(t.Context(), old.Task))
	if r, ok := log.(Reopener); ok {
		log = r.Reopen(t)
	}
	assert.Equal(t, all, History(t, log, c.Task, 1))
	assert.Equal(t, archived(gone), History(t, log, old.Task, 1))
	past := ArchivedHeadsOf(t, log)
	assert.Len(t, past, 1)
	assert.True(t, hasArchived(t, log))
	assert.Equal(t, gone[1].Seq, past[old.Task].Seq)
	heads := HeadsOf(t, log)
	assert.Len(t, heads, 1)
	assert.Equal(t, c.After, heads[c.Task].Seq)
	c.Grow(t, log, 1)
	assert.Len(t, History(t, log, c.Task, 1), 4)
}

package bus_test

import (
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/test/need"
)

// histories returns a stopped node with count histories of three commits, each with a large value; archived ones on request.
func histories(t *testing.T, count int, archived bool) (*bustest.Node, []*eventstest.Chain) {
	t.Helper()
	n := bustest.NewNode(t, bus.ServerConfig{})
	var chains []*eventstest.Chain
	for range count {
		c := eventstest.NewChain()
		c.Grow(t, n, 3)
		if archived {
			require.NoError(t, n.Archive(t.Context(), c.Task))
		}
		chains = append(chains, c)
	}
	requireIntact(t, n)
	n.Stop(t)
	return n, chains
}

// spoil changes one bit of the message about a task that comes last in the blocks of a stream.
func spoil(t *testing.T, n *bustest.Node, stream string, task events.TaskID) {
	t.Helper()
	path := streamFiles(t, n, stream, "*.blk")[0]
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	at := strings.LastIndex(string(data), `"task":"`+string(task))
	if at < 0 { // the commits are compressed: look behind the headers
		at = strings.LastIndex(string(data), "."+string(task))
		require.Positive(t, at)
		at += strings.Index(string(data[at:]), event)
	}
	data[at+60] ^= 1
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

// A damaged record of the archive costs only its task: the node starts, reports it, and everything else works.
func TestArchiveDamageCostsOneTask(t *testing.T) {
	t.Parallel()
	for _, which := range []int{0, 2, 4} {
		n, chains := histories(t, 5, true)
		victim := chains[which].Task
		spoil(t, n, "ORCH_ARCHIVE", victim)
		report, err := bus.Inspect(t.Context(), n.Config.DataDir)
		require.NoError(t, err)
		require.Equal(t, 1, report.Found)
		assert.Equal(t, victim, report.Problems[0].Task)
		for range 2 {
			n.Start(t)
			requireOnlyLost(t, n, chains, victim)
			n.Stop(t)
		}
		requireListed(t, n, victim)
	}
}

// requireOnlyLost checks that all histories except the victims can be read and continued, and that nothing else is reported.
func requireOnlyLost(t *testing.T, n *bustest.Node, chains []*eventstest.Chain, victims ...events.TaskID) {
	t.Helper()
	for _, c := range chains {
		if !slices.Contains(victims, c.Task) {
			assert.Len(t, eventstest.History(t, n, c.Task, 1), 3)
			continue
		}
		for _, err := range n.Read(t.Context(), c.Task, 1) {
			assert.Equal(t, fault.Gone, fault.CodeOf(err))
		}
		fresh := &eventstest.Chain{Task: c.Task}
		_, err := eventstest.Append(n, fresh.Next(t, "node"))
		assert.Equal(t, fault.Gone, fault.CodeOf(err), "its id is not used again")
	}
	report, err := n.Verify(t.Context(), nil)
	require.NoError(t, err)
	assert.Empty(t, report.Problems)
	require.NotNil(t, report.Lost)
	assert.ElementsMatch(t, victims, slices.Collect(maps.Keys(report.Lost.Tasks)))
	last := report.Last
	more := eventstest.NewChain()
	stored := more.Grow(t, n, 1)
	assert.Equal(t, last+1, stored[0].Seq)
}

// requireListed checks that the quarantine has the copies and the list.
func requireListed(t *testing.T, n *bustest.Node, victim events.TaskID) {
	t.Helper()
	list, err := os.ReadFile(filepath.Join(n.Config.DataDir, "aside", "list.jsonl"))
	require.NoError(t, err)
	assert.Contains(t, string(list), string(victim))
	for line := range strings.Lines(string(list)) {
		var entry struct{ Copy string }
		require.NoError(t, json.Unmarshal([]byte(line), &entry))
		assert.FileExists(t, filepath.Join(n.Config.DataDir, entry.Copy))
	}
}

// A damaged commit prevents a start until its task is given up; everything else then works.
func TestSalvageGivesUpOneTask(t *testing.T) {
	t.Parallel()
	for _, which := range []int{0, 2, 4} {
		n, chains := histories(t, 5, false)
		victim := chains[which].Task
		spoil(t, n, "ORCH_EVENTS", victim)
		require.Equal(t, fault.DataLoss, fault.CodeOf(n.Serve(t)))
		done, err := bus.Salvage(t.Context(), n.Config.DataDir, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		require.Len(t, done.Cut, 1)
		require.Zero(t, done.Report.Found)
		n.Start(t)
		requireOnlyLost(t, n, chains, victim)
		n.Stop(t)
		requireListed(t, n, victim)
	}
}

// A salvage of a store that is not damaged changes nothing that keeps the node from starting, also where an older orch has
// left a list of losses that is not JSON.
func TestSalvageOfAnUndamagedStore(t *testing.T) {
	t.Parallel()
	n, _ := histories(t, 2, false)
	for range 2 {
		done, err := bus.Salvage(t.Context(), n.Config.DataDir, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		require.Empty(t, done.Cut)
		require.Zero(t, done.Report.Found, "%v", done.Report.Problems)
		require.Nil(t, done.Lost)
	}
	old := `{,"sum":"` + events.Hash([]byte("{}")) + `"}`
	require.NoError(t, os.WriteFile(filepath.Join(n.Config.DataDir, "lost.json"), []byte(old), 0o600))
	n.Start(t)
	n.Stop(t)
}

// neighbours is histories, but with the last commits of all of them beside each other.
func neighbours(t *testing.T, count int) (*bustest.Node, []*eventstest.Chain) {
	t.Helper()
	n := bustest.NewNode(t, bus.ServerConfig{})
	_, err := n.Put(t.Context(), []byte("a large value"))
	require.NoError(t, err)
	var chains []*eventstest.Chain
	for range count {
		c := eventstest.NewChain()
		c.Grow(t, n, 2)
		chains = append(chains, c)
	}
	for _, c := range chains {
		c.Grow(t, n, 1)
	}
	n.Stop(t)
	return n, chains
}

// neighboursIn returns five of them, and their stream.
func neighboursIn(t *testing.T, archived bool) (*bustest.Node, []*eventstest.Chain, string) {
	t.Helper()
	if archived {
		n, chains := histories(t, 5, true)
		return n, chains, "ORCH_ARCHIVE"
	}
	n, chains := neighbours(t, 5)
	return n, chains, "ORCH_EVENTS"
}

// change changes the bits of one byte of the last record about a task in a stream, so far after the beginning of its subject.
func change(t *testing.T, n *bustest.Node, stream string, task events.TaskID, after int, bits byte) {
	t.Helper()
	path := streamFiles(t, n, stream, "*.blk")[0]
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	grouped := `orch\.ar\.group\.[0-9A-Z]{7,11}.{4}NATS/1\.0\r\n(?:[\w-]+: [^\r]*\r\n)*?Orch-Task: `
	at := regexp.MustCompile(`(?s)orch\.ev\.\w+\.`+string(task)+`|`+grouped+string(task)).FindAllIndex(data, -1)
	require.NotEmpty(t, at)
	data[at[len(at)-1][0]+after] ^= bits
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

// lengthOf is the offset of the length of a record, relative to its subject.
const lengthOf = -22

// Adjacent damaged records cost the task of each, even if nothing else shows the loss.
func TestNeighboursAreAllGivenUp(t *testing.T) {
	t.Parallel()
	need.Long(t)
	for _, which := range [][2]int{{1, 3}, {1, 4}, {3, 5}} { // the last ones are the end of the log
		for _, length := range []bool{false, true} {
			for _, archived := range []bool{false, true} {
				n, chains, stream := neighboursIn(t, archived)
				var victims []events.TaskID
				for _, c := range chains[which[0]:which[1]] {
					spoil(t, n, stream, c.Task)
					victims = append(victims, c.Task)
				}
				if length {
					change(t, n, stream, victims[0], lengthOf, 0x55)
				}
				done, err := bus.Salvage(t.Context(), n.Config.DataDir, slog.New(slog.DiscardHandler))
				require.NoError(t, err)
				require.Zero(t, done.Report.Found)
				n.Start(t)
				requireOnlyLost(t, n, chains, victims...)
				n.Stop(t)
				for _, victim := range victims {
					requireListed(t, n, victim)
				}
			}
		}
	}
}

// If more commits may be lost than are known, nothing is salvaged, and nothing is changed.
func TestUncountedCommitsAreNotGivenUp(t *testing.T) {
	t.Parallel()
	for _, last := range []int{3, 5} { // in the middle and at the end
		n, chains := neighbours(t, 5)
		a, b := chains[last-2].Task, chains[last-1].Task
		spoil(t, n, "ORCH_EVENTS", b)
		change(t, n, "ORCH_EVENTS", a, lengthOf, 0x55)
		change(t, n, "ORCH_EVENTS", b, 0, 0x55)
		path := streamFiles(t, n, "ORCH_EVENTS", "*.blk")[0]
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		flip(t, streamFiles(t, n, "OBJ_ORCH_BLOBS", "*.blk")[0], "a large value", 0) // which could be cut out
		_, err = bus.Salvage(t.Context(), n.Config.DataDir, slog.New(slog.DiscardHandler))
		require.Equal(t, fault.DataLoss, fault.CodeOf(err))
		assert.Contains(t, fault.From(err).Hint, "orch restore")
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, before, after)
		assert.NoFileExists(t, filepath.Join(n.Config.DataDir, "lost.json"))
		assert.NoFileExists(t, filepath.Join(n.Config.DataDir, "aside", "list.jsonl"), "nothing was set aside")
	}
}

// A value that is damaged is given up, and the histories that name it stay.
func TestSalvageOfAValue(t *testing.T) {
	t.Parallel()
	need.Long(t)
	n, _ := filled(t)
	flip(t, streamFiles(t, n, "OBJ_ORCH_BLOBS", "*.blk")[0], "a large value", 0)
	require.Equal(t, fault.DataLoss, fault.CodeOf(n.Serve(t)))
	done, err := bus.Salvage(t.Context(), n.Config.DataDir, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.Zero(t, done.Report.Found, "%v", done.Report.Problems)
	require.NotNil(t, done.Lost)
	assert.Len(t, done.Lost.Values, 1)
	assert.Empty(t, done.Lost.Tasks)
	n.Start(t)
	requireIntact(t, n)
}

// Nothing is salvaged while a node runs, and damage of unknown extent needs a backup.
func TestSalvageRefuses(t *testing.T) {
	t.Parallel()
	n, _ := filled(t)
	n.Start(t)
	_, err := bus.Salvage(t.Context(), n.Config.DataDir, slog.New(slog.DiscardHandler))
	assert.Equal(t, fault.Conflict, fault.CodeOf(err))
	n.Stop(t)
	flipAt(t, filepath.Join(filepath.Dir(filepath.Dir(streamFiles(t, n, "ORCH_EVENTS", "*.blk")[0])), "meta.inf"), 0.5)
	_, err = bus.Salvage(t.Context(), n.Config.DataDir, slog.New(slog.DiscardHandler))
	assert.Equal(t, fault.DataLoss, fault.CodeOf(err))
	assert.NoFileExists(t, filepath.Join(n.Config.DataDir, "lost.json"))
}

// A backup of a store that has lost tasks can be restored, and reports them as well.
func TestBackupKnowsWhatIsLost(t *testing.T) {
	t.Parallel()
	n, chains := histories(t, 3, true)
	spoil(t, n, "ORCH_ARCHIVE", chains[1].Task)
	n.Start(t)
	file := filepath.Join(t.TempDir(), "a.backup")
	_, err := n.Backup(t.Context(), file, bus.BackupConfig{})
	require.NoError(t, err)
	to := filepath.Join(t.TempDir(), "restored")
	r, err := bus.Restore(t.Context(), bus.RestoreConfig{File: file, DataDir: to})
	require.NoError(t, err)
	require.NotNil(t, r.Report.Lost)
	assert.Contains(t, r.Report.Lost.Tasks, chains[1].Task)
}

// A damaged subject does not lead to another task: that of a compressed commit is also in the commit.
func TestDamagedSubjectNamesNoOtherTask(t *testing.T) {
	t.Parallel()
	for _, bits := range []byte{1, 2, 4} {
		n, chains := histories(t, 3, false)
		victim := chains[1].Task
		change(t, n, "ORCH_EVENTS", victim, len("orch.ev.00.")+len(victim)-1, bits)
		done, err := bus.Salvage(t.Context(), n.Config.DataDir, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		require.Len(t, done.Cut, 1)
		n.Start(t)
		requireOnlyLost(t, n, chains, victim)
		n.Stop(t)
	}
}

package bus

import (
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// lostFile is the file with the recorded losses (see Lost).
const lostFile = "lost.json"

// Lost lists the data that a store has lost to damage and that a salvage has recorded as lost. Later checks of the log do not
// report these losses again.
type Lost struct {
	// Pending is set while a salvage is unfinished: the damaged records are removed, but other records of their tasks may still
	// be in the log.
	Pending bool `json:"pending,omitempty"`
	// Tasks are the tasks with incomplete histories; their readable commits were set aside.
	Tasks map[events.TaskID]LostTask `json:"tasks,omitempty"`
	// Positions are the positions of lost commits, as ranges of a first and a last position.
	Positions [][2]uint64 `json:"positions,omitempty"`
	// Values maps each lost large value to a task that refers to it.
	Values map[string]events.TaskID `json:"values,omitempty"`
}

// LostTask records why a task was lost.
type LostTask struct {
	// At is when the salvage recorded the loss. What describes the damage.
	At   time.Time `json:"at"`
	What string    `json:"what"`
}

func readLost(dataDir string) (*Lost, error) {
	var l Lost
	err := readSealed(filepath.Join(dataDir, lostFile), &l)
	if fault.Has(err, fault.NotFound) {
		return &l, nil
	}
	return &l, err
}

func (l *Lost) write(dataDir string) error { return writeSealed(filepath.Join(dataDir, lostFile), l) }

// orNil returns the list, or nil if it is empty.
func (l *Lost) orNil() *Lost {
	if l == nil || len(l.Tasks)+len(l.Positions)+len(l.Values) == 0 {
		return nil
	}
	return l
}

// addTask adds a lost task and the damage. It changes nothing if the task is already in the list.
func (l *Lost) addTask(task events.TaskID, what string) {
	if l.Tasks == nil {
		l.Tasks = map[events.TaskID]LostTask{}
	}
	if _, known := l.Tasks[task]; !known {
		l.Tasks[task] = LostTask{At: events.Time(time.Now()), What: what}
	}
}

func (l *Lost) addValue(ref string, task events.TaskID) {
	if l.Values == nil {
		l.Values = map[string]events.TaskID{}
	}
	l.Values[ref] = task
}

// addPositions adds positions in any order.
func (l *Lost) addPositions(more map[uint64]bool) {
	for seq := range l.positions() {
		more[seq] = true
	}
	l.Positions = nil
	for _, seq := range slices.Sorted(maps.Keys(more)) {
		if n := len(l.Positions); n > 0 && l.Positions[n-1][1]+1 == seq {
			l.Positions[n-1][1] = seq
			continue
		}
		l.Positions = append(l.Positions, [2]uint64{seq, seq})
	}
}

func (l *Lost) positions() map[uint64]bool {
	all := map[uint64]bool{}
	for _, r := range l.Positions {
		for seq := r[0]; seq <= r[1]; seq++ {
			all[seq] = true
		}
	}
	return all
}

// goneFault returns GONE for a lost task, otherwise nil.
func (l *Lost) goneFault(task events.TaskID) error {
	if l == nil {
		return nil
	}
	t, ok := l.Tasks[task]
	if !ok {
		return nil
	}
	return fault.New(fault.Gone, "the task %s was lost to damage on %s: %s", task, t.At.Format(time.DateOnly), t.What).
		WithField("id").WithHint("the commits that could still be read are in the folder %q of the data directory; a backup may have the whole task", quarantineDir)
}

// readLostData reads the list of accepted losses. The list is empty with an external server, which has no lostFile.
func (b *streams) readLostData() (err error) {
	b.lostData = &Lost{}
	if server := b.conn.target.server; server != nil {
		b.lostData, err = readLost(server.cfg.DataDir)
	}
	return err
}

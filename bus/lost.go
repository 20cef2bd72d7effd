package bus

import (
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// lostFile lists the losses that a salvage has accepted, so that later checks of the log do not report them again.
const lostFile = "lost.json"

// Lost is the data that a store has lost to damage and that a salvage has given up.
type Lost struct {
	// Pending is set from the removal of damaged records until the rest of their tasks is handled.
	Pending bool `json:"pending,omitempty"`
	// Tasks are the tasks with incomplete histories; their readable commits were set aside.
	Tasks map[events.TaskID]LostTask `json:"tasks,omitempty"`
	// Positions are those of lost commits, as pairs of the first and the last one.
	Positions [][2]uint64 `json:"positions,omitempty"`
	// Values are lost large values, each with a task that refers to it.
	Values map[string]events.TaskID `json:"values,omitempty"`
}

// LostTask records when and why a task was given up.
type LostTask struct {
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

// orNil returns nil if nothing is lost.
func (l *Lost) orNil() *Lost {
	if l == nil || len(l.Tasks)+len(l.Positions)+len(l.Values) == 0 {
		return nil
	}
	return l
}

// addTask gives a task up; the first reason stays.
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

// goneFault returns GONE for a task that was given up, nil for any other one.
func (l *Lost) goneFault(task events.TaskID) error {
	if l == nil {
		return nil
	}
	t, ok := l.Tasks[task]
	if !ok {
		return nil
	}
	return fault.New(fault.Gone, "the task %s was lost to damage and given up on %s: %s", task, t.At.Format(time.DateOnly), t.What).
		WithField("id").WithHint("what could still be read of it lies in the folder %q of the data directory; a backup may hold it", quarantineDir)
}

// readLostData reads the accepted losses; there are none with an external server, whose files are elsewhere.
func (b *streams) readLostData() (err error) {
	b.lostData = &Lost{}
	if server := b.conn.target.server; server != nil {
		b.lostData, err = readLost(server.cfg.DataDir)
	}
	return err
}

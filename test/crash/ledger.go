// Package crash checks the guarantees of orch when processes die. It uses only three sources that do not depend on orch
// being correct: the acknowledgements that submitters received, the ledger of effects that tools write, and the raw
// log. The test of this package kills real processes and passes all three to Check.
//
// The function Invariants returns the checked invariants. I5, I9 and I14 need a running node: the test itself checks
// them.
package crash

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// The phases of an effect. An effect has happened when its Begin is in the ledger. ToolVerified is an exception: its
// effect happens at its End, and it writes Alive in between.
const (
	Begin = "begin"
	Alive = "alive"
	End   = "end"
)

// Effect is one line of the ledger: a phase of an effect of a tool.
type Effect struct {
	// Phase is Begin, Alive or End.
	Phase string
	At    time.Time
	Tool  string
	Task  events.TaskID
	// Step and Attempt identify the call, Key is its idempotency key.
	Step    string
	Attempt int
	Key     string
	// PID is the worker process that made the call.
	PID int
}

// Ledger is an append-only file of effects that many processes write at the same time.
type Ledger struct{ file *os.File }

// OpenLedger opens the ledger at a path, and creates it if it does not exist.
func OpenLedger(path string) (*Ledger, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fault.From(err)
	}
	return &Ledger{file: f}, nil
}

// Append writes one effect and syncs the file, except after Alive. A line is a single write, so that lines of several
// processes are not interleaved and a killed process leaves no partial line.
func (l *Ledger) Append(e Effect) error {
	line := fmt.Sprintln(e.Phase, e.At.UnixNano(), e.Tool, e.Task, e.Step, e.Attempt, e.Key, e.PID)
	if _, err := l.file.WriteString(line); err != nil {
		return fault.From(err)
	}
	if e.Phase == Alive {
		return nil // this phase need not be durable
	}
	if err := l.file.Sync(); err != nil {
		return fault.From(err)
	}
	return nil
}

// Close closes the file.
func (l *Ledger) Close() error { return l.file.Close() }

// ReadLedger returns the effects in a file in the order in which they were written, or DATA_LOSS for an invalid line.
func ReadLedger(path string) ([]Effect, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fault.From(err)
	}
	defer f.Close()
	var list []Effect
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		e, err := parseEffect(lines.Text())
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
	return list, lines.Err()
}

func parseEffect(line string) (Effect, error) {
	f := strings.Fields(line)
	if len(f) != 8 || !slices.Contains([]string{Begin, Alive, End}, f[0]) {
		return Effect{}, badLine(line)
	}
	nanos, errAt := strconv.ParseInt(f[1], 10, 64)
	attempt, errAttempt := strconv.Atoi(f[5])
	pid, errPID := strconv.Atoi(f[7])
	if errors.Join(errAt, errAttempt, errPID) != nil {
		return Effect{}, badLine(line)
	}
	return Effect{
		Phase: f[0], At: time.Unix(0, nanos), Tool: f[2], Task: events.TaskID(f[3]), Step: f[4], Attempt: attempt, Key: f[6], PID: pid,
	}, nil
}

func badLine(line string) error {
	return fault.New(fault.DataLoss, "the ledger has a line that is no effect: %q", line)
}

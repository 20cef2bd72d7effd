package bus

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
)

// This file removes archived histories. The archive keeps records of removals. A record has one line per task: the task
// and the positions that its commits had in the live log, so that a check of the whole log does not report them as missing.

const (
	// removedRoot is the root of the subjects of the records. The last token of a subject is a hash of a task; a record holds
	// tasks with the same hash.
	removedRoot = archiveRoot + ".removed"
	// removedHeader is the header of a record with the time of the removal, in seconds since 1970.
	removedHeader = "Orch-Removed"
)

// removedSubject returns "orch.ar.removed.<two hexadecimal digits>".
func removedSubject(task events.TaskID) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(task)) // never fails
	return fmt.Sprintf("%s.%02x", removedRoot, sum.Sum32()>>24)
}

func isRemovedSubject(subject string) bool { return strings.HasPrefix(subject, removedRoot+".") }

// Remove implements events.Log. The records are durable before the first history is removed, so that the next call can
// complete an interrupted removal. A node that has lost its lease removes nothing; the next node completes the removal.
func (ar *archive) Remove(ctx context.Context, tasks []events.TaskID) error {
	if loss := ar.loss.Load(); loss != nil {
		return loss
	}
	release, err := ar.gate.begin(time.Now())
	if err != nil {
		return err
	}
	defer release()
	if !awaitHeld(ctx, ar.cfg.Lease) {
		return fenced()
	}
	records, newest := map[string]*bytes.Buffer{}, map[events.TaskID]uint64{}
	for _, task := range tasks {
		upTo, ok, err := ar.addRemoved(ctx, records, task)
		if err != nil {
			return err
		}
		if ok {
			newest[task] = upTo
		}
	}
	if err := ar.writeRemoved(ctx, records); err != nil {
		return err
	}
	failpoint.Pass(failpoint.Removing)
	if !awaitHeld(ctx, ar.cfg.Lease) {
		return fenced()
	}
	for task, upTo := range newest {
		if err := ar.removeLive(ctx, task, extent{last: upTo}); err != nil { // the server may have restored messages after a kill
			return err
		}
		if err := ar.removeArchived(ctx, task); err != nil {
			return err
		}
	}
	return ar.settle(archiveStream)
}

// removeArchived removes all messages of a task from the archive.
func (ar *archive) removeArchived(ctx context.Context, task events.TaskID) error {
	if err := ar.removeGrouped(ctx, task); err != nil {
		return err
	}
	return ar.purge(ctx, ar.archiveLog, archiveSubject(task), everything)
}

// addRemoved adds the line of a task to its record, unless an interrupted removal has already written the line. It
// returns the position of the newest archived commit. ok is false for a task that must not be removed: it is not archived,
// its archiving was interrupted, or the live log has later commits.
func (ar *archive) addRemoved(ctx context.Context, records map[string]*bytes.Buffer, task events.TaskID) (upTo uint64, ok bool, err error) {
	if _, err := events.ParseTaskID(string(task)); err != nil {
		return 0, false, err
	}
	parts, whole, err := ar.parts(ctx, task)
	if err != nil || len(parts) == 0 {
		return 0, false, err
	}
	end := parts[len(parts)-1]
	newest, _, err := archivedHead(end.subject, end.header, end.Seq)
	if err != nil {
		return 0, false, err
	}
	if _, more, err := ar.nextCommit(ctx, task, newest.Seq); err != nil || more {
		return 0, false, err
	}
	// The archive of the task is incomplete: with a record, a removal was interrupted and is to be completed; without one, the
	// archiving was interrupted and the task is not removed.
	if !whole {
		_, gone, err := ar.removedAt(ctx, task)
		return newest.Seq, gone, err
	}
	var positions []uint64
	for _, p := range parts {
		for c, err := range unframe(p.Data) {
			if err != nil {
				return 0, false, err
			}
			if c.Seq != 0 || len(positions) == 0 { // all commits of an imported history have position 0
				positions = append(positions, c.Seq)
			}
		}
	}
	subject := removedSubject(task)
	if records[subject] == nil {
		records[subject] = &bytes.Buffer{}
	}
	records[subject].WriteString(string(task) + " " + formatPositions(positions) + "\n")
	return newest.Seq, true, nil
}

// writeRemoved appends the records of removals to the archive and makes them durable.
func (ar *archive) writeRemoved(ctx context.Context, records map[string]*bytes.Buffer) error {
	defer ar.touched.Store(true)
	for subject, body := range records {
		if err := ar.space.checkArchiveRoom(body.Len()); err != nil {
			return err
		}
		ar.removals.Store(true)
		defer ar.removed.forget(subject)
		m := &nats.Msg{Subject: subject, Data: body.Bytes(), Header: nats.Header{removedHeader: {strconv.FormatInt(time.Now().Unix(), 10)}}}
		if _, err := ar.conn.js.PublishMsg(ctx, m); err != nil {
			return archiveFault(err)
		}
	}
	return ar.settle(archiveStream)
}

// formatPositions returns ascending positions as ranges, such as "3-5,9".
func formatPositions(positions []uint64) string {
	var b []byte
	for i := 0; i < len(positions); {
		first := i
		for i++; i < len(positions) && positions[i] == positions[i-1]+1; i++ {
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, positions[first], 10)
		if i-1 > first {
			b = strconv.AppendUint(append(b, '-'), positions[i-1], 10)
		}
	}
	return string(b)
}

// parsePositions decodes the result of formatPositions and calls add for each position. DATA_LOSS if text is invalid.
func parsePositions(text string, add func(uint64)) error {
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.ParseUint(from, 10, 64)
		if err != nil {
			return damagedRemoval()
		}
		last, err := strconv.ParseUint(to, 10, 64)
		if err != nil || last < first {
			return damagedRemoval()
		}
		for seq := first; seq <= last; seq++ {
			add(seq)
		}
	}
	return nil
}

func damagedRemoval() error {
	return fault.New(fault.DataLoss, "a record of removed tasks is damaged").WithHint("run: orch verify")
}

// findRemovals sets removals, which reports whether the archive has records of removed tasks. Without records, lookups are skipped.
func (ar *archive) findRemovals(ctx context.Context) error {
	info, err := ar.archiveLog.Info(ctx, jetstream.WithSubjectFilter(removedRoot+".*"))
	if err != nil {
		return readFault(err)
	}
	ar.removals.Store(len(info.State.Subjects) > 0)
	return nil
}

// removedAt returns when a task was removed from the archive; false if it was not removed.
func (ar *archive) removedAt(ctx context.Context, task events.TaskID) (time.Time, bool, error) {
	if !ar.removals.Load() {
		return time.Time{}, false, nil
	}
	subject := removedSubject(task)
	lacks, written := ar.removed.lacks(subject, task)
	if lacks {
		return time.Time{}, false, nil
	}
	var tasks []uint32
	start := []byte(string(task) + " ")
	for e, err := range ar.conn.walk(ctx, archiveStream, subject, 1, math.MaxUint64) {
		if err != nil {
			return time.Time{}, false, err
		}
		if bytes.HasPrefix(e.Data, start) || bytes.Contains(e.Data, slices.Concat([]byte("\n"), start)) {
			at, err := strconv.ParseInt(e.header.Get(removedHeader), 10, 64)
			if err != nil {
				return time.Time{}, false, damagedRemoval()
			}
			return time.Unix(at, 0).UTC(), true, nil
		}
		tasks = ar.removed.tasksIn(e.Data, tasks)
	}
	ar.removed.learn(subject, tasks, written)
	return time.Time{}, false, nil
}

// removedFault returns GONE for a task that was removed from the archive, otherwise nil.
func (ar *archive) removedFault(ctx context.Context, task events.TaskID) error {
	at, gone, err := ar.removedAt(ctx, task)
	if err != nil || !gone {
		return err
	}
	return events.RemovedTaskError(task, at)
}

// readRemoved marks the positions in a record of removals as seen.
func (v *verifier) readRemoved(e entry) {
	for line := range bytes.Lines(e.Data) {
		task, positions, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		if err := parsePositions(positions, v.markSeen); err != nil || !isTask(events.TaskID(task)) {
			v.addProblem(0, "", "the record "+e.subject+" of removed tasks is damaged")
			return
		}
		if id := events.TaskID(task); !v.removed[id] {
			v.removed[id] = true
			v.report.Removed++
		}
	}
}

// Package memlog implements the log of commits and its side stores in memory, for tests and simulations. It passes the
// conformance tests of package eventstest, and can be slow or fail on demand.
package memlog

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Config injects delays and failures. With the zero value the log answers immediately and never fails.
type Config struct {
	// Delay returns how long the answer to an append takes; nil means no delay. The commit is in the log before the
	// answer, as with a slow network. Under testing/synctest the time is simulated.
	Delay func(r *events.Record) time.Duration
	// Fail returns the error of an append, or nil. On an error nothing is written.
	Fail func(r *events.Record) error
	// LoseAnswer returns an error that replaces the answer to an append that was written, or nil. The caller then does
	// not know the outcome.
	LoseAnswer func(r *events.Record) error
}

// Log implements events.Log, events.Blobs and events.Checkpoints. The zero value is not usable; see New.
type Log struct {
	cfg Config

	mu            sync.RWMutex // guards the fields below
	commits       []entry      // in the order of their positions
	live          map[events.TaskID][]entry
	archived      map[events.TaskID][]entry
	removed       map[events.TaskID]time.Time
	archivedHeads []events.Head // of the archived tasks, in the order of their archiving
	last          uint64
	blobs         map[string][]byte
	points        map[string][]byte
}

type entry struct {
	head events.Head
	data []byte
	note []byte
}

func (e entry) stored() events.Stored {
	return events.Stored{Seq: e.head.Seq, Data: bytes.Clone(e.data)}
}

func (e entry) storedInArchive() events.Stored {
	s := e.stored()
	s.Archived, s.Import = true, e.note
	return s
}

var (
	_ events.Log         = (*Log)(nil)
	_ events.Blobs       = (*Log)(nil)
	_ events.Checkpoints = (*Log)(nil)
)

// New returns an empty log.
func New(cfg Config) *Log {
	return &Log{
		cfg:  cfg,
		live: map[events.TaskID][]entry{}, archived: map[events.TaskID][]entry{}, removed: map[events.TaskID]time.Time{},
		blobs: map[string][]byte{}, points: map[string][]byte{},
	}
}

// Append implements events.Log. Without a delay it calls done before it returns.
func (l *Log) Append(r events.Record, done func(seq uint64, err error)) {
	seq, err := l.write(&r)
	if err == nil && l.cfg.LoseAnswer != nil {
		if err = l.cfg.LoseAnswer(&r); err != nil {
			seq = 0
		}
	}
	if l.cfg.Delay != nil {
		if d := l.cfg.Delay(&r); d > 0 {
			time.AfterFunc(d, func() { done(seq, err) })
			return
		}
	}
	done(seq, err)
}

func (l *Log) write(r *events.Record) (uint64, error) {
	if _, err := events.ParseTaskID(string(r.Task)); err != nil {
		return 0, err
	}
	if l.cfg.Fail != nil {
		if err := l.cfg.Fail(r); err != nil {
			return 0, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, gone := l.removed[r.Task]; gone {
		return 0, events.RemovedTaskError(r.Task, at)
	}
	newest := uint64(0)
	if h := l.live[r.Task]; len(h) > 0 {
		newest = h[len(h)-1].head.Seq
	}
	if r.After != newest || len(l.archived[r.Task]) > 0 {
		return 0, fault.New(fault.Conflict, "task %s has changed: another commit was first", r.Task).WithField("task")
	}
	l.last++
	e := entry{head: r.Head, data: bytes.Clone(r.Data)}
	e.head.Seq = l.last
	l.commits = append(l.commits, e)
	l.live[r.Task] = append(l.live[r.Task], e)
	return l.last, nil
}

// Read implements events.Log.
func (l *Log) Read(ctx context.Context, task events.TaskID, from uint64) iter.Seq2[events.Stored, error] {
	return func(yield func(events.Stored, error) bool) {
		if _, err := events.ParseTaskID(string(task)); err != nil {
			yield(events.Stored{}, err)
			return
		}
		l.mu.RLock()
		history, as := l.live[task], entry.stored
		if len(history) == 0 {
			history, as = l.archived[task], entry.storedInArchive
		}
		at, gone := l.removed[task]
		l.mu.RUnlock()
		if gone {
			yield(events.Stored{}, events.RemovedTaskError(task, at))
			return
		}
		skip := min(int(max(from, 1)-1), len(history)) //nolint:gosec // a history fits into memory
		each(ctx, history[skip:], as, yield)
	}
}

// each yields the entries, converted by convert, until yield returns false or ctx ends.
func each[T any](ctx context.Context, entries []entry, convert func(entry) T, yield func(T, error) bool) {
	var none T
	if err := ctx.Err(); err != nil {
		yield(none, fault.From(err))
		return
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			yield(none, fault.From(err))
			return
		}
		if !yield(convert(e), nil) {
			return
		}
	}
}

// Heads implements events.Log, in the order of positions.
func (l *Log) Heads(ctx context.Context) iter.Seq2[events.Head, error] {
	return l.heads(ctx, l.live)
}

// ArchivedHeads implements events.Log, in the order of positions.
func (l *Log) ArchivedHeads(ctx context.Context) iter.Seq2[events.Head, error] {
	return l.heads(ctx, l.archived)
}

// HasArchived implements events.Log.
func (l *Log) HasArchived(ctx context.Context) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, fault.From(err)
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.archived) > 0, nil
}

// heads yields the newest head of each history. It locks l.mu while it reads histories.
func (l *Log) heads(ctx context.Context, histories map[events.TaskID][]entry) iter.Seq2[events.Head, error] {
	return func(yield func(events.Head, error) bool) {
		l.mu.RLock()
		newest := make([]entry, 0, len(histories))
		for _, h := range histories {
			newest = append(newest, h[len(h)-1])
		}
		l.mu.RUnlock()
		slices.SortFunc(newest, func(a, b entry) int { return int(a.head.Seq) - int(b.head.Seq) }) //nolint:gosec // small
		each(ctx, newest, func(e entry) events.Head { return e.head }, yield)
	}
}

// Archive implements events.Log.
func (l *Log) Archive(_ context.Context, task events.TaskID) error {
	if _, err := events.ParseTaskID(string(task)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	history := l.live[task]
	switch {
	case len(l.archived[task]) > 0:
		return nil
	case len(history) == 0:
		return fault.New(fault.NotFound, "there is no task %s", task).WithField("task")
	}
	l.archived[task] = history
	l.archivedHeads = append(l.archivedHeads, history[len(history)-1].head)
	delete(l.live, task)
	l.commits = slices.DeleteFunc(slices.Clone(l.commits), func(e entry) bool { return e.head.Task == task })
	return nil
}

// Remove implements events.Log.
func (l *Log) Remove(_ context.Context, tasks []events.TaskID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, task := range tasks {
		if _, err := events.ParseTaskID(string(task)); err != nil {
			return err
		}
		if len(l.archived[task]) > 0 {
			delete(l.archived, task)
			l.removed[task] = time.Now()
		}
	}
	return nil
}

// ArchivedAfter yields the heads of the histories that were archived after position. Positions of the archive count
// archived histories from 1.
func (l *Log) ArchivedAfter(ctx context.Context, position uint64) iter.Seq2[events.Head, error] {
	return func(yield func(events.Head, error) bool) {
		for h, err := range l.ArchivedHeadsAfter(ctx, position) {
			if !yield(h.Head, err) {
				return
			}
		}
	}
}

// ReadArchived reads the history of a head in the archive.
func (l *Log) ReadArchived(ctx context.Context, head events.ArchivedHead) iter.Seq2[events.Stored, error] {
	return l.Read(ctx, head.Task, 1)
}

// ArchivedHeadsAfter is ArchivedAfter with the positions of the histories.
func (l *Log) ArchivedHeadsAfter(ctx context.Context, position uint64) iter.Seq2[events.ArchivedHead, error] {
	return func(yield func(events.ArchivedHead, error) bool) {
		var heads []events.ArchivedHead
		l.mu.RLock()
		for i, h := range l.archivedHeads[min(position, uint64(len(l.archivedHeads))):] {
			if _, gone := l.removed[h.Task]; !gone {
				heads = append(heads, events.ArchivedHead{Head: h, Position: position + uint64(i) + 1})
			}
		}
		l.mu.RUnlock()
		for _, h := range heads {
			if err := ctx.Err(); err != nil {
				yield(events.ArchivedHead{}, fault.From(err))
				return
			}
			if !yield(h, nil) {
				return
			}
		}
	}
}

// Positions returns the newest positions of the archive and of the live log.
func (l *Log) Positions(ctx context.Context) (past, live uint64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, fault.From(err)
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	return uint64(len(l.archivedHeads)), l.last, nil
}

// Scan implements events.Log.
func (l *Log) Scan(ctx context.Context, from uint64) iter.Seq2[events.Stored, error] {
	return func(yield func(events.Stored, error) bool) {
		l.mu.RLock()
		commits := l.commits
		l.mu.RUnlock()
		i := sort.Search(len(commits), func(i int) bool { return commits[i].head.Seq >= from })
		each(ctx, commits[i:], entry.stored, yield)
	}
}

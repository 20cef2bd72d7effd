package bus

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
)

// markKey is the key of the high-water mark in the bucket ORCH_META.
const markKey = "highwater"

// mark says how far the log went: what it names was acknowledged and durable.
type mark struct {
	// Stream is when the live stream was created; another value is another stream.
	Stream time.Time `json:"stream"`
	// Seq is the position of the commit, and so the number of commits ever appended: the log skips
	// none. Task and Hash are its own.
	Seq  uint64        `json:"seq"`
	Task events.TaskID `json:"task"`
	Hash string        `json:"hash"`
	// At is when the commit was acknowledged.
	At time.Time `json:"at"`
}

// marker keeps the mark up to date. Only the store's housekeeping uses it.
type marker struct {
	path string
	// lag is set when acknowledged commits reach the disk later: the mark then follows a round behind,
	// so that it never claims what a power loss may take.
	lag     bool
	stream  time.Time
	written mark
	waiting mark
}

func (m *marker) known() bool { return m.written.Seq > 0 }

// load reads the mark from the file and the bucket; the later one counts. A damaged one is DATA_LOSS,
// after the other was read.
func (m *marker) load(ctx context.Context, kv jetstream.KeyValue) error {
	var fromKV, fromFile mark
	errKV := readMark(ctx, kv, &fromKV)
	var errFile error
	if m.path != "" {
		errFile = readJSON(m.path, &fromFile)
	}
	m.written = fromKV
	if fromFile.Seq > fromKV.Seq {
		m.written = fromFile
	}
	for _, err := range []error{errKV, errFile} {
		if err != nil && !fault.Has(err, fault.NotFound) {
			return err
		}
	}
	return nil
}

func readMark(ctx context.Context, kv jetstream.KeyValue, into *mark) error {
	e, err := kv.Get(ctx, markKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return fault.Wrap(fault.NotFound, err, "there is no high-water mark yet")
	}
	if err != nil {
		return readFault(err)
	}
	if err := json.Unmarshal(e.Value(), into); err != nil {
		return fault.Wrap(fault.DataLoss, err, "the high-water mark in the store is damaged")
	}
	return nil
}

// checkMark compares the log with the mark and remembers a loss.
func (s *Store) checkMark(ctx context.Context) error {
	if s.live == nil {
		s.lose("the live log is gone; it had reached position %d", s.mark.written.Seq)
		return nil
	}
	info, err := s.live.Info(ctx)
	if err != nil {
		return readFault(err)
	}
	s.mark.stream, s.opened = info.Created, info.State.LastSeq
	w := s.mark.written
	switch {
	case !s.mark.known():
	case !w.Stream.Equal(info.Created):
		s.lose("the live log is not the one that had reached position %d", w.Seq)
	case info.State.LastSeq < w.Seq:
		s.lose("the log ends at position %d but had reached %d", info.State.LastSeq, w.Seq)
	default:
		return s.checkMarked(ctx, w)
	}
	return nil
}

// checkMarked looks for the commit that the mark names, in the live log and in the archive.
func (s *Store) checkMarked(ctx context.Context, w mark) error {
	page, err := s.conn.page(ctx, liveStream, liveSubject(w.Task), w.Seq, 1)
	if err != nil {
		return err
	}
	if len(page) > 0 && page[0].Seq == w.Seq {
		if events.Hash(page[0].Data) != w.Hash {
			s.lose("the commit at position %d of task %s was changed", w.Seq, w.Task)
		}
		return nil
	}
	parts, err := s.archived(ctx, w.Task)
	if err != nil {
		return err
	}
	for _, p := range parts {
		for c, err := range unframe(p.Data) {
			if err == nil && c.Seq == w.Seq && events.Hash(c.Data) == w.Hash {
				return nil
			}
		}
	}
	if s.cfg.ArchiveAge > 0 && time.Since(w.At) > s.cfg.ArchiveAge {
		return nil // archived and, by now, dropped from the archive as configured
	}
	s.lose("the commit at position %d of task %s cannot be read", w.Seq, w.Task)
	return nil
}

// lose makes the log refuse appends from now on.
func (s *Store) lose(format string, args ...any) {
	s.loss.Store(fault.New(fault.DataLoss, format, args...).
		WithHint("the log is read-only; restore the data directory from a backup, or see orch verify for what is gone"))
}

// moveMark writes the mark when the log has grown since.
func (s *Store) moveMark(ctx context.Context) error {
	next := s.mark.waiting
	s.mark.waiting = s.newestMark()
	if !s.mark.lag {
		next = s.mark.waiting
	}
	return s.writeMark(ctx, next)
}

// closeMark writes the mark for the last commit, after the store stopped appending.
func (s *Store) closeMark(ctx context.Context) error {
	if s.mark.lag {
		if err := s.syncMeta(); err != nil {
			return err
		}
	}
	return s.writeMark(ctx, s.newestMark())
}

// newestMark is the mark for the newest acknowledged commit, empty when there was none.
func (s *Store) newestMark() mark {
	s.app.mu.Lock()
	h := s.app.newest
	s.app.mu.Unlock()
	if h.seq <= s.mark.written.Seq {
		return mark{}
	}
	return mark{Stream: s.mark.stream, Seq: h.seq, Task: h.task, Hash: events.Hash(h.data), At: events.Time(h.at)}
}

func (s *Store) writeMark(ctx context.Context, m mark) error {
	if m.Seq <= s.mark.written.Seq {
		return nil
	}
	data, err := json.Marshal(m)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the high-water mark cannot be encoded")
	}
	failpoint.Pass(failpoint.BeforeMark)
	if _, err := s.meta.Put(ctx, markKey, data); err != nil {
		return sideFault(err, "the high-water mark cannot be stored")
	}
	if err := s.barrier().wait(metaStream); err != nil {
		return err
	}
	failpoint.Pass(failpoint.MarkStored)
	if s.mark.path != "" {
		if err := writeJSON(s.mark.path, m); err != nil {
			return err
		}
	}
	s.mark.written = m
	return nil
}

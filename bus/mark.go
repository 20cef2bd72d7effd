package bus

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
)

// markKey is the key of the high-water mark in the bucket ORCH_META.
const markKey = "highwater"

// mark is the high-water mark: it records the newest commit that was acknowledged and durable.
type mark struct {
	// Stream is when the live stream was created. The time identifies the stream.
	Stream time.Time `json:"stream"`
	// Seq is the position of the newest commit. The log skips no position, so this is also the number of commits
	// ever appended. Task and Hash belong to the newest commit.
	Seq  uint64        `json:"seq"`
	Task events.TaskID `json:"task"`
	Hash string        `json:"hash"`
	// At is when the commit was acknowledged.
	At time.Time `json:"at"`
	// Sides contains the marks of the side streams, by name. A side stream is a stream of the store that is not the log.
	Sides map[string]sideMark `json:"sides"`
	// Sum is the hash of the mark without this field.
	Sum string `json:"sum"`
}

// sideMark is the high-water mark of a side stream.
type sideMark struct {
	Created time.Time `json:"created"`
	Seq     uint64    `json:"seq"`
	// Msgs is the number of messages in the stream. It is only recorded for the stream of checkpoints, where it never
	// decreases; 0 for other streams.
	Msgs uint64 `json:"msgs,omitempty"`
}

func (m mark) isSet() bool { return !m.Stream.IsZero() }

// reached returns the newest position of a stream in the mark; false if the mark does not include the stream.
func (m mark) reached(stream string) (uint64, bool) {
	if stream == liveStream {
		return m.Seq, m.isSet()
	}
	s, ok := m.Sides[stream]
	return s.Seq, ok
}

// names returns the streams in the mark, the log first.
func (m mark) names() []string {
	if !m.isSet() {
		return nil
	}
	return append([]string{liveStream}, slices.Sorted(maps.Keys(m.Sides))...)
}

// sealed returns the mark with its hash set.
func (m mark) sealed() (mark, error) {
	m.Sum = ""
	data, err := json.Marshal(m)
	if err != nil {
		return m, fault.Wrap(fault.Internal, err, "the high-water mark cannot be encoded")
	}
	m.Sum = events.Hash(data)
	return m, nil
}

// check returns DATA_LOSS if the mark does not match its hash. Marks of the first versions, which have no Sides, have no
// hash.
func (m mark) check() error {
	if m.Sum == "" && m.Sides == nil {
		return nil
	}
	sealed, err := m.sealed()
	if err == nil && sealed.Sum != m.Sum {
		err = fault.New(fault.DataLoss, "the high-water mark is damaged")
	}
	return err
}

// readMarkFile reads a mark from a file. Errors: NOT_FOUND if the file is missing, DATA_LOSS if it is damaged.
func readMarkFile(path string, into *mark) error {
	var m mark
	if err := readJSON(path, &m); err != nil {
		return err
	}
	if err := m.check(); err != nil {
		return err
	}
	*into = m
	return nil
}

// marker keeps the mark up to date. Only the store's maintenance goroutine uses it.
type marker struct {
	path string
	// lag is set if commits are acknowledged before they are on the disk. Each mark is then written one round late, and after a sync of its
	// own, so that it never includes commits that a power loss can remove.
	lag     bool
	stream  time.Time // when the live stream was created
	written mark      // the last mark written
	waiting mark      // with lag, the mark to be written in the next round
	// current contains the marks of the side streams in the last round.
	current map[string]sideMark
}

func (m *marker) isSet() bool { return m.written.isSet() }

// load reads the two copies of the mark, from the bucket and from the file, and uses the newer copy. If one copy is
// damaged, it still uses the other one, and returns DATA_LOSS.
func (m *marker) load(ctx context.Context, kv jetstream.KeyValue) error {
	var fromKV, fromFile mark
	errKV := readMark(ctx, kv, &fromKV)
	var errFile error
	if m.path != "" {
		errFile = readMarkFile(m.path, &fromFile)
	}
	m.written = fromKV
	if fromFile.Seq > fromKV.Seq || !fromKV.isSet() {
		m.written = fromFile
	}
	for _, err := range []error{errKV, errFile} {
		if err != nil && !fault.Has(err, fault.NotFound) {
			return err
		}
	}
	return nil
}

// readMark reads the mark from the bucket. Errors: NOT_FOUND if there is none, DATA_LOSS if it is damaged, UNAVAILABLE.
func readMark(ctx context.Context, kv jetstream.KeyValue, into *mark) error {
	e, err := kv.Get(ctx, markKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return fault.Wrap(fault.NotFound, err, "there is no high-water mark yet")
	}
	if err != nil {
		return readFault(err)
	}
	var m mark
	if err := json.Unmarshal(e.Value(), &m); err != nil {
		return fault.Wrap(fault.DataLoss, err, "the high-water mark in the store is damaged")
	}
	if err := m.check(); err != nil {
		return err
	}
	*into = m
	return nil
}

// checkMark compares the streams with the mark. If a stream has lost messages, the log refuses appends from then on. Otherwise
// checkMark advances the mark to the newest commit in the log: after a kill the mark may be older.
func (hw *highWater) checkMark(ctx context.Context) error {
	if hw.live == nil {
		hw.refuseAppends("the live log is gone; it had reached position %d", hw.mark.written.Seq)
		return nil
	}
	info, err := hw.live.Info(ctx)
	if err != nil {
		return readFault(err)
	}
	sides, err := hw.sideMarks(ctx)
	if err != nil {
		return err
	}
	hw.mark.stream, hw.startSeq = info.Created, info.State.LastSeq
	if err := hw.compare(ctx, info, sides); err != nil || hw.hasLoss() {
		return err
	}
	return hw.raiseMark(ctx, info.State.LastSeq, sides)
}

// compare makes the log refuse appends if a stream was replaced or ends before its position in the mark.
func (hw *highWater) compare(ctx context.Context, info *jetstream.StreamInfo, sides map[string]sideMark) error {
	w := hw.mark.written
	if !w.isSet() || hw.lostData.Pending { // finishSalvage then checks the whole log
		return nil
	}
	for name, was := range w.Sides {
		is := sides[name]
		switch {
		case !is.Created.Equal(was.Created):
			hw.refuseAppends("the stream %s is not the one that was there", name)
		case is.Seq < was.Seq:
			hw.refuseAppends("the stream %s ends at position %d but had reached %d", name, is.Seq, was.Seq)
		case is.Msgs < was.Msgs:
			hw.refuseAppends("the stream %s has %d messages of %d", name, is.Msgs, was.Msgs)
		}
	}
	switch {
	case !w.Stream.Equal(info.Created):
		hw.refuseAppends("the live log is not the one that had reached position %d", w.Seq)
	case info.State.LastSeq < w.Seq:
		hw.refuseAppends("the log ends at position %d but had reached %d", info.State.LastSeq, w.Seq)
	case w.Seq > 0:
		return hw.checkMarkedCommit(ctx, w)
	}
	return nil
}

// raiseMark writes a mark for the newest commit that the log had when the store was opened. That commit is durable.
func (hw *highWater) raiseMark(ctx context.Context, last uint64, sides map[string]sideMark) error {
	m := hw.mark.written
	m.Stream, m.Sides = hw.mark.stream, sides
	if last > m.Seq {
		page, err := hw.conn.page(ctx, liveStream, "", last, 1)
		if err != nil {
			return err
		}
		if len(page) > 0 { // otherwise the commit is archived
			m.Seq, m.Task, m.Hash = page[0].Seq, taskOf(page[0].subject), events.Hash(page[0].Data)
			m.At = events.Time(time.Now())
		}
	}
	hw.mark.waiting, hw.mark.current = m, sides
	return hw.writeMark(ctx, m)
}

// sideMarks returns the current marks of the side streams.
func (hw *highWater) sideMarks(ctx context.Context) (map[string]sideMark, error) {
	names := ownStreams()[1:]
	found := make([]sideMark, len(names))
	requests := make([]func() error, len(names))
	for i, name := range names {
		requests[i] = func() (err error) { found[i], err = hw.sideMark(ctx, name); return err }
	}
	if err := runAll(requests...); err != nil {
		return nil, err
	}
	all := map[string]sideMark{}
	for i, name := range names {
		all[name] = found[i]
	}
	return all, nil
}

// sideMark returns the current mark of a side stream.
func (hw *highWater) sideMark(ctx context.Context, name string) (sideMark, error) {
	stream, err := hw.conn.js.Stream(ctx, name)
	if err != nil {
		return sideMark{}, readFault(err)
	}
	info := stream.CachedInfo()
	if err := hw.settle(name); err != nil { // only durable messages count
		return sideMark{}, err
	}
	is := sideMark{Created: info.Created, Seq: info.State.LastSeq}
	switch name {
	case checkpointsStream:
		is.Msgs = info.State.Msgs
	case metaStream:
		is.Seq = 0 // each write of the mark changes the position of this stream
	}
	return is, nil
}

// checkMarkedCommit looks for the commit of the mark, in the live log and in the archive. If the commit is missing or changed,
// the log refuses appends.
func (hw *highWater) checkMarkedCommit(ctx context.Context, w mark) error {
	page, err := hw.conn.page(ctx, liveStream, liveSubject(w.Task), w.Seq, 1)
	if err != nil {
		return err
	}
	if len(page) > 0 && page[0].Seq == w.Seq {
		if events.Hash(page[0].Data) != w.Hash {
			hw.refuseAppends("the commit at position %d of task %s was changed", w.Seq, w.Task)
		}
		return nil
	}
	parts, err := hw.archive.archived(ctx, w.Task)
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
	if hw.cfg.ArchiveAge > 0 && time.Since(w.At) > hw.cfg.ArchiveAge {
		return nil // the commit was archived and may have expired from the archive
	}
	if hw.lostData.positions()[w.Seq] {
		return nil
	}
	if _, gone, err := hw.archive.removedAt(ctx, w.Task); err != nil || gone {
		return err
	}
	hw.refuseAppends("the commit at position %d of task %s cannot be read", w.Seq, w.Task)
	return nil
}

func (b *streams) hasLoss() bool { return b.loss.Load() != nil }

// refuseAppends makes the log refuse appends with DATA_LOSS from now on. It formats the message of the error; the first
// message stays.
func (b *streams) refuseAppends(format string, args ...any) {
	b.loss.CompareAndSwap(nil, fault.New(fault.DataLoss, format, args...).
		WithHint("the log is read-only; restore the data directory from a backup, or run orch verify to see what is missing"))
}

// moveMark writes a new mark if the log or a side stream has grown since the last mark.
func (hw *highWater) moveMark(ctx context.Context) error {
	if hw.hasLoss() {
		return nil
	}
	next := hw.mark.waiting
	hw.mark.waiting = hw.newestMark()
	if !hw.mark.lag {
		next = hw.mark.waiting
	}
	next.Sides = hw.mark.current // one round old, because newer messages may not have been acknowledged yet
	if hw.touched.Swap(false) {
		var err error
		if hw.mark.current, err = hw.sideMarks(ctx); err != nil {
			hw.touched.Store(true)
			return err
		}
	}
	return hw.writeMark(ctx, next)
}

// closeMark writes the mark for the last commit, after the store has stopped appending.
func (hw *highWater) closeMark(ctx context.Context) error {
	if hw.hasLoss() {
		return nil
	}
	if hw.mark.lag {
		if err := hw.syncMeta(); err != nil {
			return err
		}
	}
	m := hw.newestMark()
	m.Sides = hw.mark.current
	if sides, err := hw.sideMarks(ctx); err == nil { // if this fails, writeMark reports that the server is unavailable
		m.Sides = sides
	}
	return hw.writeMark(ctx, m)
}

// newestMark returns the mark for the newest acknowledged commit, or the last written mark if it is newer. It returns an
// empty mark if a sync has failed.
func (hw *highWater) newestMark() mark {
	if hw.barrier().failure() != nil {
		return mark{}
	}
	hw.appender.mu.Lock()
	h := hw.appender.newest
	hw.appender.mu.Unlock()
	m := hw.mark.written
	if h.seq > m.Seq {
		m.Seq, m.Task, m.Hash, m.At = h.seq, h.task, events.Hash(h.data), events.Time(h.at)
	}
	return m
}

// writeMark writes a mark to the bucket and to the file if the log or a side stream has moved since the last mark.
func (hw *highWater) writeMark(ctx context.Context, m mark) error {
	w := hw.mark.written
	moved := !w.isSet() || m.Seq > w.Seq || !maps.Equal(m.Sides, w.Sides)
	if !moved || hw.barrier().err() != nil {
		return nil //nolint:nilerr // appends already report the failed sync
	}
	if w.isSet() && !hw.space.hasRoomForMark() {
		return nil // a later mark includes this one; a failed write would stop the server
	}
	if hw.mark.lag {
		if err := hw.settle(liveStream); err != nil {
			return err
		}
	}
	m, err := m.sealed()
	if err != nil {
		return err
	}
	data, err := json.Marshal(m)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the high-water mark cannot be encoded")
	}
	failpoint.Pass(failpoint.BeforeMark)
	if _, err := hw.meta.Put(ctx, markKey, data); err != nil {
		err = sideFault(err, "the high-water mark cannot be stored")
		if w.isSet() && fault.Has(err, fault.DiskFull) { // an external server that is full accepts no commits either
			return nil
		}
		return err
	}
	if err := hw.barrier().wait(metaStream); err != nil {
		return err
	}
	failpoint.Pass(failpoint.MarkStored)
	if hw.mark.path != "" {
		if err := writeJSON(hw.mark.path, m); err != nil {
			return err
		}
	}
	hw.mark.written = m
	return nil
}

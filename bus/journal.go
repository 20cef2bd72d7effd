package bus

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/fault"
)

const (
	// journalPrefix is the prefix of the names of the journals' streams, journalRoot the prefix of their subjects.
	journalPrefix = "ORCH_JOURNAL_"
	journalRoot   = "orch.journal"
	// snapsBucket holds the snapshots of journals.
	snapsBucket = "ORCH_SNAPSHOTS"
	snapsStream = "OBJ_" + snapsBucket
	// appendWithin is how long an append may continue after its caller has stopped waiting.
	appendWithin = 20 * time.Second
)

// The journals.
const (
	RealtimeJournal  = "REALTIME"
	FirestoreJournal = "FIRESTORE"
	SchedulesJournal = "SCHEDULES"
	AuditJournal     = "AUDIT"
	HooksJournal     = "HOOKS"
	HoldsJournal     = "HOLDS"
	// DestinationsJournal has the destinations of outgoing webhooks, and what waits for delivery to them.
	DestinationsJournal = "DESTINATIONS"
	// TracesJournal has how far the spans of tasks were sent to a collector.
	TracesJournal = "TRACES"
)

// journalStreams returns the names of the streams of all journals and of their snapshots. The streams of a journal that was
// never opened do not exist.
func journalStreams() []string {
	return []string{snapsStream, journalPrefix + RealtimeJournal, journalPrefix + FirestoreJournal, journalPrefix + SchedulesJournal, journalPrefix + HooksJournal, journalPrefix + DestinationsJournal, journalPrefix + TracesJournal, journalPrefix + HoldsJournal, journalPrefix + AuditJournal}
}

// contentOf returns what a journal contains, for messages.
func contentOf(journal string) string {
	switch journal {
	case SchedulesJournal:
		return "the schedules"
	case AuditJournal:
		return "the audit stream"
	case HooksJournal:
		return "the hooks"
	case DestinationsJournal:
		return "the destinations"
	case TracesJournal:
		return "the export of traces"
	case HoldsJournal:
		return "the holds"
	default:
		return "the database " + journal
	}
}

// hasStream reports whether a stream exists.
func (c *Conn) hasStream(ctx context.Context, name string) (bool, error) {
	_, err := c.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	if err != nil {
		return false, readFault(err)
	}
	return true, nil
}

// Journal is a sequence of entries in a separate stream, beside the log of tasks. A snapshot replaces the oldest
// entries. Each append is conditional on the newest entry. A journal is as durable as the log, and safe for concurrent use.
type Journal struct {
	store  *Store
	name   string
	stream jetstream.Stream
	snaps  jetstream.ObjectStore
	saving sync.Mutex
}

// HasJournal reports whether a journal was ever opened.
func (s *Store) HasJournal(ctx context.Context, name string) (bool, error) {
	return s.conn.hasStream(ctx, journalPrefix+name)
}

// OpenJournal opens or creates a journal. Errors: DISK_FULL, UNAVAILABLE.
func (s *Store) OpenJournal(ctx context.Context, name string) (*Journal, error) {
	j := &Journal{store: s, name: name}
	if !s.newer() {
		if err := s.RaiseVersion(ctx, versionOfJournal(name)); err != nil {
			return nil, err
		}
	}
	var err error
	j.stream, err = opener{s.conn.js, s.newer()}.stream(ctx, jetstream.StreamConfig{
		Name: journalPrefix + name, Description: "changes of " + contentOf(name) + ", one a message",
		Subjects: []string{j.subject()}, Storage: jetstream.FileStorage, Replicas: s.cfg.Replicas,
		Discard: jetstream.DiscardNew, AllowDirect: true,
	})
	if err == nil {
		j.snaps, err = opener{s.conn.js, s.newer()}.objects(ctx, jetstream.ObjectStoreConfig{
			Bucket: snapsBucket, Description: "states of journals", Replicas: s.cfg.Replicas,
		})
	}
	if err != nil {
		return nil, sideFault(err, contentOf(name)+" cannot be opened")
	}
	for _, stream := range []string{j.streamName(), snapsStream} {
		if err := s.watch(stream); err != nil {
			return nil, err
		}
	}
	return j, s.syncMeta()
}

func (j *Journal) streamName() string { return journalPrefix + j.name }

func (j *Journal) subject() string { return journalRoot + "." + j.name }

// Largest returns the maximum size of an entry in bytes.
func (j *Journal) Largest() int { return j.store.conn.maxCommit() }

// Append appends an entry if the newest entry is at position newest, which is 0 for an empty journal. It returns the position
// of the new entry once that entry is durable. It continues after ctx ends. Errors: CONFLICT when another entry was first,
// DISK_FULL, and UNAVAILABLE, after which only Read shows whether the entry exists.
func (j *Journal) Append(ctx context.Context, newest uint64, data []byte) (uint64, error) {
	if err := j.store.space.checkRoom(len(data), time.Now()); err != nil {
		return 0, err
	}
	if err := j.store.barrier().err(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendWithin)
	defer cancel()
	m := &nats.Msg{Subject: j.subject(), Data: data, Header: nats.Header{headHeader: {"change"}}}
	ack, err := j.store.conn.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequence(newest))
	if apiErr, ok := errors.AsType[*jetstream.APIError](err); ok && isConflictCode(apiErr.ErrorCode) {
		return 0, fault.Wrap(fault.Conflict, err, "another change was first")
	}
	if err != nil {
		return 0, sideFault(err, "the change cannot be stored")
	}
	err = j.store.barrier().wait(j.streamName())
	if err == nil {
		j.store.journals.raise(j.streamName(), ack.Sequence)
		_ = j.store.conn.nc.Publish(j.newsSubject(), []byte(strconv.FormatUint(ack.Sequence, 10))) // if this fails, other nodes find the entry at their next poll
	}
	return ack.Sequence, err
}

// AppendLeased is Append for a journal that only the active node of a cluster writes. It acknowledges an entry only if the node still has
// its lease afterwards, so the next active node, which reads the journal when it starts, has each acknowledged entry.
func (j *Journal) AppendLeased(ctx context.Context, newest uint64, data []byte) (uint64, error) {
	at, err := j.Append(ctx, newest, data)
	if err == nil && !awaitHeld(ctx, j.store.cfg.Lease) {
		err = fenced()
	}
	return at, err
}

// Read calls fn for each entry after a position, in order, until fn returns an error. It reads the entries that
// exist when it is called, once they are durable. Errors: DATA_LOSS when an entry is missing, UNAVAILABLE.
func (j *Journal) Read(ctx context.Context, after uint64, fn func(seq uint64, data []byte) error) error {
	info, err := j.stream.Info(ctx)
	if err != nil {
		return sideFault(err, contentOf(j.name)+" cannot be read")
	}
	last := info.State.LastSeq
	if last < after {
		return journalLoss(j.name, last+1)
	}
	if last == after {
		return nil
	}
	if err := j.store.barrier().wait(j.streamName()); err != nil {
		return err
	}
	j.store.journals.raise(j.streamName(), last)
	for e, err := range j.store.conn.walk(ctx, j.streamName(), j.subject(), after+1, last) {
		switch {
		case err != nil:
			return err
		case e.Seq != after+1:
			return journalLoss(j.name, after+1)
		}
		after = e.Seq
		if err := fn(e.Seq, e.Data); err != nil {
			return err
		}
	}
	if after != last {
		return journalLoss(j.name, after+1)
	}
	return nil
}

func journalLoss(name string, seq uint64) error {
	return fault.New(fault.DataLoss, "the change at position %d of %s is gone", seq, contentOf(name)).
		WithHint("orch restore brings a backup back")
}

// Last returns the position of the newest entry, 0 if the journal never had an entry.
func (j *Journal) Last(ctx context.Context) (uint64, error) {
	info, err := j.stream.Info(ctx)
	if err != nil {
		return 0, sideFault(err, contentOf(j.name)+" cannot be read")
	}
	return info.State.LastSeq, nil
}

// journalPollEvery is how often a node polls for entries of other nodes.
const journalPollEvery = time.Second

// newsSubject returns the subject on which nodes notify each other of entries. A lost notification only delays them.
func (j *Journal) newsSubject() string { return "orch.news.journal." + j.name }

// Follow calls changed with the position of an entry soon after the entry is appended; it may skip older entries. It
// also calls changed with 0 at every poll, because a notification may have been lost. It returns nil when ctx ends,
// UNAVAILABLE if it cannot subscribe.
func (j *Journal) Follow(ctx context.Context, changed func(position uint64)) error {
	notified := make(chan uint64, 1)
	sub, err := j.store.conn.nc.Subscribe(j.newsSubject(), func(m *nats.Msg) {
		position, _ := strconv.ParseUint(string(m.Data), 10, 64) // invalid data yields 0, as a poll does
		select {
		case <-notified: // the newest notification replaces older ones
		default:
		}
		notified <- position
	})
	if err != nil {
		return sideFault(err, contentOf(j.name)+" cannot be followed")
	}
	defer func() { _ = sub.Unsubscribe() }() // only fails on a closed connection
	tick := time.NewTicker(journalPollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case position := <-notified:
			changed(position)
		case <-tick.C:
			changed(0)
		}
	}
}

// positionHeader is the header of a snapshot that contains the position of the last entry in the snapshot.
const positionHeader = "Orch-Position"

// Snapshot returns the newest snapshot and the position of the last entry in it; nil and 0 if there is none.
func (j *Journal) Snapshot(ctx context.Context) ([]byte, uint64, error) {
	info, data, err := j.store.getObject(ctx, j.snaps, object{bucket: snapsBucket, name: j.name})
	switch {
	case errors.Is(err, jetstream.ErrObjectNotFound):
		return nil, 0, nil
	case fault.CodeOf(err) == fault.DataLoss:
		return nil, 0, damagedSnapshot(j.name, err)
	case err != nil:
		return nil, 0, sideFault(err, contentOf(j.name)+" cannot be read")
	}
	position, err := strconv.ParseUint(info.Headers.Get(positionHeader), 10, 64)
	if err != nil {
		return nil, 0, damagedSnapshot(j.name, err)
	}
	return data, position, nil
}

func damagedSnapshot(name string, err error) error {
	return fault.Wrap(fault.DataLoss, err, "the snapshot of "+contentOf(name)+" is damaged").
		WithHint("orch restore brings a backup back")
}

// SaveSnapshot stores a state as the snapshot of all entries up to a position, and deletes the entries before that
// position. A crash at any moment leaves the old snapshot or the new one. Errors: UNAVAILABLE while a backup is taken, DISK_FULL.
func (j *Journal) SaveSnapshot(ctx context.Context, position uint64, data []byte) error {
	j.saving.Lock()
	defer j.saving.Unlock()
	release, err := j.store.gate.begin(time.Now())
	if err != nil {
		return err
	}
	defer release()
	if err := j.store.space.checkRoom(len(data), time.Now()); err != nil {
		return err
	}
	old, err := j.snaps.GetInfo(ctx, j.name)
	if err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		return sideFault(err, "the snapshot cannot be stored")
	}
	if old != nil && positionOf(old.Headers) >= position {
		return nil // another node was first: the entries are already deleted
	}
	if err := j.syncRelaxed(); err != nil { // the entries of a snapshot must be durable before it
		return err
	}
	header := nats.Header{positionHeader: {strconv.FormatUint(position, 10)}}
	if err := j.store.putObject(ctx, object{bucket: snapsBucket, name: j.name, header: header}, data); err != nil {
		return sideFault(err, "the snapshot cannot be stored")
	}
	if err := j.store.barrier().wait(snapsStream); err != nil {
		return err
	}
	if err := j.syncRelaxed(); err != nil { // the snapshot must be durable before the entries are deleted
		return err
	}
	return j.prune(ctx, position, old)
}

// positionOf returns the position of a snapshot; 0 if it has none.
func positionOf(header nats.Header) uint64 {
	position, err := strconv.ParseUint(header.Get(positionHeader), 10, 64)
	if err != nil {
		return 0
	}
	return position
}

// syncRelaxed syncs the file system of an embedded server without a barrier, such as one with relaxed durability. With a
// barrier, the completed writes are already synced. An external server syncs by itself.
func (j *Journal) syncRelaxed() error {
	if j.store.barrier() != nil {
		return nil
	}
	return j.store.syncMeta()
}

// prune deletes the previous snapshot, and the entries before the position of the new one. The entry at that position
// stays, so that the journal keeps its last position.
func (j *Journal) prune(ctx context.Context, position uint64, old *jetstream.ObjectInfo) error {
	if old != nil {
		stream, err := j.store.conn.js.Stream(ctx, snapsStream)
		if err == nil {
			err = stream.Purge(ctx, jetstream.WithPurgeSubject("$O."+snapsBucket+".C."+old.NUID))
		}
		if err != nil {
			return sideFault(err, "an old snapshot cannot be deleted")
		}
	}
	if err := j.stream.Purge(ctx, jetstream.WithPurgeSequence(position)); err != nil {
		return sideFault(err, "old changes cannot be deleted")
	}
	return nil
}

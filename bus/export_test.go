package bus

import (
	"bytes"
	"context"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
)

// PretendReplicas makes a connection read as if the streams were on several servers.
func (c *Conn) PretendReplicas() { c.replicated.Store(true) }

// RecordRemoved does the first half of the removal of a task, like an interrupted removal.
func (ar *archive) RecordRemoved(ctx context.Context, task events.TaskID) error {
	records := map[string]*bytes.Buffer{}
	if _, _, err := ar.addRemoved(ctx, records, task); err != nil {
		return err
	}
	return ar.writeRemoved(ctx, records)
}

// RecordAllRemoved writes records of removals, of tasks that need not exist.
func (ar *archive) RecordAllRemoved(ctx context.Context, tasks []events.TaskID) error {
	records := map[string]*bytes.Buffer{}
	for _, task := range tasks {
		subject := removedSubject(task)
		if records[subject] == nil {
			records[subject] = &bytes.Buffer{}
		}
		records[subject].WriteString(string(task) + " 12345678-12345679\n")
	}
	return ar.writeRemoved(ctx, records)
}

// FormatPositions and ParsePositions are how a record of removed tasks has positions.
func FormatPositions(positions []uint64) string { return formatPositions(positions) }

// ParsePositions returns the positions of a text of FormatPositions.
func ParsePositions(text string) (positions []uint64, err error) {
	err = parsePositions(text, func(seq uint64) { positions = append(positions, seq) })
	return positions, err
}

// OldVersion returns the version file of a store of an older version.
func OldVersion() ([]byte, error) { return seal(storeVersion{}) }

// VersionOf decodes a version file.
func VersionOf(data []byte) (int, error) {
	var v storeVersion
	err := unseal(data, &v)
	return v.Version, err
}

// SearchPlace searches a history whose revisions have the given positions for a place from which a walk comes to revision from soon.
// It returns the place, and the number of requests.
func SearchPlace(positions []uint64, from uint64) (rev, seq uint64, requests int, err error) {
	at := func(i int) place { return place{rev: uint64(i) + 1, seq: positions[i]} }
	p, err := search(at(0), at(len(positions)-1), from, func(seq uint64) (place, error) {
		requests++
		i, _ := slices.BinarySearch(positions, seq)
		return at(i), nil
	})
	return p.rev, p.seq, requests, err
}

// MaxSkip is the number of commits that a reader may skip.
const MaxSkip = maxSkip

// FullAppender is an appender with a single slot, which is taken.
type FullAppender struct{ a *appender }

// NewFullAppender returns a FullAppender.
func NewFullAppender() FullAppender {
	a := &appender{slots: make(chan struct{}, 1), stop: make(chan struct{})}
	a.slots <- struct{}{}
	return FullAppender{a}
}

// TakeSlot waits for the slot.
func (f FullAppender) TakeSlot() error { return f.a.takeSlot() }

// Finish ends the append that has the slot.
func (f FullAppender) Finish() { f.a.finish(&pending{done: func(uint64, error) {}}, 0, nil) }

// Close stops the appender.
func (f FullAppender) Close() { close(f.a.stop) }

// Expired returns the numbers of the messages, sent at the given times before now, that count as lost after patience. The message acked
// was acknowledged at a time before now; 0 for none.
func Expired(sent []time.Duration, acked uint64, at, patience time.Duration) (lost []uint64) {
	now := time.Now()
	a := &appender{inFlight: map[uint64]*pending{}}
	for i, before := range sent {
		a.inFlight[uint64(i)+1] = &pending{sent: now.Add(-before)}
	}
	if acked > 0 {
		a.acknowledged(acked, 1, now.Add(-at))
	}
	all := maps.Clone(a.inFlight)
	a.expire(now, patience)
	for id := range all {
		if a.inFlight[id] == nil {
			lost = append(lost, id)
		}
	}
	slices.Sort(lost)
	return lost
}

// MaxIdleInboxes is maxIdleInboxes.
const MaxIdleInboxes = maxIdleInboxes

// Subscriptions returns the number of subscriptions of the connection of a store.
func (s *Store) Subscriptions() int { return s.conn.nc.NumSubscriptions() }

// Denied returns what an error of a connection says about a denied subject.
func Denied(err error) (act, subject string, ok bool) {
	d, ok := parseDenial(err)
	return d.act, d.subject, ok
}

// LiveSubject is liveSubject.
func LiveSubject(task events.TaskID) string { return liveSubject(task) }

// NewBufferedPipe is newBufferedPipe.
func NewBufferedPipe(pipe net.Conn) net.Conn { return newBufferedPipe(pipe) }

// LoseAnswers loses the answers to the messages in flight.
func LoseAnswers(s *Store) { s.appender.onReconnect() }

// Restarts returns how often the server was restarted in place.
func Restarts(s *Server) uint64 { return s.incarnation.Load() }

// PackCommit returns a commit as it is stored, UnpackCommit the commit again.
func PackCommit(room, commit []byte) []byte { return packCommit(room, commit) }

// UnpackCommit returns the commit that PackCommit has stored.
func UnpackCommit(stored []byte, most int) ([]byte, error) { return unpackCommit(stored, most) }

// Appender is how tests write into the log beside a store: with the credential of the store's own appends.
func Appender(s *Server) DialConfig {
	return DialConfig{URL: s.Addr(), User: appenderUser, Password: s.appends}
}

// AcksOf returns the subjects of the acknowledgements of a store.
func AcksOf(s *Store) string { return s.appender.inbox + "*" }

// Linked reports whether the history of a task is read along the links between its commits.
func Linked(ctx context.Context, s *Store, task events.TaskID) bool {
	_, ok, err := s.linked(ctx, task)
	return ok && err == nil
}

// FewLinked is the number of commits up to which a history is always read along its links, PerLink the number of messages for
// each further commit among which a longer one is.
const FewLinked, PerLink = fewLinked, perLink

package bus

import (
	"context"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/histogram"
)

// Status is the state of the store.
type Status struct {
	// Durability is the level in effect; Unknown with an external server.
	Durability Durability `json:"durability"`
	// Syncing specifies which process syncs the log, and when.
	Syncing Syncing `json:"syncing"`
	// First and Last are the oldest and the newest position of the live log. Commits, Tasks and Bytes count its content.
	First   uint64 `json:"first"`
	Last    uint64 `json:"last"`
	Commits uint64 `json:"commits"`
	Tasks   uint64 `json:"tasks"`
	Bytes   uint64 `json:"bytes"`
	// ArchiveBytes is the size of the archive.
	ArchiveBytes uint64 `json:"archive_bytes"`
	// Free is the free space on the disk, MinFree the space below which appends are refused, in bytes; both are 0 with
	// an external server.
	Free    int64 `json:"free,omitempty"`
	MinFree int64 `json:"min_free,omitempty"`
	// Used is the size of all streams in bytes, before compression. MaxStore is the limit; 0 means no limit.
	Used     int64 `json:"used,omitempty"`
	MaxStore int64 `json:"max_store,omitempty"`
	// Refusing is why appends are refused: DATA_LOSS, DISK_FULL, or UNAVAILABLE with reason SYNC_FAILED;
	// nil if they are not.
	Refusing *fault.Error `json:"refusing,omitempty"`
	// Since is when the store began to refuse appends, if Refusing is DISK_FULL.
	Since time.Time `json:"since,omitzero"`
	// At is the time of the report.
	At time.Time `json:"at"`
}

// Health returns the state of the store without anything that has to be counted. Only an external server is asked.
func (s *Store) Health(ctx context.Context) (Status, error) {
	st := s.health()
	if s.conn.target.server != nil {
		return st, nil
	}
	if _, err := s.archiveLog.Info(ctx); err != nil {
		return st, readFault(err)
	}
	return st, nil
}

// health returns what is known about the store without asking the server.
func (s *Store) health() Status {
	st := Status{Durability: Unknown, Syncing: SyncExternal, At: events.Time(time.Now())}
	if r := s.space.measure(); r != nil {
		st.Refusing, st.Since = r.err, r.since
	} else if r := s.appender.serverRefusal.Load(); r != nil {
		st.Refusing, st.Since = r.err, r.since
	}
	if f := s.barrier().failure(); f != nil {
		st.Refusing = f
	}
	if loss := s.loss.Load(); loss != nil {
		st.Refusing = loss
	}
	if server := s.conn.target.server; server != nil {
		st.Durability, st.Syncing = s.cfg.Durability, server.syncing
	}
	return st
}

// Status returns the state of the store.
func (s *Store) Status(ctx context.Context) (Status, error) {
	st := s.health()
	if server := s.conn.target.server; server != nil {
		st.MinFree = server.cfg.MinFree
		st.Used, st.MaxStore = server.used(), server.cfg.MaxStore
		var err error
		if st.Free, _, err = diskSpace(server.cfg.DataDir); err != nil {
			return st, err
		}
	}
	old, err := s.archiveLog.Info(ctx)
	if err != nil {
		return st, readFault(err)
	}
	st.ArchiveBytes = old.State.Bytes
	if s.live == nil {
		return st, nil
	}
	live, err := s.live.Info(ctx)
	if err != nil {
		return st, readFault(err)
	}
	st.First, st.Last, st.Commits = live.State.FirstSeq, live.State.LastSeq, live.State.Msgs
	st.Tasks, st.Bytes = live.State.NumSubjects, live.State.Bytes
	return st, nil
}

// Timing describes how long appends to the log and its syncs took since the store was opened.
type Timing struct {
	// Appends are the times from appends to their acknowledgements. Syncs is nil if this process does not sync the log.
	Appends, Syncs *histogram.Counts
	// Failed counts the appends that failed, without those that lost a race.
	Failed uint64
}

// Timing returns how long appends and syncs took.
func (s *Store) Timing() Timing {
	t := Timing{Appends: s.appender.took.Counts(), Failed: s.appender.failed.Load()}
	if b := s.barrier(); b != nil {
		t.Syncs = b.took.Counts()
	}
	return t
}

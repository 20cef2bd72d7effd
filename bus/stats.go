package bus

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/stats"
)

// statsKey is the key, in the bucket ORCH_META, of the snapshot of the statistics.
const statsKey = "stats"

// statsRecord is a snapshot of the statistics. Its positions are only valid in the streams that were created at the times
// Live and Past.
type statsRecord struct {
	Live time.Time       `json:"live"`
	Past time.Time       `json:"past"`
	Data json.RawMessage `json:"data"`
}

var (
	_ stats.Log       = (*Store)(nil)
	_ stats.Snapshots = (*Store)(nil)
)

// SaveStats implements stats.Snapshots. The snapshot need not be durable: after a loss it is computed again from the log.
func (sd *sideStore) SaveStats(ctx context.Context, data []byte) error {
	if sd.live == nil {
		return sd.loss.Load()
	}
	record, err := json.Marshal(statsRecord{sd.live.CachedInfo().Created, sd.archiveLog.CachedInfo().Created, data})
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the statistics cannot be encoded")
	}
	if err := sd.space.checkRoom(len(record), time.Now()); err != nil {
		return err
	}
	m := &nats.Msg{Subject: kvSubject(metaBucket, statsKey), Data: record, Header: nats.Header{headHeader: {"stats"}}}
	if _, err := sd.conn.js.PublishMsg(ctx, m); err != nil {
		return sideFault(err, "the statistics cannot be stored")
	}
	return nil
}

// LoadStats implements stats.Snapshots. It ignores a snapshot from before the streams were restored or created again.
func (sd *sideStore) LoadStats(ctx context.Context) ([]byte, error) {
	none := fault.New(fault.NotFound, "there are no statistics of this log")
	e, err := sd.meta.Get(ctx, statsKey)
	if sd.live == nil || errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, none
	}
	if err != nil {
		return nil, sideFault(err, "the statistics cannot be read")
	}
	var r statsRecord
	if json.Unmarshal(e.Value(), &r) != nil || !r.Live.Equal(sd.live.CachedInfo().Created) || !r.Past.Equal(sd.archiveLog.CachedInfo().Created) {
		return nil, none
	}
	return r.Data, nil
}

// Positions implements stats.Log.
func (s *Store) Positions(ctx context.Context) (past, live uint64, err error) {
	info, err := s.archiveLog.Info(ctx)
	if err != nil {
		return 0, 0, readFault(err)
	}
	live, err = s.lastSeq(ctx)
	return info.State.LastSeq, live, err
}

// ArchivedAfter implements stats.Log: a scan of the headers of the messages of the archive after a position.
func (s *Store) ArchivedAfter(ctx context.Context, position uint64) iter.Seq2[events.Head, error] {
	return func(yield func(events.Head, error) bool) {
		for h, err := range s.ArchivedHeadsAfter(ctx, position) {
			if !yield(h.Head, err) {
				return
			}
		}
	}
}

// ArchivedHeadsAfter is ArchivedAfter with the positions of the histories.
func (s *Store) ArchivedHeadsAfter(ctx context.Context, position uint64) iter.Seq2[events.ArchivedHead, error] {
	return func(yield func(events.ArchivedHead, error) bool) {
		info, err := s.archiveLog.Info(ctx)
		if err != nil {
			yield(events.ArchivedHead{}, readFault(err))
			return
		}
		if info.State.LastSeq <= position {
			return
		}
		at := uint64(0)
		scan := headScan{conn: s.conn, head: func(subject string, header nats.Header, seq uint64) (events.Head, bool, error) {
			at = seq
			return archivedHead(subject, header, seq)
		}}
		err = scan.run(ctx, s.archiveLog, scanAfter(position), func(h events.Head, err error) bool {
			return yield(events.ArchivedHead{Head: h, Position: at}, err)
		})
		if err != nil {
			yield(events.ArchivedHead{}, err)
		}
	}
}

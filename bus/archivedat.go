package bus

import (
	"context"
	"iter"

	"github.com/orch-dev/orch/events"
)

// ReadArchived is Read for a history that a scan of the archive has found. It reads a history of one message where the scan has found it, which
// takes one request instead of up to twelve, and others like Read. It does not look for commits in the live log that an interrupted archiving
// has left there.
func (s *Store) ReadArchived(ctx context.Context, head events.ArchivedHead) iter.Seq2[events.Stored, error] {
	return func(yield func(events.Stored, error) bool) {
		e, err := s.conn.next(ctx, archiveStream, archiveAll, head.Position)
		if err != nil || e == nil || e.Seq != head.Position || archivedTask(e.subject, e.header) != head.Task || e.header.Get(partHeader) != "1" {
			s.Read(ctx, head.Task, 1)(yield)
			return
		}
		note := importNote(e.header)
		for c, err := range unframe(e.Data) {
			c.Archived, c.Import = err == nil, note
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

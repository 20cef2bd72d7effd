package bus

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/bus/storefile"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// fewHeads is up to how many positions a scan of heads asks the server, because that is faster than reading files.
const fewHeads = headBatch

// scanLive yields the heads of the live commits after a position, in the order of the log. Many heads are read from the files of
// the embedded server, at a tenth of the cost of asking it for them.
func (b *streams) scanLive(ctx context.Context, after uint64, yield func(events.Head, error) bool) error {
	info, err := b.conn.info(ctx, b.live)
	if err != nil {
		return err
	}
	last := info.State.LastSeq
	if last <= after && !b.conn.replicated.Load() {
		return nil // the server would visit every subject to find nothing
	}
	if last > after+fewHeads {
		if done, err := b.scanFiles(ctx, &info.State, after, yield); done {
			return err
		}
	}
	scan := headScan{conn: b.conn, head: liveHead}
	return scan.run(ctx, b.live, scanAfter(after), yield)
}

// scanFiles is scanLive from the files of the embedded server. It returns false, and has yielded nothing, unless the files have
// exactly the messages that the server has: then the number of messages and the last position are the same, before and after the
// positions were read.
func (b *streams) scanFiles(ctx context.Context, state *jetstream.StreamState, after uint64, yield func(events.Head, error) bool) (done bool, err error) {
	server := b.conn.target.server
	if server == nil {
		return false, nil
	}
	dir := filepath.Join(server.streamsDir(), liveStream)
	positions, err := storefile.ReadPositions(ctx, dir, state.LastSeq)
	if err != nil || positions.Count != state.Msgs || positions.Last != state.LastSeq {
		return false, nil //nolint:nilerr // the server may still be able to read it
	}
	now, err := b.conn.info(ctx, b.live)
	if err != nil || now.State.LastSeq != state.LastSeq || now.State.Msgs != state.Msgs {
		return false, nil //nolint:nilerr // the caller asks the server, too
	}
	var failed error
	err = storefile.Scan(ctx, dir, &positions, after, func(r storefile.Record) bool {
		h, err := decodeHead(taskOf(r.Subject), headerValue(r.Header, headHeader), r.Seq)
		if failed = err; err != nil {
			return false
		}
		return yield(h, nil)
	})
	switch {
	case failed != nil:
		return true, failed
	case errors.Is(err, storefile.ErrDamaged):
		return true, fault.Wrap(fault.DataLoss, err, "the log cannot be read").WithHint("run: orch verify")
	case err != nil:
		return true, readFault(err)
	default:
		return true, nil
	}
}

// headerValue returns the value of a header in a header block, "" if there is none.
func headerValue(block []byte, name string) string {
	_, rest, found := bytes.Cut(block, []byte("\r\n"+name+":"))
	if !found {
		return ""
	}
	value, _, _ := bytes.Cut(rest, []byte("\r\n"))
	return string(bytes.TrimSpace(value))
}

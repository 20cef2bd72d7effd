package worker

import (
	"bytes"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/work"
)

const (
	// tailSize is how many bytes of the newest output of a call are kept for new watchers.
	tailSize = 64 << 10
	// outputEvery is the minimum interval between two pieces of the output of a call.
	outputEvery = 100 * time.Millisecond
)

// tail buffers the newest output of the programs of a call. Each heartbeat sends a piece to watchers. The output is not part of
// the result of the call.
type tail struct {
	// watched is set while clients watch the output.
	watched atomic.Bool

	mu  sync.Mutex
	raw []byte
	// end is the number of bytes written so far, sent the number of those already sent. pieceAt is when piece last looked for
	// output to send.
	end, sent int64
	pieceAt   time.Time
}

// write appends output of a program. It does not retain p.
func (t *tail) write(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end += int64(len(p))
	t.raw = append(t.raw, p[max(0, len(p)-tailSize):]...)
	if extra := len(t.raw) - tailSize; extra > tailSize {
		t.raw = append(t.raw[:0], t.raw[extra:]...)
	}
}

// piece returns the output that was not sent yet, nil for none: whole lines, at most the newest work.MaxOutput bytes. last is
// true if no more will come.
func (t *tail) piece(now time.Time, last bool, clean func([]byte) []byte) *work.Output {
	raw, start, sent := t.unsent(now, last)
	to := presentable(raw, last)
	from := max(int(sent-start), to-work.MaxOutput, endOfKey(raw))
	if start+int64(from) > sent && (from == 0 || !isLineEnd(raw[from-1])) { // something is left out: start at the next line
		from += afterLine(raw[from:])
	}
	if from >= to {
		return nil
	}
	shown := &work.Output{From: start + int64(from), To: start + int64(to)}
	// A secret may cross the start of the piece, so the text is cleaned together with what is before it.
	before, all := clean(raw[:from]), clean(raw[:to])
	if text, ok := bytes.CutPrefix(all, before); ok {
		shown.Text = strings.ToValidUTF8(string(text), "\uFFFD")
	}
	return shown
}

// unsent returns a copy of the buffer if some of it was not sent and a piece is due. The copy starts at offset start. With a
// copy, the program can continue to write while the caller removes secrets.
func (t *tail) unsent(now time.Time, last bool) (raw []byte, start, sent int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.end == t.sent || !last && now.Sub(t.pieceAt) < outputEvery {
		return nil, t.end, t.end
	}
	t.pieceAt = now
	raw = bytes.Clone(t.raw[max(0, len(t.raw)-tailSize):])
	return raw, t.end - int64(len(raw)), t.sent
}

// markSent records that a piece was sent.
func (t *tail) markSent(shown *work.Output) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = max(t.sent, shown.To)
}

// maxKey limits the length of a private key in bytes; anything longer is not one.
const maxKey = 16 << 10

// presentable returns how much of an output can be shown: whole lines, and no private key without its end.
func presentable(raw []byte, last bool) int {
	to := len(raw)
	if !last {
		to = bytes.LastIndexAny(raw, "\r\n") + 1
	}
	if begin := bytes.LastIndex(raw[:to], []byte("-----BEGIN ")); begin >= 0 && to-begin < maxKey && !bytes.Contains(raw[begin:to], []byte("-----END ")) {
		to = begin
	}
	return to
}

// endOfKey returns the end of a private key that started before raw, 0 for none.
func endOfKey(raw []byte) int {
	end := bytes.Index(raw, []byte("-----END "))
	if end < 0 || bytes.Contains(raw[:end], []byte("-----BEGIN ")) {
		return 0
	}
	return end + afterLine(raw[end:])
}

func isLineEnd(b byte) bool { return b == '\n' || b == '\r' }

// afterLine returns the start of the next line, or the end if there is none.
func afterLine(raw []byte) int {
	if i := bytes.IndexAny(raw, "\r\n"); i >= 0 {
		return i + 1
	}
	return len(raw)
}

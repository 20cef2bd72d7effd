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
	// keptOutput is how much of the newest output of the programs of a call is kept for those who begin to watch, in bytes.
	keptOutput = 64 << 10
	// outputEvery is the least time between two pieces of the output of a call.
	outputEvery = 100 * time.Millisecond
)

// tail is the newest output of the programs of a call. It is shown to those who watch, a piece with each heartbeat, and to nobody
// else: the result of the call is what counts.
type tail struct {
	// watched is set while somebody watches.
	watched atomic.Bool

	mu  sync.Mutex
	raw []byte
	// end is how many bytes were written in all, sent up to where they were shown, at when.
	end, sent int64
	at        time.Time
}

// write takes what a program has written. It does not keep p.
func (t *tail) write(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end += int64(len(p))
	t.raw = append(t.raw, p[max(0, len(p)-keptOutput):]...)
	if extra := len(t.raw) - keptOutput; extra > keptOutput {
		t.raw = append(t.raw[:0], t.raw[extra:]...)
	}
}

// piece is the output that nobody was shown yet, nil for none: whole lines, the newest work.MaxOutput bytes of them. last is true when
// no more will come.
func (t *tail) piece(now time.Time, last bool, clean func([]byte) []byte) *work.Output {
	raw, start, sent := t.unsent(now, last)
	to := presentable(raw, last)
	from := max(int(sent-start), to-work.MaxOutput, endOfKey(raw))
	if start+int64(from) > sent && (from == 0 || !isLineEnd(raw[from-1])) { // something is left out: go on with the next line
		from += afterLine(raw[from:])
	}
	if from >= to {
		return nil
	}
	shown := &work.Output{From: start + int64(from), To: start + int64(to)}
	// A secret may reach over the edge of two pieces, so both sides of it are cleaned with what is before them.
	before, all := clean(raw[:from]), clean(raw[:to])
	if text, ok := bytes.CutPrefix(all, before); ok {
		shown.Text = strings.ToValidUTF8(string(text), "\uFFFD")
	}
	return shown
}

// unsent is a copy of what is kept, which begins at start, when something of it was not shown and it is time. Who cleans it does not
// keep the program from writing.
func (t *tail) unsent(now time.Time, last bool) (raw []byte, start, sent int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.end == t.sent || !last && now.Sub(t.at) < outputEvery {
		return nil, t.end, t.end
	}
	t.at = now
	raw = bytes.Clone(t.raw[max(0, len(t.raw)-keptOutput):])
	return raw, t.end - int64(len(raw)), t.sent
}

// told notes that a piece was shown.
func (t *tail) told(shown *work.Output) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = max(t.sent, shown.To)
}

// maxKey is how long a key can be, in bytes; what is longer is none.
const maxKey = 16 << 10

// presentable is how much of an output can be shown: whole lines, and no key whose end has not come.
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

// endOfKey is where the rest of a key ends whose beginning is gone, 0 for none.
func endOfKey(raw []byte) int {
	end := bytes.Index(raw, []byte("-----END "))
	if end < 0 || bytes.Contains(raw[:end], []byte("-----BEGIN ")) {
		return 0
	}
	return end + afterLine(raw[end:])
}

func isLineEnd(b byte) bool { return b == '\n' || b == '\r' }

// afterLine is where the next line begins, the end when none does.
func afterLine(raw []byte) int {
	if i := bytes.IndexAny(raw, "\r\n"); i >= 0 {
		return i + 1
	}
	return len(raw)
}

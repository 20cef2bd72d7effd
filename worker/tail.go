package worker

import (
	"bytes"
	"context"
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

// restTime bounds how long the outcome of a call that somebody watches waits for the end of its output.
const restTime = time.Second

// maxTold bounds the output of all calls that one heartbeat takes along, in bytes of text: it renews their leases as well.
const maxTold = 512 << 10

func sizeOf(o *work.Output) int {
	if o == nil {
		return 0
	}
	return len(o.Text)
}

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

// output takes what programs of a call have written.
func (w *Worker) output(a *attempt, p []byte) {
	a.tail.write(p)
	if a.tail.watched.Load() {
		w.tellSoon()
	}
}

// tellSoon lets the heartbeat tell what is new.
func (w *Worker) tellSoon() {
	if !w.progressed.Swap(true) {
		w.wakeHeartbeat()
	}
}

// pieceOf is the piece of output that a heartbeat takes along.
func (w *Worker) pieceOf(a *attempt, last bool) *work.Output {
	if !a.tail.watched.Load() {
		return nil
	}
	return a.tail.piece(time.Now(), last, func(data []byte) []byte {
		clean, _ := w.redact(a, a.secrets.Load().Trim(data))
		return clean
	})
}

// watch notes which of the calls of a heartbeat somebody watches.
func (w *Worker) watch(attempts []*attempt, shown []work.Ref) {
	watched := make(map[work.Ref]bool, len(shown))
	for _, ref := range shown {
		watched[ref] = true
	}
	for _, a := range attempts {
		if on := watched[a.Ref]; on != a.tail.watched.Swap(on) && on {
			w.tellSoon()
		}
	}
}

// showRest shows the end of the output of a call to those who watch, before its outcome is known.
func (w *Worker) showRest(ctx context.Context, a *attempt) {
	if !a.tail.watched.Load() {
		return
	}
	w.telling.Lock() // the piece before it is told then
	defer w.telling.Unlock()
	piece := w.pieceOf(a, true)
	if piece == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), restTime)
	defer stop()
	// That it is not heard costs those who watch the last lines, and no more.
	_, _ = w.owner.Heartbeat(ctx, work.Heartbeat{Worker: w.cfg.Name, Queues: w.cfg.Queues, Calls: []work.CallHeartbeat{{
		Ref: a.Ref, Tool: a.Tool, Effect: a.resolved(), Output: piece,
	}}})
}

package rest

import (
	"bytes"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
)

const (
	// maxCollected is the most changed tasks that are collected for one batch.
	maxCollected = 4096
	// maxPending is the most changes that wait until a listener reads them, unless they are of one batch. A listener that falls behind
	// further starts over.
	maxPending = 1000
	// pauseEach is the part of each listener in the pause between two batches, so that the number of batches that are sent in a second
	// does not grow with the number of listeners. longestPause is the longest pause.
	pauseEach    = time.Millisecond
	longestPause = 100 * time.Millisecond
	// stuckEvery is the time between two counts of the stuck tasks, while there are listeners.
	stuckEvery = time.Second
)

// FeedConfig configures a Feed.
type FeedConfig struct {
	// Now is the clock of the changes. Default: time.Now.
	Now func() time.Time
	// Lag returns for how long the oldest change waits of which the feed has not heard yet. Default: none waits.
	Lag func() time.Duration
	// Stuck counts the stuck tasks (api.ListRequest.Stuck): their number grows without a change of a task. Default: there are none.
	Stuck func() int
}

// Feed passes changed tasks on to listeners, such as open pages. It collects the changes of a short time, encodes them once, and passes
// them on as one batch. A change after a quiet time is passed on immediately. It is safe for concurrent use.
type Feed struct {
	cfg FeedConfig
	// start is the position at which the feed began.
	start position

	collected collector
	// wake has an element while there is something to pass on.
	wake   chan struct{}
	closed chan struct{}
	ended  sync.WaitGroup
	once   sync.Once
	// listening counts the listeners.
	listening atomic.Int64

	mu        sync.Mutex
	listeners map[*listener]bool
	// passed counts the changes that were passed on.
	passed int64
}

// NewFeed returns a feed. Close ends it.
func NewFeed(cfg FeedConfig) *Feed {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Lag == nil {
		cfg.Lag = func() time.Duration { return 0 }
	}
	if cfg.Stuck == nil {
		cfg.Stuck = func() int { return 0 }
	}
	f := &Feed{cfg: cfg, start: newPosition(cfg.Now()), wake: make(chan struct{}, 1), closed: make(chan struct{}), listeners: map[*listener]bool{}}
	f.ended.Go(f.run)
	return f
}

// Close ends the feed. Its listeners get no further changes.
func (f *Feed) Close() {
	f.once.Do(func() { close(f.closed) })
	f.ended.Wait()
}

// Changed passes on a changed task, except an internal one, which lists leave out. It never blocks, and without listeners it does
// nothing.
func (f *Feed) Changed(line api.Summary) {
	if f.listening.Load() == 0 || strings.HasPrefix(line.Name, api.OwnPrefix) {
		return
	}
	f.collected.add(line)
	signal(f.wake)
}

// next returns a position up to which all changes are collected.
func (f *Feed) next() position { return f.start.at(f.cfg.Now().Add(-f.cfg.Lag() - overlap)) }

// position returns a position up to which all changes were passed on; false if it is unknown now.
func (f *Feed) position() (position, bool) {
	p := f.next()
	added := f.collected.count()
	f.mu.Lock()
	defer f.mu.Unlock()
	return p, f.passed >= added
}

// run passes on batches until the feed is closed.
func (f *Feed) run() {
	count := time.NewTicker(stuckEvery)
	defer count.Stop()
	stuck := 0
	for {
		select {
		case <-f.wake:
			after := f.next() // before take, so that what is taken contains everything before it
			f.passOn(f.collected.take(), after)
		case <-count.C:
			stuck = f.wakeIfStuck(stuck)
			continue
		case <-f.closed:
			return
		}
		select {
		case <-time.After(min(time.Duration(f.listening.Load())*pauseEach, longestPause)):
		case <-f.closed:
			return
		}
	}
}

// wakeIfStuck wakes the listeners that see all tasks if the number of stuck tasks has changed, so that they count the inbox again. One
// count serves all listeners. It returns the number.
func (f *Feed) wakeIfStuck(before int) int {
	if f.listening.Load() == 0 {
		return before
	}
	now := f.cfg.Stuck()
	if now == before {
		return now
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for l := range f.listeners {
		if l.only == "" {
			signal(l.wake)
		}
	}
	return now
}

// passOn encodes changed tasks, and passes them on to all listeners as one batch that ends at a position.
func (f *Feed) passOn(c collected, after position) {
	b := newBatch(c.lines, c.lost)
	b.end(after)
	f.mu.Lock()
	defer f.mu.Unlock()
	for l := range f.listeners {
		l.add(b)
	}
	f.passed = c.added
}

// listen adds a listener. only selects the tasks of one submitter; empty means all. The caller must call end.
func (f *Feed) listen(only string) (l *listener, end func()) {
	l = &listener{only: only, wake: make(chan struct{}, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listeners[l] = true
	f.listening.Add(1)
	return l, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.listeners, l)
		f.listening.Add(-1)
	}
}

// signal puts an element into a channel with room for one.
func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// collector collects changed tasks. Of several changes of one task, it keeps the newest.
type collector struct {
	mu    sync.Mutex
	order []events.TaskID
	lines map[events.TaskID]api.Summary
	// added counts all changes, also those that were dropped.
	added int64
	// lost is set if changes were dropped, because there were too many.
	lost bool
}

// add adds a changed task.
func (c *collector) add(line api.Summary) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.added++
	if _, known := c.lines[line.ID]; !known {
		if len(c.order) == maxCollected {
			c.lost = true
			return
		}
		c.order = append(c.order, line.ID)
	}
	if c.lines == nil {
		c.lines = map[events.TaskID]api.Summary{}
	}
	c.lines[line.ID] = line
}

// collected are changed tasks, in the order of their first changes. lost is set if some are missing, and added counts all changes until
// they were taken.
type collected struct {
	lines []api.Summary
	added int64
	lost  bool
}

// take returns and removes the changed tasks.
func (c *collector) take() collected {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := collected{added: c.added, lost: c.lost}
	for _, id := range c.order {
		taken.lines = append(taken.lines, c.lines[id])
	}
	c.order, c.lines, c.lost = nil, nil, false
	return taken
}

// count returns the number of all changes so far.
func (c *collector) count() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.added
}

// batch is a batch of encoded changes.
type batch struct {
	changes []change
	// all are the events of all changes. place is the position after them.
	all, place []byte
	// lost is set if changes are missing.
	lost bool
}

// change is a changed task with its encoded event.
type change struct {
	requestor string
	frame     []byte
}

// newBatch encodes changed tasks.
func newBatch(lines []api.Summary, lost bool) batch {
	b := batch{lost: lost}
	for _, line := range lines {
		encoded, err := frame("", "task", line)
		if err != nil { // not expected: a summary can be encoded
			b.lost = true
			continue
		}
		b.changes = append(b.changes, change{line.Requestor, encoded})
		b.all = append(b.all, encoded...)
	}
	return b
}

// end adds the position after the changes.
func (b *batch) end(after position) {
	b.place = []byte("id: " + after.String() + "\n\n")
	b.all = append(b.all, b.place...)
}

// of returns the events of the tasks of one submitter, or of all if only is empty, and their number.
func (b *batch) of(only string) (encoded []byte, n int) {
	if only == "" {
		return b.all, len(b.changes)
	}
	var frames [][]byte
	for _, c := range b.changes {
		if c.requestor == only {
			frames = append(frames, c.frame)
		}
	}
	return bytes.Join(append(frames, b.place), nil), len(frames)
}

// listener collects batches until they are read.
type listener struct {
	only string
	// wake has an element while there is something to read.
	wake chan struct{}

	mu      sync.Mutex
	batches [][]byte
	// waiting counts the changes in batches.
	waiting int
	gap     bool
}

// add adds the changes of a batch. A listener that does not read them starts over.
func (l *listener) add(b batch) {
	encoded, n := b.of(l.only)
	if n == 0 && !b.lost {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.lost || l.waiting > 0 && l.waiting+n > maxPending {
		l.batches, l.waiting, l.gap = nil, 0, true
	} else {
		l.batches, l.waiting = append(l.batches, encoded), l.waiting+n
	}
	signal(l.wake)
}

// reset tells the reader that changes are missing.
func (l *listener) reset() { l.add(batch{lost: true}) }

// addOlder adds the events of n tasks that are older than those that wait.
func (l *listener) addOlder(encoded []byte, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n == 0 || l.gap {
		return
	}
	l.batches, l.waiting = append([][]byte{encoded}, l.batches...), l.waiting+n
	signal(l.wake)
}

// take returns and removes the encoded batches, the oldest first, and whether changes are missing before them.
func (l *listener) take() (batches [][]byte, gap bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	batches, gap = l.batches, l.gap
	l.batches, l.waiting, l.gap = nil, 0, false
	return batches, gap
}

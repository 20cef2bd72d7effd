package bus

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/internal/histogram"
)

const (
	// maxInFlight is the maximum number of appends in flight; further calls of Append wait.
	maxInFlight = 4000
	// ackWithin is how long to wait for an acknowledgement before reading the log.
	ackWithin = 2 * time.Second
	// ackWithinFull replaces ackWithin on a full disk, where most likely no acknowledgement arrives.
	ackWithinFull = time.Second
	// slotWithin is how long an append may wait for a slot. Then it is refused.
	slotWithin = 5 * time.Second
)

// pending is an append whose caller waits.
type pending struct {
	record events.Record
	done   func(seq uint64, err error)
	// tries counts the messages sent for the append, except those that the log refused. After more than one, only the log shows
	// whether any took effect.
	tries int
	since time.Time // of the call
	sent  time.Time // of the last message
	// incarnation is the incarnation of the embedded server that the last message was sent to.
	incarnation uint64
	// expected is what order expects of the last message. stale is set if the log refused it because of the commits of its task.
	expected expectation
	stale    bool
	// silent is set if the last message asked for no acknowledgement.
	silent bool
}

// verdict is the outcome of an append. The caller gets a verdict once the commits that it relies on are durable.
type verdict struct {
	p   *pending
	seq uint64
	err error
}

// appender sends appends as conditional messages and receives their acknowledgements. Appends that arrive while an acknowledgement
// is outstanding wait, and share the next one (see sendLoop). With a barrier, verdicts that arrive while a sync runs wait for the
// next sync, and are reported together after it.
type appender struct {
	conn  *Conn
	inbox string
	lease Lease
	// root is the prefix of the subjects of appends, epoch the value of their epochHeader. Both are "" without a lease.
	root, epoch   string
	compact       *atomic.Bool // that of streams: whether to compress and link commits
	barrier       *barrier
	slots         chan struct{}             // one token for each append between Append and done
	fullSince     atomic.Pointer[time.Time] // since when there is no slot; nil while there are some
	sendSignal    chan struct{}             // signals that sendLoop may have something to send
	syncSignal    chan struct{}             // signals that a verdict waits for the barrier
	groups        chan group                // verdicts whose sync is done
	serverRefusal atomic.Pointer[refusal]   // why an external server refuses appends; cleared by the next success
	lostSignal    chan struct{}             // signals that lost has entries
	took          *histogram.Histogram      // the times from Append to the acknowledgement
	failed        atomic.Uint64             // appends that failed, without conflicts
	stop          chan struct{}
	loops         sync.WaitGroup

	mu         sync.Mutex // guards the fields below
	draining   bool
	terminated bool       // no goroutine is left to report verdicts: finish appends at once
	waiting    []*pending // to be sent
	lastID     uint64
	inFlight   map[uint64]*pending // sent messages, by their numbers
	asked      uint64              // the number of the newest message that asked for an acknowledgement
	acked      uint64              // the highest number of a message that was acknowledged
	ackedAt    time.Time           // the time of the newest acknowledgement
	verdicts   []verdict           // waiting for the barrier
	lost       []*pending          // appends with a lost acknowledgement, to be resolved by reading the log
	newest     head                // the newest acknowledged commit
	order      order
}

func (s *Store) openAppender(ctx context.Context) error {
	a := &appender{
		barrier:    s.barrier(),
		slots:      make(chan struct{}, maxInFlight),
		sendSignal: make(chan struct{}, 1),
		syncSignal: make(chan struct{}, 1),
		groups:     make(chan group, 1),
		lostSignal: make(chan struct{}, 1),
		took:       histogram.New(),
		stop:       make(chan struct{}),
		inFlight:   map[uint64]*pending{},
		lease:      s.cfg.Lease,
		compact:    &s.compact,
		order:      newOrder(s.cfg.Lease == nil && s.conn.target.server != nil),
	}
	if s.epoch > 0 {
		a.root, a.epoch = inputRootOf(s.epoch), strconv.FormatUint(s.epoch, 10)
	}
	var err error
	if a.conn, err = s.conn.openAppends(ctx, a.onReconnect); err != nil {
		return err
	}
	a.inbox = a.conn.nc.NewInbox() + "."
	sub, err := a.conn.nc.Subscribe(a.inbox+"*", a.onAck)
	if err == nil {
		err = sub.SetPendingLimits(-1, -1) // maxInFlight already limits them
	}
	if err != nil {
		a.conn.Close()
		return fault.Wrap(fault.Unavailable, err, "the log cannot be opened")
	}
	s.appender = a
	a.loops.Go(a.sendLoop)
	a.loops.Go(a.syncLoop)
	a.loops.Go(a.reportLoop)
	return nil
}

// Append implements events.Log.
func (s *Store) Append(r events.Record, done func(seq uint64, err error)) {
	failpoint.Pass(failpoint.BeforeAppend)
	now := time.Now()
	if err := s.checkAppend(&r, now); err != nil {
		done(0, err)
		return
	}
	if err := s.appender.takeSlot(); err != nil {
		done(0, err)
		return
	}
	p := &pending{record: r, since: now, done: done}
	if r.After == 0 && s.filter.mayContain(r.Task, now) {
		go s.sendIfNew(p) // ends with the append, which drain waits for
		return
	}
	s.appender.send(p)
}

// takeSlot waits for a slot, but refuses the append if no append has ended for slotWithin.
func (a *appender) takeSlot() error {
	select {
	case a.slots <- struct{}{}:
		return nil
	default:
	}
	now := time.Now()
	a.fullSince.CompareAndSwap(nil, &now)
	since := now
	if full := a.fullSince.Load(); full != nil {
		since = *full
	}
	timer := time.NewTimer(slotWithin - now.Sub(since))
	defer timer.Stop()
	select {
	case a.slots <- struct{}{}:
		return nil
	case <-a.stop:
		return stopping()
	case <-timer.C:
		return fault.NewOverloaded(now, "the log has %d commits to acknowledge", cap(a.slots))
	}
}

// checkAppend returns why a record cannot or must not be appended, or nil.
func (b *streams) checkAppend(r *events.Record, now time.Time) error {
	if _, err := events.ParseTaskID(string(r.Task)); err != nil {
		return err
	}
	if loss := b.loss.Load(); loss != nil {
		return loss
	}
	if err := b.lostData.goneFault(r.Task); err != nil {
		return err
	}
	if err := b.appender.barrier.err(); err != nil {
		return err
	}
	if leaseLost(b.cfg.Lease) {
		return fenced()
	}
	if limit := b.conn.maxCommit(); len(r.Data) > limit {
		return fault.New(fault.ValidationError, "a commit of %d bytes is larger than the limit of %d", len(r.Data), limit).
			WithHint("put large values into the blob store")
	}
	return b.space.checkRoom(len(r.Data), now)
}

func stopping() error {
	return fault.New(fault.Unavailable, "the log is closing").WithHint("try again when the node runs")
}

// send sends an append for the first time.
func (a *appender) send(p *pending) {
	a.mu.Lock()
	draining := a.draining
	a.mu.Unlock()
	if draining {
		a.finish(p, 0, stopping())
		return
	}
	a.transmit(p)
}

// untrack unregisters a message that was not sent, and returns its append, or nil if it was unregistered before.
func (a *appender) untrack(id uint64) *pending {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.order.wrong(a.lastID)
	p := a.inFlight[id]
	delete(a.inFlight, id)
	return p
}

// forget lets the server check that a later append follows the newest commit of its task in the log.
func (a *appender) forget(task events.TaskID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.order.forget(task)
}

// finish reports the outcome to the caller and frees its slot.
func (a *appender) finish(p *pending, seq uint64, err error) {
	switch {
	case err == nil:
		a.took.Observe(time.Since(p.since))
	case !fault.Has(err, fault.Conflict):
		a.failed.Add(1)
	}
	p.done(seq, err)
	<-a.slots
	a.fullSince.Store(nil)
}

// resolveLater parks an append and wakes the maintenance goroutine, which resolves it.
func (a *appender) resolveLater(p *pending) {
	a.park(p)
	signal(a.lostSignal)
}

// park adds an append to lost, to be resolved by reading the log.
func (a *appender) park(p *pending) { a.keep(&a.lost, p) }

// keep adds an append to a list of the appender. If no goroutine is left to look at the list, it finishes the append.
func (a *appender) keep(list *[]*pending, p *pending) {
	a.mu.Lock()
	ended := a.terminated
	if !ended {
		*list = append(*list, p)
	}
	a.mu.Unlock()
	if ended {
		a.finish(p, 0, unknownOutcome(p))
	}
}

// onReconnect runs after the connection came back: acknowledgements of earlier messages will not arrive.
func (a *appender) onReconnect() {
	a.expire(time.Now(), 0)
	signal(a.lostSignal)
}

// expire moves the appends of messages that were sent at least patience ago to lost. While acknowledgements arrive, it spares the
// messages after them: a single server acknowledges in the order of the messages.
func (a *appender) expire(now time.Time, patience time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	moving := patience > 0 && now.Sub(a.ackedAt) < patience
	for id, p := range a.inFlight {
		if now.Sub(p.sent) >= patience && (id < a.acked || !moving) {
			a.order.wrong(a.lastID)
			delete(a.inFlight, id)
			a.lost = append(a.lost, p)
		}
	}
	signal(a.sendSignal)
}

// drain makes new appends fail and waits for those in flight, until ctx ends.
func (a *appender) drain(ctx context.Context) {
	a.mu.Lock()
	a.draining = true
	a.mu.Unlock()
	for range maxInFlight {
		select {
		case a.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
}

// close stops the goroutines and answers the remaining appends with UNAVAILABLE.
func (a *appender) close() {
	close(a.stop)
	a.loops.Wait()
	a.conn.Close()
	a.mu.Lock()
	unfinished := slices.Concat(a.waiting, a.lost, slices.Collect(maps.Values(a.inFlight)))
	for _, v := range a.verdicts {
		unfinished = append(unfinished, v.p)
	}
	a.waiting, a.inFlight, a.verdicts, a.lost, a.terminated = nil, map[uint64]*pending{}, nil, nil, true
	a.mu.Unlock()
	for _, p := range unfinished {
		a.finish(p, 0, unknownOutcome(p))
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

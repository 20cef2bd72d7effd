package receiver

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/internal/pause"
)

const (
	// takeWithin bounds the work on a message. After 15 s without an acknowledgement the server hands it out again.
	takeWithin = 10 * time.Second
	// maxHandled is the number of messages of all streams that are handled at the same time.
	maxHandled = 32
	// firstWait is the time until something that failed is tried again; it doubles up to lastTry for a message, and up to lastOpen for a
	// stream that cannot be read.
	firstWait, lastTry, lastOpen = time.Second, 5 * time.Minute, 15 * time.Second
	// lookEvery is the time between two looks at how many messages wait.
	lookEvery = 15 * time.Second
)

// Feeds are the streams of the NATS server of a node.
type Feeds interface {
	// Now returns the time of the server that has a stream. Errors: NOT_FOUND while there is no such stream, UNAVAILABLE.
	Now(ctx context.Context, stream string) (time.Time, error)
	// Open opens a consumer, which is created if there is none. One that exists keeps its place. Errors: NOT_FOUND while there is no
	// such stream, VALIDATION_ERROR if the server refuses the consumer, UNAVAILABLE.
	Open(ctx context.Context, c hooks.Consumer) (Feed, error)
	// Remove removes a consumer, if there is one.
	Remove(ctx context.Context, c hooks.Consumer) error
	// Waiting returns the number of messages for a consumer that are not acknowledged.
	Waiting(ctx context.Context, c hooks.Consumer) (int, error)
}

// Feed hands out the messages for a consumer.
type Feed interface {
	// Next returns the next message. It waits for some seconds, and returns nil if none has come. Errors: as Feeds.Open.
	Next(ctx context.Context) (Arrival, error)
}

// Arrival is a message that waits for an acknowledgement.
type Arrival interface {
	Message() *hooks.Message
	// Done acknowledges the message, and returns when the server knows.
	Done(ctx context.Context) error
	// Refuse ends the deliveries of the message.
	Refuse(reason string) error
	// Later asks for the message again after a while.
	Later(after time.Duration) error
}

// consumer returns the place of the hook in its stream, and whether it has one.
func (h *hook) consumer() (hooks.Consumer, bool) {
	d := &h.Definition
	if d.NATS == nil {
		return hooks.Consumer{}, false
	}
	return hooks.Consumer{Stream: d.NATS.Name, Subject: d.NATS.Subject, Name: "orch-" + d.ID, Since: d.Since}, true
}

// errNoFeeds is the error for a stream of a node that has a NATS server of its own.
func errNoFeeds() error {
	return fault.New(fault.ValidationError, "this node has a NATS server of its own, to which nobody else can publish").WithField("provider").
		WithHint("give it a NATS server with your streams: orch serve --nats URL")
}

// Run takes the messages of streams until ctx ends.
func (r *Receiver) Run(ctx context.Context) {
	if r.cfg.Feeds == nil {
		return
	}
	var pumps sync.WaitGroup
	defer pumps.Wait()
	pumps.Go(func() { r.watch(ctx) })
	running := map[hooks.Consumer]context.CancelFunc{}
	for {
		wanted := r.consumers()
		for c, stop := range running {
			if _, still := wanted[c]; !still {
				stop()
				delete(running, c)
			}
		}
		for c, name := range wanted {
			if running[c] == nil {
				run, stop := context.WithCancel(ctx)
				running[c] = stop
				pumps.Go(func() { r.pump(run, name, c) })
			}
		}
		select {
		case <-ctx.Done():
			for _, stop := range running {
				stop()
			}
			return
		case <-r.changed:
		}
	}
}

// watch looks at how many messages wait until ctx ends.
func (r *Receiver) watch(ctx context.Context) {
	tick := time.NewTicker(r.cfg.Interval)
	defer tick.Stop()
	for {
		r.measure(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// measure sets how many messages wait for all hooks, paused ones included. Streams that do not exist have none.
func (r *Receiver) measure(ctx context.Context) {
	var sum *int
	for _, h := range r.list() {
		c, has := h.consumer()
		if !has {
			continue
		}
		n, err := r.cfg.Feeds.Waiting(ctx, c)
		if err != nil && !fault.Has(err, fault.NotFound) { // the server would not answer for the others either
			sum = nil
			break
		}
		if sum == nil {
			sum = new(int)
		}
		*sum += n
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unread = sum
}

// consumers returns the names of the hooks that take messages, by their consumers.
func (r *Receiver) consumers() map[hooks.Consumer]string {
	all := map[hooks.Consumer]string{}
	for _, h := range r.list() {
		if c, has := h.consumer(); has && h.Paused == nil {
			all[c] = h.Name
		}
	}
	return all
}

// noteChange lets Run look at the hooks again.
func (r *Receiver) noteChange() {
	select {
	case r.changed <- struct{}{}:
	default: // it will look anyway
	}
}

// pump takes the messages of a consumer until ctx ends.
func (r *Receiver) pump(ctx context.Context, name string, c hooks.Consumer) {
	defer r.closeIfGone(context.WithoutCancel(ctx), name, c)
	for failed := uint64(1); ; failed++ {
		feed, err := r.cfg.Feeds.Open(ctx, c)
		if err == nil {
			failed = 1
			r.setProblem(name, nil)
			err = r.drain(ctx, name, c, feed)
		}
		if ctx.Err() != nil {
			return
		}
		if feed == nil || !fault.Has(err, fault.NotFound) { // a consumer that is gone is made again, and only if that fails it is a problem
			r.setProblem(name, err)
		}
		if pause.For(ctx, backoff(failed, lastOpen)) != nil {
			return
		}
	}
}

// drain takes messages until the stream cannot be read, or ctx ends.
func (r *Receiver) drain(ctx context.Context, name string, c hooks.Consumer, feed Feed) error {
	for failed := uint64(0); ; {
		m, err := feed.Next(ctx)
		if err != nil {
			return err
		}
		if m == nil {
			continue
		}
		if err := r.take(ctx, name, c, m); err == nil {
			failed = 0
			r.setProblem(name, nil)
			continue
		} else if failed++; ctx.Err() == nil {
			r.setProblem(name, fault.Wrap(fault.CodeOf(err), err, "a message cannot be taken now: "+fault.From(err).Message))
		}
		if err := pause.For(ctx, backoff(failed, lastOpen)); err != nil {
			return err
		}
	}
}

// backoff returns the wait after a number of failures.
func backoff(failed uint64, most time.Duration) time.Duration {
	const doublings = 16
	return min(firstWait<<min(max(failed, 1)-1, doublings), most)
}

// take handles a message and acknowledges it, when its outcome is durable. It returns an error if the message comes again.
func (r *Receiver) take(ctx context.Context, name string, c hooks.Consumer, m Arrival) error {
	if err := r.enter(ctx, name); err != nil {
		_ = m.Later(0) // if it is lost, the server waits longer
		return err
	}
	defer func() { <-r.slots }()
	h := r.get(name)
	if h == nil || h.Paused != nil {
		return m.Later(0)
	}
	if now, has := h.consumer(); !has || now != c {
		return m.Later(0)
	}
	within, stop := context.WithTimeout(ctx, takeWithin)
	defer stop()
	o, err := r.handle(within, h, m.Message())
	switch {
	case err != nil && ctx.Err() != nil:
		_ = m.Later(0)
		return err
	case err != nil:
		r.count(h, hooks.Outcome{Result: hooks.Failed})
		r.log.LogAttrs(ctx, slog.LevelWarn, "hook_delayed", slog.String("name", h.Name), slog.String("delivery", o.Delivery), slog.Any("error", err))
		_ = m.Later(backoff(m.Message().Tries, lastTry))
		return err
	case o.Result == hooks.Refused:
		return m.Refuse(o.Reason)
	default:
		return m.Done(within)
	}
}

// enter waits until a message of a hook may be handled. The caller frees its slot.
func (r *Receiver) enter(ctx context.Context, name string) error {
	for h := r.get(name); h != nil && r.admit(h) != nil; h = r.get(name) {
		if err := pause.For(ctx, time.Second/rate); err != nil {
			return err
		}
	}
	select {
	case r.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.From(ctx.Err())
	}
}

// handle does what a message says, and records that. It returns an error if the message should come again.
func (r *Receiver) handle(ctx context.Context, h *hook, m *hooks.Message) (hooks.Outcome, error) {
	v := r.judge(h, arrival{headers: m.Headers, raw: m.Body, id: m.ID(), subject: m.Subject})
	if v.Result == "" {
		if err := r.perform(ctx, h, &v); err != nil {
			return v.Outcome, err
		}
	}
	return v.Outcome, r.conclude(ctx, h, v.Outcome)
}

// setProblem sets why a hook takes no messages; nil if it does.
func (r *Receiver) setProblem(name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.problems[name]
	if err == nil || r.all[name] == nil {
		delete(r.problems, name)
		return
	}
	f := fault.From(err)
	if r.problems[name] = r.cfg.Redact(f.Message); r.problems[name] != was {
		r.log.Warn("hook_takes_nothing", slog.String("name", name), slog.Any("error", err))
	}
}

// since returns the time from which a definition takes the messages of its stream: for FromNew that of the server, or the zero time if
// the stream does not exist, because all its messages are then new. A definition before keeps its time for its stream.
func (r *Receiver) since(ctx context.Context, d hooks.Definition, was *hook) (time.Time, error) {
	switch {
	case d.NATS == nil:
		return time.Time{}, nil
	case r.cfg.Feeds == nil:
		return time.Time{}, errNoFeeds()
	case was != nil && was.Definition.NATS != nil && was.Definition.NATS.Name == d.NATS.Name:
		return was.Definition.Since, nil
	case d.NATS.From == hooks.FromAll:
		return time.Time{}, nil
	}
	now, err := r.cfg.Feeds.Now(ctx, d.NATS.Name)
	if fault.Has(err, fault.NotFound) {
		return time.Time{}, nil
	}
	return now, err
}

// openFeed makes the consumer of a hook, so that the stream keeps messages for it from now on, and removes the one of the definition
// before, if that had another.
func (r *Receiver) openFeed(ctx context.Context, h, was *hook) {
	c, has := h.consumer()
	if was != nil {
		if before, had := was.consumer(); had && (!has || before.Stream != c.Stream) {
			r.closeFeed(ctx, was)
		}
	}
	if has && r.cfg.Feeds != nil {
		_, err := r.cfg.Feeds.Open(ctx, c)
		r.setProblem(h.Name, err)
	}
}

// closeFeed removes the consumer of a hook.
func (r *Receiver) closeFeed(ctx context.Context, h *hook) {
	if c, has := h.consumer(); has && r.cfg.Feeds != nil {
		r.removeConsumer(ctx, h.Name, c)
	}
}

// closeIfGone removes a consumer that no hook has any more, and that was perhaps made again while its hook was deleted.
func (r *Receiver) closeIfGone(ctx context.Context, name string, c hooks.Consumer) {
	if h := r.get(name); h != nil {
		if now, has := h.consumer(); has && now.Stream == c.Stream && now.Name == c.Name {
			return
		}
	}
	r.removeConsumer(ctx, name, c)
}

// removeConsumer removes a consumer. One that cannot be removed stays: it starts no tasks.
func (r *Receiver) removeConsumer(ctx context.Context, name string, c hooks.Consumer) {
	if err := r.cfg.Feeds.Remove(ctx, c); err != nil {
		r.log.LogAttrs(ctx, slog.LevelWarn, "hook_consumer_left", slog.String("name", name), slog.String("stream", c.Stream), slog.String("consumer", c.Name), slog.Any("error", err))
	}
}

// waiting returns the number of messages that wait for a hook; nil if it is not known.
func (r *Receiver) waiting(ctx context.Context, h *hook) *int {
	c, has := h.consumer()
	if !has || r.cfg.Feeds == nil {
		return nil
	}
	n, err := r.cfg.Feeds.Waiting(ctx, c)
	if err != nil {
		return nil
	}
	return &n
}

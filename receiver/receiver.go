package receiver

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/internal/journaled"
	"github.com/orch-dev/orch/internal/keyring"
)

// Tasks is what a receiver needs of a node. *orchestrator.Orchestrator implements it.
type Tasks interface {
	// Check returns the error with which Submit would refuse a request.
	Check(ctx context.Context, r api.SubmitRequest) error
	Submit(ctx context.Context, r api.SubmitRequest) (api.SubmitReply, error)
	Get(ctx context.Context, r api.GetRequest) (api.TaskView, error)
	Signal(ctx context.Context, r api.SignalRequest) (api.TaskView, error)
}

// Config configures a Receiver.
type Config struct {
	Tasks   Tasks
	Secrets keyring.Store
	// Open opens the journal.
	Open journaled.Open
	// Feeds are the streams of the NATS server; nil if the node has one of its own, which has none but those of orch.
	Feeds Feeds
	// Root is the root of the tasks of definitions without one (api.SubmitRequest); empty for that of the node at the time.
	Root string
	// URL returns the URL at which a hook takes deliveries; empty for none. Default: none.
	URL func(name string) string
	// Redact removes secrets from texts. Default: it removes none.
	Redact func(text string) string
	// Clock is the wall clock.
	Clock func() time.Time
	// Interval is the time between two looks at how many messages wait. Default: 15 s.
	Interval time.Duration
	Logger   *slog.Logger
}

const (
	// MaxHooks is the maximum number of hooks.
	MaxHooks = 1000
	// MaxBody is the most bytes of the body of a delivery.
	MaxBody = 1 << 20
	// rate is the number of deliveries with a valid signature that a hook takes in a second, burst those that it takes at once.
	rate, burst = 50, 200
)

// Receiver receives the deliveries of the hooks of a node. It implements api.Hooks.
type Receiver struct {
	cfg Config
	log *slog.Logger

	// turn is held while hooks change, also during the I/O. It guards the fields up to queueing.
	turn  sync.Mutex
	state *journaled.State[change]

	queueing sync.Mutex
	queue    []*waiting

	mu   sync.RWMutex
	all  map[string]*hook
	keys *keyring.Ring // by the id of the hook
	// counted are the deliveries that this process has seen, of all hooks; seen those of each hook.
	counted map[hooks.Result]int
	seen    map[string]*sightings
	// problems says why hooks take no messages of their streams, by name.
	problems map[string]string
	// unread is the number of messages that wait for all hooks; nil if it is not known.
	unread *int

	// changed has an element if hooks may have changed since Run looked at them. slots has one for each message that is handled.
	changed, slots chan struct{}
}

// sightings is what a process knows of the requests to a hook and does not record.
type sightings struct {
	rejected, limited, failed int
	// last is the last request without a valid signature.
	last hooks.Outcome
	// tokens are the deliveries that the hook may take now, at the time filled.
	tokens float64
	filled time.Time
}

var _ api.Hooks = (*Receiver)(nil)

// New returns a receiver that knows no hooks until Start.
func New(cfg Config) *Receiver {
	if cfg.Redact == nil {
		cfg.Redact = func(text string) string { return text }
	}
	if cfg.URL == nil {
		cfg.URL = func(string) string { return "" }
	}
	cfg.Interval = cmp.Or(cfg.Interval, lookEvery)
	r := &Receiver{
		cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)),
		all: map[string]*hook{}, keys: keyring.New(cfg.Secrets), counted: map[hooks.Result]int{}, seen: map[string]*sightings{}, problems: map[string]string{},
		changed: make(chan struct{}, 1), slots: make(chan struct{}, maxHandled),
	}
	r.state = r.newState()
	return r
}

// Start reads the journal and the secrets, if there are any. Errors: DATA_LOSS, UNAVAILABLE.
func (r *Receiver) Start(ctx context.Context) error {
	r.turn.Lock()
	defer r.turn.Unlock()
	if err := r.state.Start(ctx); err != nil {
		return err
	}
	return r.keys.Load(ctx)
}

// now returns the time in the precision of the log.
func (r *Receiver) now() time.Time { return r.cfg.Clock().UTC().Truncate(time.Microsecond) }

// get returns a hook, or nil.
func (r *Receiver) get(name string) *hook {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.all[name]
}

func (r *Receiver) set(h *hook) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[h.Name] = h
	r.noteChange()
}

func (r *Receiver) remove(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, name)
	delete(r.seen, name)
	delete(r.problems, name)
	r.noteChange()
}

// list returns all hooks, by name.
func (r *Receiver) list() []*hook {
	r.mu.RLock()
	all := slices.Collect(maps.Values(r.all))
	r.mu.RUnlock()
	slices.SortFunc(all, func(a, b *hook) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// count counts a delivery; h is nil if it is for no hook.
func (r *Receiver) count(h *hook, o hooks.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counted[o.Result]++
	if h == nil || r.all[h.Name] == nil {
		return
	}
	s := r.sightingsOf(h.Name)
	switch o.Result {
	case hooks.Rejected:
		s.rejected++
		s.last = o
	case hooks.Limited:
		s.limited++
	case hooks.Failed:
		s.failed++
	case hooks.Accepted, hooks.Duplicate, hooks.Filtered, hooks.Refused: // recorded
	}
}

// sightingsOf returns the sightings of a hook that exists. mu must be held.
func (r *Receiver) sightingsOf(name string) *sightings {
	s := r.seen[name]
	if s == nil {
		s = &sightings{tokens: burst}
		r.seen[name] = s
	}
	return s
}

// admit takes a token of a hook for a delivery, or returns RATE_LIMITED.
func (r *Receiver) admit(h *hook) error {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sightingsOf(h.Name)
	if gone := now.Sub(s.filled); gone > 0 { // a clock that was set back fills nothing
		s.tokens = min(s.tokens+gone.Seconds()*rate, burst)
	}
	s.filled = now
	if s.tokens < 1 {
		return fault.New(fault.RateLimited, "the hook takes %d deliveries in a second", rate).WithRetryAt(now.Add(time.Second))
	}
	s.tokens--
	return nil
}

// Figures are what a node reports about its hooks.
type Figures struct {
	Active, Paused int
	// Deliveries counts what this process has received.
	Deliveries map[hooks.Result]int
	// Waiting is the number of messages of streams that wait for hooks; nil if it is not known, or if no hook takes any.
	Waiting *int
}

// Figures returns the current figures.
func (r *Receiver) Figures() Figures {
	r.mu.RLock()
	defer r.mu.RUnlock()
	f := Figures{Deliveries: maps.Clone(r.counted), Waiting: r.unread}
	for _, h := range r.all {
		if h.Paused != nil {
			f.Paused++
		} else {
			f.Active++
		}
	}
	return f
}

package auditor

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/fault"
)

// Journal stores the entries, one at each position from 1. *bus.Journal implements it.
type Journal interface {
	// Append appends an entry after the newest one and returns its position once it is durable; CONFLICT if newest is not the newest.
	Append(ctx context.Context, newest uint64, data []byte) (uint64, error)
	// Read calls fn for each entry after a position, until fn returns an error, which it returns.
	Read(ctx context.Context, after uint64, fn func(position uint64, data []byte) error) error
	// Last returns the position of the newest entry, 0 if there never was one.
	Last(ctx context.Context) (uint64, error)
	// Snapshot returns the newest snapshot and its position, nil if there is none.
	Snapshot(ctx context.Context) ([]byte, uint64, error)
	// SaveSnapshot stores a snapshot of all entries before a position, and removes them.
	SaveSnapshot(ctx context.Context, position uint64, data []byte) error
}

// Config configures a Stream.
type Config struct {
	// Open opens the journal, which is created if create is set; nil if it does not exist.
	Open func(ctx context.Context, create bool) (Journal, error)
	// Redact removes secrets from texts. Default: it removes none.
	Redact func(text string) string
	// Window is how long equal refusals are counted before the count is recorded. Default: a minute.
	Window time.Duration
	// Clock is the wall clock.
	Clock  func() time.Time
	Logger *slog.Logger
}

// maxWaiting is the number of entries that wait to be written after their acts have ended.
const maxWaiting = 1024

// Stream is the audit stream of a node. It implements api.Audits and is safe for concurrent use.
type Stream struct {
	cfg Config
	log *slog.Logger

	// turn holds an element during an append, so that waiting for it can end. It guards the fields up to waiting.
	turn    chan struct{}
	journal Journal
	// number and hash are those of the newest entry. stale is set if there may be newer ones.
	number uint64
	hash   string
	stale  bool

	// waiting are entries whose acts do not wait for them.
	waiting chan job
	refused counter
	ended   chan struct{}
	// closing is held for reading while an entry is queued.
	closing sync.RWMutex
	closed  bool
}

// job is an entry to be written, or, without an entry, a question when those before it are.
type job struct {
	entry *audit.Entry
	done  chan struct{}
}

// New returns a stream, which opens its journal when it is needed. The caller must close it.
func New(cfg Config) *Stream {
	if cfg.Redact == nil {
		cfg.Redact = func(text string) string { return text }
	}
	cfg.Window = cmp.Or(cfg.Window, time.Minute)
	s := &Stream{
		cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), stale: true, turn: make(chan struct{}, 1),
		waiting: make(chan job, maxWaiting), ended: make(chan struct{}),
	}
	go s.run()
	return s
}

// run writes entries that nobody waits for, and the counts of refusals when their window ends.
func (s *Stream) run() {
	defer close(s.ended)
	tick := time.NewTicker(s.cfg.Window)
	defer tick.Stop()
	for {
		select {
		case one, ok := <-s.waiting:
			if !ok {
				s.writeCounts()
				return
			}
			s.finish(one)
		case <-tick.C:
			s.writeCounts()
		}
	}
}

func (s *Stream) finish(one job) {
	if one.entry != nil {
		s.write(one.entry)
	}
	if one.done != nil {
		close(one.done)
	}
}

// writeWithin is how long an entry may take that nobody waits for.
const writeWithin = 30 * time.Second

// write writes an entry that nobody waits for. Without it, its act has an unknown result.
func (s *Stream) write(e *audit.Entry) {
	ctx, stop := context.WithTimeout(context.Background(), writeWithin)
	defer stop()
	if err := s.append(ctx, e); err != nil {
		s.log.LogAttrs(ctx, slog.LevelWarn, "act_not_recorded", slog.String("act", e.Name), slog.String("actor", e.Actor),
			slog.String("outcome", string(e.Outcome)), slog.Any("error", err))
	}
}

// queue queues an entry to be written. It blocks while too many wait, unless hurry is set: then it returns false.
func (s *Stream) queue(one job, hurry bool) bool {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.closed {
		return false
	}
	if !hurry {
		s.waiting <- one
		return true
	}
	select {
	case s.waiting <- one:
		return true
	default:
		return false
	}
}

// Close writes what is not written yet. Later acts are not recorded.
func (s *Stream) Close() {
	s.closing.Lock()
	was := s.closed
	s.closed = true
	s.closing.Unlock()
	if !was {
		close(s.waiting)
	}
	<-s.ended
}

// settle waits until the entries of acts that have ended are written.
func (s *Stream) settle(ctx context.Context) {
	done := make(chan struct{})
	if !s.queue(job{done: done}, false) {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Pending is an act that has begun.
type Pending struct {
	s      *Stream
	act    audit.Act
	number uint64
}

// Begin records that an act begins, before its effect, and returns when that is durable. Errors: DISK_FULL, UNAVAILABLE.
func (s *Stream) Begin(ctx context.Context, act audit.Act) (*Pending, error) {
	e := &audit.Entry{Act: s.clean(act), Outcome: audit.Begun}
	if err := s.append(ctx, e); err != nil {
		return nil, notRecorded(err)
	}
	return &Pending{s, e.Act, e.Number}, nil
}

// Continue returns an act whose result is still unknown.
func (s *Stream) Continue(v audit.View) *Pending { return &Pending{s, v.Act, v.Number} }

func notRecorded(err error) error {
	f := fault.From(err)
	return fault.Wrap(f.Code, err, "the act cannot be recorded in the audit stream, so it was not done: "+f.Message).WithReason("NOT_AUDITED").WithHint("%s", f.Hint)
}

// End records the result of an act: the error it has ended with, or nil, what it has created, if anything, and what it has changed in
// the log of a task. It does not wait until that is written.
func (p *Pending) End(err error, created string, task *audit.Link) {
	if p == nil {
		return
	}
	act := audit.Act{Actor: p.act.Actor, Face: p.act.Face, Name: p.act.Name, Target: p.s.text(created)}
	p.s.queue(job{entry: p.s.result(act, p.number, err, task)}, false)
}

// EndDurably is like End, and returns when the result is durable.
func (p *Pending) EndDurably(ctx context.Context, err error) error {
	return p.s.append(ctx, p.s.result(audit.Act{Actor: p.act.Actor, Face: p.act.Face, Name: p.act.Name}, p.number, err, nil))
}

// result returns the entry with the result of an act; of is the number of the entry with which it began, 0 for none.
func (s *Stream) result(act audit.Act, of uint64, err error, task *audit.Link) *audit.Entry {
	e := &audit.Entry{Act: act, Of: of, Outcome: OutcomeOf(err), Task: task}
	if err != nil {
		e.Error = s.problem(err)
	}
	return e
}

// OutcomeOf returns the outcome of an act that has ended with an error.
func OutcomeOf(err error) audit.Outcome {
	switch {
	case err == nil:
		return audit.Done
	case IsRefusal(err):
		return audit.Refused
	default:
		return audit.Failed
	}
}

// IsRefusal reports whether an error is a refusal: the actor lacks a permission, or the request is invalid. Failures of the node or
// its disk, timeouts, and calls that wait for an approval are no refusals.
func IsRefusal(err error) bool {
	if err == nil {
		return false
	}
	switch fault.CodeOf(err) {
	case fault.Internal, fault.Unavailable, fault.Cancelled, fault.Timeout, fault.DiskFull, fault.DataLoss, fault.ApprovalRequired:
		return false
	default:
		return true
	}
}

// Record records an act that has ended, in one entry, and returns when that is durable.
func (s *Stream) Record(ctx context.Context, act audit.Act, err error) error {
	return s.append(ctx, s.result(s.clean(act), 0, err, nil))
}

// Ended is like Record, but it does not wait.
func (s *Stream) Ended(act audit.Act, err error, task *audit.Link) {
	s.queue(job{entry: s.result(s.clean(act), 0, err, task)}, false)
}

func (s *Stream) problem(err error) *audit.Problem {
	p := audit.ProblemOf(err)
	p.Message, p.Field, p.Reason = s.text(p.Message), s.text(p.Field), s.text(p.Reason)
	return p
}

// text returns a text without secrets, of at most audit.MaxText bytes.
func (s *Stream) text(text string) string {
	const searched = 4 << 10 // a secret that begins within MaxText is found as a whole
	text = s.cfg.Redact(text[:min(len(text), searched)])
	if len(text) > audit.MaxText {
		text = text[:audit.MaxText-len("…")] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

// clean returns an act without secrets and within the limits.
func (s *Stream) clean(act audit.Act) audit.Act {
	params := make(map[string]string, len(act.Params))
	for name, value := range act.Params {
		if value != "" && len(params) < audit.MaxParams {
			params[s.text(name)] = s.text(value)
		}
	}
	return audit.Act{
		Actor: cmp.Or(s.text(act.Actor), "unknown"), Credential: s.text(act.Credential), Face: act.Face, Source: s.text(act.Source), Name: s.text(act.Name),
		Target: s.text(act.Target), Params: params,
	}
}

// lock waits for the turn. It returns UNAVAILABLE if ctx ends before.
func (s *Stream) lock(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.Wrap(fault.Unavailable, ctx.Err(), "the audit stream is busy").WithHint("try again in a moment")
	}
}

func (s *Stream) unlock() { <-s.turn }

// append appends an entry and returns when it is durable.
func (s *Stream) append(ctx context.Context, e *audit.Entry) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	e.At = s.cfg.Clock().UTC()
	err := s.appendOnce(ctx, e)
	if fault.Has(err, fault.Conflict) { // another node was first
		err = s.appendOnce(ctx, e)
	}
	return err
}

func (s *Stream) appendOnce(ctx context.Context, e *audit.Entry) error {
	if err := s.load(ctx, true); err != nil {
		return err
	}
	e.Number, e.Prev = s.number+1, s.hash
	data, err := e.Encode()
	if err != nil {
		return err
	}
	if _, err := s.journal.Append(ctx, s.number, data); err != nil {
		s.stale = true
		if !s.wasAppended(ctx, e.Number, data) {
			return err
		}
	}
	s.number, s.hash, s.stale = e.Number, audit.Hash(data), false
	return nil
}

// wasAppended reports whether an entry is in the journal although its append has returned an error.
func (s *Stream) wasAppended(ctx context.Context, number uint64, data []byte) bool {
	found := false
	err := s.journal.Read(ctx, number-1, func(position uint64, there []byte) error {
		found = position == number && string(there) == string(data)
		return errStop
	})
	return found && fault.From(err) == errStop
}

// errStop ends the reading of a journal.
var errStop = fault.New(fault.Cancelled, "enough was read")

// load opens the journal and reads its newest entry, unless that is known. Without create, the journal may not exist.
func (s *Stream) load(ctx context.Context, create bool) (err error) {
	if s.journal == nil {
		if s.journal, err = s.cfg.Open(ctx, create); err != nil || s.journal == nil {
			return err
		}
	}
	if !s.stale {
		return nil
	}
	last, err := s.journal.Last(ctx)
	if err != nil {
		return err
	}
	if last == 0 {
		s.number, s.hash, s.stale = 0, "", false
		return nil
	}
	return s.journal.Read(ctx, last-1, func(position uint64, data []byte) error {
		e, err := audit.Decode(data)
		if err == nil && e.Number != position {
			err = fault.New(fault.DataLoss, "the entry at position %d of the audit stream has the number %d", position, e.Number)
		}
		if err == nil {
			s.number, s.hash, s.stale = e.Number, audit.Hash(data), false
		}
		return err
	})
}

// open returns the journal for reading; nil if there is none yet.
func (s *Stream) open(ctx context.Context) (Journal, error) {
	err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer s.unlock()
	if s.journal == nil {
		s.journal, err = s.cfg.Open(ctx, false)
	}
	return s.journal, err
}

// anchor returns where the stream begins.
func anchor(ctx context.Context, j Journal) (audit.Anchor, error) {
	data, position, err := j.Snapshot(ctx)
	if err != nil || data == nil {
		return audit.Anchor{First: 1}, err
	}
	var a audit.Anchor
	if err := json.Unmarshal(data, &a); err != nil || a.First != position {
		return a, fault.Wrap(fault.DataLoss, err, "the beginning of the audit stream cannot be read").WithHint("orch restore brings a backup back")
	}
	return a, nil
}

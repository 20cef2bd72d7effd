package sim_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/index"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// lease is the lease of the simulated node. An owner sweeps every fifth of it.
const lease = 2 * time.Second

// world is one run of a script, all in one bubble of simulated time. Only the driver, which is the
// goroutine of the test, changes it.
//
// Goroutines of owners run in between, until all of them wait: for an answer of the driver, for a caller, or for a
// time. No two of them are woken at the same instant: the driver acts 1 ns after a full microsecond, sweeps occur at
// other offsets, timers at full microseconds.
type world struct {
	script script
	rnd    *rand.Rand
	tape   *bytes.Buffer // nil: nobody reads it
	cat    *tools.Catalogue
	cheat  cheat

	log *memlog.Log
	// newest is the position of the newest commit of each task.
	newest map[events.TaskID]uint64
	// owner is the one that callers find, old one that does not know yet that it was replaced.
	owner, old *owner
	owners     int
	// late are commits that are still pending although their owner was notified of a failure.
	late []stray
	// strayed is true when such a commit has arrived that no live owner can expect.
	strayed bool
	// full is true when the disk is full; skew is how far the clock of the owners is ahead.
	full bool
	skew atomic.Int64
	// armed are the faults for the next answers.
	armed []string
	// overlapped is set when two owners have been alive at the same time.
	overlapped bool

	calls  []*call
	callNo int
	// sayings counts the messages to agents.
	sayings int
	workers []*simWorker
	joined  int
	said    []work.Outcome
	// ledger counts the effects of each call, newestCall is the worker to which it was delivered last.
	ledger     map[string]int
	newestCall map[string]work.Outcome
	// jobs are the outside operations of calls, by note.
	jobs map[string]*outside

	tasks     []events.TaskID
	asked     []api.SubmitRequest
	accepted  map[events.TaskID]bool
	cancelled map[events.TaskID]bool
	ended     map[events.TaskID]string
	wrong     []string
	// clockwork is what schedules need; nil without them.
	clockwork *clockwork
}

// cheat is a fault that is planted to see whether it is found.
type cheat string

const (
	honest cheat = ""
	// lyingLog acknowledges some commits without storing them; unfencedLog accepts commits regardless of their
	// predecessor.
	lyingLog    cheat = "lying log"
	unfencedLog cheat = "unfenced log"
	// boldWorker makes a call although the owner refused its start; staleResult reports old results as new ones;
	// forgetfulWorker starts again, ignoring its note.
	boldWorker      cheat = "bold worker"
	staleResult     cheat = "stale result"
	forgetfulWorker cheat = "forgetful worker"
)

// stray is a commit that is still on its way to the log; orphan when its owner is dead.
type stray struct {
	events.Record

	orphan bool
}

// owner is one life of an orchestrator.
type owner struct {
	*orchestrator.Orchestrator

	n     int
	link  *link
	stop  context.CancelFunc
	ended chan error
	alive bool
	// firing runs the schedules; nil without them.
	firing *firing
}

func newWorld(s script, cat *tools.Catalogue, tape *bytes.Buffer, c cheat) *world {
	w := &world{
		script: s, cat: cat, tape: tape, cheat: c, rnd: rand.New(rand.NewPCG(s.Seed, 0)), log: memlog.New(memlog.Config{}),
		newest: map[events.TaskID]uint64{}, ledger: map[string]int{}, newestCall: map[string]work.Outcome{}, jobs: map[string]*outside{},
		accepted: map[events.TaskID]bool{}, cancelled: map[events.TaskID]bool{}, ended: map[events.TaskID]string{},
	}
	if len(s.Schedules) > 0 {
		w.clockwork = newClockwork()
	}
	return w
}

// logf appends a line to the tape.
func (w *world) logf(format string, args ...any) {
	if w.tape != nil {
		fmt.Fprintf(w.tape, "%s ", time.Now().Format("04:05.000000"))
		fmt.Fprintf(w.tape, format+"\n", args...)
	}
}

// fail records a violation.
func (w *world) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.logf("VIOLATION %s", text)
	w.wrong = append(w.wrong, text)
}

// chance draws whether something happens that does in n of m cases.
func (w *world) chance(n, m int) bool { return w.rnd.IntN(m) < n }

// advanceTo advances time to the next instant that is the given number of nanoseconds after a full microsecond.
func (w *world) advanceTo(nanoseconds int) {
	wait := (nanoseconds - time.Now().Nanosecond()%1000 + 1000) % 1000
	if wait > 0 {
		<-time.After(time.Duration(wait))
	}
}

// advance advances time by d while workers send heartbeats.
func (w *world) advance(d time.Duration) {
	for d > 0 && len(w.wrong) == 0 {
		part := min(d, lease/4+time.Duration(w.rnd.IntN(1000))*time.Microsecond)
		d -= part
		for _, h := range w.workers {
			if !h.deaf && len(h.jobs) > 0 {
				w.beat(h)
			}
		}
		w.runUntilIdle()
		w.clockwork.look(w)
		<-time.After(part)
		w.runUntilIdle()
		w.clockwork.look(w)
	}
}

// start starts an owner and waits until it serves, or dies of a fault.
func (w *world) start(noScan bool) {
	w.owners++
	o := &owner{n: w.owners, link: newLink(w.log, w.owners), ended: make(chan error, 1), alive: true}
	o.link.failScan = noScan
	random := rand.New(rand.NewPCG(w.script.Seed, uint64(o.n)))
	var err error
	o.Orchestrator, err = orchestrator.New(orchestrator.Config{
		Log: o.link, Blobs: o.link, Checkpoints: o.link, Catalogue: w.cat, Models: prices{}, Lists: index.New("", ""),
		CallLimits: w.callLimits(),
		Limits:     orchestrator.Limits{Lease: lease, KeepOpen: 3, PartItems: 1 + int(w.script.Seed%4)},
		Clock:      func() time.Time { return time.Now().Add(time.Duration(w.skew.Load())) }, Random: random.Float64,
		Entropy: entropy{rand.New(rand.NewPCG(w.script.Seed, uint64(1000+o.n)))},
		Hooks:   orchestrator.Hooks{Over: o.over},
	})
	if err != nil {
		w.fail("no owner: %v", err)
		return
	}
	w.logf("owner %d starts", o.n)
	ctx, stop := context.WithCancel(context.Background())
	o.stop = stop
	w.owner = o
	w.advanceTo(100 + o.n%400)
	go func() { o.ended <- o.Run(ctx) }()
	w.startFiring(ctx, o)
	w.runUntilIdle()
	w.advanceTo(1)
	select {
	case err := <-o.ended:
		w.logf("owner %d cannot start: %v", o.n, err)
		o.ended <- err
		w.kill(o)
	default:
	}
}

// entropy is an io.Reader of a random number generator.
type entropy struct{ *rand.Rand }

// Read implements io.Reader.
func (e entropy) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e.Uint32())
	}
	return len(p), nil
}

// kill kills an owner. Its pending appends may still reach the log.
func (w *world) kill(o *owner) {
	if o == nil || !o.alive {
		return
	}
	w.logf("owner %d dies", o.n)
	o.alive = false
	for _, under := range o.link.die() {
		if under.record != nil && w.chance(1, 2) {
			w.late = append(w.late, stray{*under.record, true})
		}
	}
	w.dieFiring(o)
	o.stop()
	if err := <-o.ended; err != nil {
		w.logf("owner %d ends: %v", o.n, err)
	}
	o.endFiring()
	if w.owner == o {
		w.owner, w.old = w.old, nil
	}
	if w.old == o {
		w.old = nil
	}
}

// up ensures that there is an owner.
func (w *world) up() {
	for tries := 0; w.owner == nil && tries < 5; tries++ {
		w.start(false)
	}
}

// any returns the owner that a caller finds: now and then the one that was replaced.
func (w *world) any() *owner {
	if w.old != nil && w.chance(1, 3) {
		return w.old
	}
	return w.owner
}

// disarm reports whether a fault was armed, and removes it.
func (w *world) disarm(what string) bool {
	i := slices.Index(w.armed, what)
	if i < 0 {
		return false
	}
	w.armed = slices.Delete(w.armed, i, i+1)
	return true
}

// maxAnswers is more than an owner can need at one instant; with more it loops forever.
const maxAnswers = 20_000

// runUntilIdle runs everything until it waits for time to pass, or for a delayed answer.
func (w *world) runUntilIdle() {
	for answers := 0; len(w.wrong) == 0; answers++ {
		if answers == maxAnswers {
			w.fail("the owner asks the log again and again, and no time passes")
			return
		}
		synctest.Wait()
		if w.receiveAnswers() {
			continue
		}
		switch o, g := w.nextOp(), w.nextGate(); {
		case g != nil && (o == nil || w.chance(1, 2)):
			w.serveGate(g)
		case o != nil:
			w.serve(o)
		default:
			return
		}
	}
}

// nextOp draws the log request to answer next; nil if all are delayed.
func (w *world) nextOp() *op {
	var ready []*op
	for _, o := range []*owner{w.owner, w.old} {
		if o == nil {
			continue
		}
		for _, p := range o.link.waiting() {
			if !p.seen {
				p.seen = true
				if w.chance(w.script.Patience, 8) {
					p.patience = 1 + w.rnd.IntN(3)
				}
			}
			if p.patience == 0 {
				ready = append(ready, p)
			}
		}
	}
	if len(ready) == 0 {
		return nil
	}
	return ready[w.rnd.IntN(len(ready))]
}

// ageOps reduces the remaining delay of delayed requests.
func (w *world) ageOps() {
	for _, o := range []*owner{w.owner, w.old} {
		if o == nil {
			continue
		}
		for _, p := range o.link.waiting() {
			p.patience = max(p.patience-1, 0)
		}
		for _, g := range o.gates() {
			g.patience = max(g.patience-1, 0)
		}
	}
}

// serve answers a request to the log.
func (w *world) serve(o *op) {
	o.link.remove(o)
	if o.record == nil {
		w.serveLoad(o)
		return
	}
	r := *o.record
	switch {
	case w.full:
		w.answer(o, "refused, the disk is full", 0, fault.New(fault.DiskFull, "the disk is full"))
	case w.disarm("crash"):
		w.logf("append %s %d: the owner dies before it", r.Task, r.Rev)
		w.kill(w.ownerOf(o))
	case w.disarm("crash_written"):
		_, err := w.write(r)
		w.logf("append %s %d: the owner dies after it: %v", r.Task, r.Rev, err)
		w.kill(w.ownerOf(o))
	case w.disarm("refuse"):
		w.answer(o, "refused", 0, unavailable())
	case w.disarm("conflict"):
		w.answer(o, "refused", 0, fault.New(fault.Conflict, "another commit was first"))
	case w.disarm("lose"):
		_, _ = w.write(r)
		w.answer(o, "written, but its answer is lost", 0, unavailable())
	case w.disarm("late"):
		w.late = append(w.late, stray{r, false})
		w.answer(o, "not written yet, but given up", 0, unavailable())
	default:
		seq, err := w.write(r)
		w.answer(o, "written", seq, err)
	}
}

func (w *world) ownerOf(o *op) *owner {
	if w.old != nil && w.old.link == o.link {
		return w.old
	}
	return w.owner
}

func (w *world) answer(o *op, how string, seq uint64, err error) {
	if w.tape != nil {
		w.logf("owner %d append %s %d %s: %s %v", o.link.owner, o.task, o.record.Rev, kinds(o.record.Data), how, err)
	}
	if err != nil {
		w.trouble()
	}
	o.done(seq, err)
}

// write puts a record into the log.
func (w *world) write(r events.Record) (seq uint64, err error) {
	switch {
	case w.cheat == lyingLog && w.chance(1, 8):
		return 1 << 40, nil
	case w.cheat == unfencedLog:
		r.After = w.newest[r.Task]
	}
	w.log.Append(r, func(s uint64, e error) { seq, err = s, e })
	if err == nil {
		w.newest[r.Task] = seq
		w.clockwork.written(r)
	}
	return seq, err
}

func (w *world) serveLoad(o *op) {
	var err error
	if w.disarm("unread") {
		w.trouble()
		err = unavailable()
	}
	w.logf("owner %d reads %s: %v", o.link.owner, o.task, err)
	o.answer <- err
}

// appendLate appends an abandoned commit to the log, if nothing else was appended before.
func (w *world) appendLate() {
	w.appendLateEntry()
	if len(w.late) == 0 {
		return
	}
	i := w.rnd.IntN(len(w.late))
	r := w.late[i]
	w.late = slices.Delete(w.late, i, i+1)
	_, err := w.write(r.Record)
	w.strayed = w.strayed || (err == nil && (r.orphan || r.Rev == 1))
	w.logf("the late commit %s %d comes: %v", r.Task, r.Rev, err)
}

// kinds lists the events of an encoded commit.
func kinds(data []byte) []events.Kind {
	c, err := events.Decode(data)
	if err != nil {
		return nil
	}
	list := make([]events.Kind, len(c.Events))
	for i, e := range c.Events {
		list[i] = e.Kind
	}
	return list
}

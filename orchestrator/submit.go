package orchestrator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/traces"
	"github.com/orch-dev/orch/work"
)

// Limits of a submission.
const (
	maxLabels    = 32
	maxText      = 256
	maxDependsOn = 100
	maxBatch     = 10_000
	maxDelay     = 366 * 24 * time.Hour
	maxInputs    = 4 << 20
)

// submitter creates tasks from plans.
type submitter struct {
	*core

	engine   *engine
	reader   *reader
	blobs    *blobStore
	compiler *compiler
	clean    *cleaner
}

// Submit implements api.Tasks.
func (sm *submitter) Submit(ctx context.Context, r api.SubmitRequest) (api.SubmitReply, error) {
	extra, err := sm.boundsOf(ctx, r)
	if err != nil {
		return api.SubmitReply{}, err
	}
	return sm.submit(ctx, r, extra)
}

// Check returns the error with which Submit would refuse a request, without a task.
func (sm *submitter) Check(ctx context.Context, r api.SubmitRequest) error {
	extra, err := sm.boundsOf(ctx, r)
	if err == nil {
		_, err = sm.prepare(ctx, r, extra)
	}
	return err
}

func tooMany(field string, n, limit int) error {
	return fault.New(fault.ValidationError, "%d are too many, the limit is %d", n, limit).WithField(field)
}

// submit creates a task and waits until it is durable. It has no ticket if the node itself wants the task.
func (sm *submitter) submit(ctx context.Context, r api.SubmitRequest, extra *submitExtra) (api.SubmitReply, error) {
	if err := sm.serving(); err != nil {
		return api.SubmitReply{}, err
	}
	t := newTicket()
	if extra.parent != nil && !extra.delegated() {
		t = nil
	}
	type answer struct {
		reply api.SubmitReply
		err   error
	}
	done := make(chan answer, 1)
	c, err := sm.admitWith(ctx, r, extra, t, func(reply api.SubmitReply, err error) { done <- answer{reply, err} })
	if err != nil {
		return api.SubmitReply{}, err
	}
	sm.begin(c)
	select {
	case a := <-done:
		return a.reply, a.err
	case <-ctx.Done():
		return api.SubmitReply{}, t.giveUp(ctx)
	case <-sm.stopped:
		return api.SubmitReply{}, stopping()
	}
}

// admitted is a submission that may begin. done is called once, with mu held.
type admitted struct {
	sub   *submission
	actor string
	extra *submitExtra
	done  func(api.SubmitReply, error)
}

// admit checks a request of a client.
func (sm *submitter) admit(ctx context.Context, r api.SubmitRequest, t *ticket, done func(api.SubmitReply, error)) (admitted, error) {
	extra, err := sm.boundsOf(ctx, r)
	if err != nil {
		return admitted{done: done}, err
	}
	return sm.admitWith(ctx, r, extra, t, done)
}

// admitWith is admit for a request with known bounds.
func (sm *submitter) admitWith(ctx context.Context, r api.SubmitRequest, extra *submitExtra, t *ticket, done func(api.SubmitReply, error)) (admitted, error) {
	c := admitted{actor: r.Actor, extra: extra, done: done}
	if err := sm.mayBegin(t); err != nil {
		return c, err
	}
	sub, err := sm.prepare(ctx, r, extra)
	if err != nil {
		return c, err
	}
	sub.ticket, c.sub = t, sub
	return c, nil
}

// begin begins to create the tasks of submissions.
func (sm *submitter) begin(part ...admitted) {
	sm.lock()
	defer sm.unlock()
	for _, c := range part {
		sm.creator(c.extra)(c.sub, c.actor, c.extra, c.done)
	}
}

// submission is a checked request.
type submission struct {
	id events.TaskID
	// chosen is set unless the node generated the id. A task with a chosen id may exist already.
	chosen bool
	// keysOf is the namespace of the idempotency key. generation is the number of tasks that held the key before.
	keysOf     string
	generation int

	// ticket is nil if the node itself wants the task. begun is set once it is used.
	ticket *ticket
	begun  bool

	cause   string
	prog    *plan.Program
	payload *events.Submitted
}

// prepare checks a request and builds the first event of the task. It does not need mu.
func (sm *submitter) prepare(ctx context.Context, r api.SubmitRequest, extra *submitExtra) (*submission, error) {
	if err := sm.clean.checkRequest(r); err != nil {
		return nil, err
	}
	prog, err := sm.compiler.programFrom(source{text: r.Plan, file: "plan", internal: extra.trusted()})
	if err != nil {
		return nil, err
	}
	if err := sm.clean.checkSecrets(prog.Plan(), r, extra); err != nil {
		return nil, err
	}
	inputs, err := sm.clean.inputs(prog, r.Inputs)
	if err != nil {
		return nil, err
	}
	if err := sm.checkSession(ctx, r); err != nil {
		return nil, err
	}
	p := &events.Submitted{
		Session: r.Session, Shares: r.Shares, Writes: r.Writes,
		PlanSHA256: prog.hash, Parent: extra.parent, RetryOf: extra.origin, KeyOf: extra.keyOf, DependsOn: r.DependsOn,
		Client: r.Client, Via: r.Via, TraceParent: r.TraceParent, Limited: r.KeysOf != "",
		Within: extra.within, Schedule: cmp.Or(extra.schedule, r.Schedule),
	}
	if p.Parent != nil {
		p.TraceParent = "" // a child belongs to the trace of its parent
	}
	if p.TraceParent != "" {
		p.TraceState, _ = traces.ParseState(r.TraceState) // it was checked
	}
	if sm.cfg.Local {
		p.Root = cmp.Or(extra.root, r.Root, sm.cfg.Root)
	}
	if p.Tools, err = toolsFor(prog.Plan(), extra.tools); err != nil {
		return nil, err
	}
	if err := sm.checkLevel(prog.Plan(), extra.parent); err != nil {
		return nil, err
	}
	if p.Plan, err = sm.blobs.offload(ctx, prog.text); err == nil {
		p.Inputs, err = sm.blobs.offload(ctx, inputs)
	}
	if err != nil {
		return nil, err
	}
	if p.Inputs.Ref() != "" {
		sm.blobs.values.put(p.Inputs.Ref(), inputs)
	}
	if p.Hook, err = sm.deliveryOf(ctx, r); err != nil {
		return nil, err
	}
	sm.clean.describe(p, prog.Plan(), r)
	if err := checkName(p.Name, prog.Plan(), r, extra); err != nil {
		return nil, err
	}
	p.Deadline = earliest(p.Deadline, extra.deadline)
	if extra.maxSteps > 0 && (p.MaxSteps == 0 || p.MaxSteps > extra.maxSteps) {
		p.MaxSteps = extra.maxSteps
	}
	if err := sm.compiler.evaluateKeys(p, prog, inputs, r, extra); err != nil {
		return nil, err
	}
	if extra.fork != nil {
		p.ForkOf, p.ForkAt = extra.fork.task, extra.fork.at
	}
	if extra.continues() {
		p.IdempotencyKey, p.KeyScope = "", "" // the original task holds the key
	}
	s := &submission{prog: prog.Program, payload: p, id: r.ID, chosen: r.ID != "", cause: r.Cause}
	switch {
	case p.IdempotencyKey != "" && !failpoint.On(failpoint.SkipDedup):
		s.id, s.chosen, s.keysOf, p.Request = events.KeyedTaskID(r.KeysOf, p.IdempotencyKey), true, r.KeysOf, r.ID
	case s.id == "":
		s.id = events.TaskIDFrom(sm.now(), sm.cfg.Entropy)
	}
	if slices.Contains(r.DependsOn, s.id) {
		return nil, fault.New(fault.ValidationError, "a task cannot depend on itself").WithField("depends_on")
	}
	return s, nil
}

func (cl *cleaner) checkRequest(r api.SubmitRequest) error {
	switch {
	case len(r.Plan) == 0:
		return fault.New(fault.RequiredField, "is missing").WithField("plan")
	case len(r.Plan) > 4*plan.MaxSource:
		return fault.New(fault.ValidationError, "the plan has %d bytes, the limit is %d", len(r.Plan), 4*plan.MaxSource).WithField("plan")
	case len(r.Cause) > maxText:
		return fault.New(fault.ValidationError, "must have at most %d bytes", maxText).WithField("cause")
	case len(r.Inputs) > maxInputs:
		return fault.New(fault.ValidationError, "the inputs have %d bytes, the limit is %d", len(r.Inputs), maxInputs).
			WithField("inputs").WithHint("put large data into a file and pass its path")
	case len(r.Labels) > maxLabels:
		return tooMany("labels", len(r.Labels), maxLabels)
	case len(r.DependsOn) > maxDependsOn:
		return tooMany("depends_on", len(r.DependsOn), maxDependsOn)
	case r.Root != "" && (!filepath.IsAbs(r.Root) || len(r.Root) > maxRoot):
		return fault.New(fault.InvalidFormat, "must be an absolute path of at most %d bytes", maxRoot).WithField("root")
	case r.Root != "" && r.KeysOf != "":
		return fault.New(fault.Forbidden, "%s may not choose a root", r.KeysOf).WithField("root")
	case r.Delay < 0 || r.Delay > maxDelay:
		return fault.New(fault.ValidationError, "must be between 0 and %s", maxDelay).WithField("delay")
	case r.Priority != "" && work.Urgency(r.Priority) == work.Urgency("normal") && r.Priority != "normal":
		return fault.New(fault.ValidationError, "%q is not critical, high, normal or low", decide.Clip(r.Priority)).WithField("priority")
	}
	for _, f := range [...]struct{ field, text string }{
		{"name", r.Name}, {"queue", r.Queue}, {"idempotency_key", r.IdempotencyKey}, {"keys_of", r.KeysOf}, {"actor", r.Actor}, {"via", r.Via},
	} {
		if len(f.text) > maxText {
			return fault.New(fault.ValidationError, "has %d bytes, the limit is %d", len(f.text), maxText).WithField(f.field)
		}
	}
	if err := checkTrace(r); err != nil {
		return err
	}
	if _, err := plan.ParseScope(r.IdempotencyScope); err != nil {
		return fault.New(fault.ValidationError, "%w", err).WithField("idempotency_scope")
	}
	if err := checkClient(r.Client); err != nil {
		return err
	}
	return cl.checkNames(r)
}

// maxRoot limits the bytes of the root of a task.
const maxRoot = 4096

var (
	queueForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	labelForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._/-]{0,62}$`)
)

func (cl *cleaner) checkNames(r api.SubmitRequest) error {
	if r.ID != "" {
		if _, err := events.ParseTaskID(string(r.ID)); err != nil {
			return err
		}
	}
	for _, id := range r.DependsOn {
		if _, err := events.ParseTaskID(string(id)); err != nil {
			return fault.From(err).WithField("depends_on")
		}
	}
	if r.Queue != "" && !queueForm.MatchString(r.Queue) {
		return fault.New(fault.InvalidFormat, "must be letters, digits, dot, dash and underscore, at most 64").WithField("queue")
	}
	for key, value := range r.Labels {
		if !labelForm.MatchString(key) || len(value) > maxText {
			return fault.New(fault.InvalidFormat, "the label %q is not allowed", decide.Clip(key)).WithField("labels").
				WithHint("a key is lower case letters, digits and . _ / -, at most 63; a value has at most %d bytes", maxText)
		}
		if rule, found := cl.cfg.FindSecret([]byte(key + ": " + value)); found {
			return decide.SecretIn("labels", rule)
		}
	}
	for field, text := range map[string]string{"name": r.Name, "idempotency_key": r.IdempotencyKey} {
		if rule, found := cl.cfg.FindSecret([]byte(text)); text != "" && found {
			return decide.SecretIn(field, rule)
		}
	}
	return nil
}

// inputs checks the inputs against the schema of the plan and for secrets. It returns them in compact form.
func (cl *cleaner) inputs(prog *program, raw json.RawMessage) (json.RawMessage, error) {
	inputs, err := prog.CheckInputs(raw)
	if err != nil {
		return nil, err
	}
	if inputs, err = compact(inputs); err != nil {
		return nil, err
	}
	if rule, found := cl.cfg.FindSecret(inputs); found {
		return nil, decide.SecretIn("inputs", rule)
	}
	return inputs, nil
}

// describe fills in the properties of the task from the request, or else from the plan.
func (cl *cleaner) describe(p *events.Submitted, pl *plan.Plan, r api.SubmitRequest) {
	p.Name, p.Summary = cmp.Or(r.Name, pl.Name, "task"), pl.Summary
	p.Priority = cmp.Or(r.Priority, string(pl.Priority), "normal")
	p.Queue = r.Queue
	p.MaxSteps = pl.Limits.MaxSteps
	if len(pl.Labels)+len(r.Labels) > 0 {
		p.Labels = map[string]string{}
		maps.Copy(p.Labels, pl.Labels)
		maps.Copy(p.Labels, r.Labels)
	}
	now := cl.now()
	if r.Delay > 0 {
		p.NotBefore = new(events.Time(now.Add(r.Delay)))
	}
	if d := time.Duration(pl.Limits.Deadline); d > 0 {
		p.Deadline = new(events.Time(now.Add(r.Delay + d)))
	}
}

// create creates the task, or finds the existing task with its id. mu must be held; it is also held when done is called.
func (sm *submitter) create(s *submission, actor string, extra *submitExtra, done func(api.SubmitReply, error)) {
	switch {
	case !s.chosen:
		sm.writeFirstCommit(s, actor, extra, done)
	case sm.unknown(s):
		sm.createUnknown(s, actor, extra, done)
	default:
		sm.createOrFind(s, actor, extra, done)
	}
}

// unknown reports whether a task with a chosen id is unknown to the index of lists, so that it most likely does not exist. A task with
// a concurrency key is looked up in the log, because its creation may cancel others. mu must be held.
func (sm *submitter) unknown(s *submission) bool {
	_, unread := sm.engine.concurrencyKeys.unread[s.id]
	return s.payload.Concurrency == nil && sm.engine.tasks[s.id] == nil && !unread && sm.cfg.Lists.Lacks(s.id)
}

// createUnknown creates a task that is unknown to the index of lists. The log refuses the first commit of a task that it has or had.
func (sm *submitter) createUnknown(s *submission, actor string, extra *submitExtra, done func(api.SubmitReply, error)) {
	sm.writeFirstCommit(s, actor, extra, func(reply api.SubmitReply, err error) {
		e := sm.engine.tasks[s.id]
		refused := e != nil && e.busy && (fault.Has(err, fault.Conflict) || fault.Has(err, fault.Gone))
		if !refused {
			done(reply, err)
			return
		}
		e.open = false
		sm.quota.uncount(e)
		sm.createOrFind(s, actor, extra, done)
	})
}

// createOrFind is create for a task with a chosen id. It reads the log before it writes to it.
func (sm *submitter) createOrFind(s *submission, actor string, extra *submitExtra, done func(api.SubmitReply, error)) {
	sm.engine.withEntry(s.id, func(e *entry, err error) {
		switch {
		case fault.Has(err, fault.NotFound) && sm.engine.tasks[s.id] != nil:
			sm.createOrFind(s, actor, extra, done) // a concurrent request is creating the task
		case fault.Has(err, fault.NotFound):
			sm.writeFirstCommit(s, actor, extra, done)
		case sm.keyFree(s, e, err):
			sm.afterReleased(s, actor, extra, done)
		case err != nil:
			done(api.SubmitReply{}, err)
		case !sameWork(e.task.Submitted, s.payload):
			done(api.SubmitReply{}, sm.errTaken(s, e.task))
		default:
			done(api.SubmitReply{ID: s.id, State: e.task.State, Existing: true}, nil)
		}
	})
}

// sameWork reports whether two submissions have the same plan and the same inputs.
func sameWork(a, b *events.Submitted) bool {
	return a.PlanSHA256 == b.PlanSHA256 && a.Inputs.Ref() == b.Inputs.Ref() && bytes.Equal(a.Inputs.Raw, b.Inputs.Raw)
}

// applyConcurrency applies the concurrency rule of a new task if the limit of its key is reached. With reject it returns
// CONFLICT. With cancel_running it cancels the tasks that hold the key or wait for it.
func (sm *submitter) applyConcurrency(p *events.Submitted) error {
	c := p.Concurrency
	if c == nil || sm.engine.concurrencyKeys.keys[c.Key] == nil || len(sm.engine.concurrencyKeys.keys[c.Key].holders) < c.Limit {
		return nil
	}
	switch c.OnConflict {
	case plan.OnConflictReject:
		return fault.New(fault.Conflict, "the concurrency key %q is in use by %d tasks, its limit", decide.Clip(c.Key), c.Limit).
			WithField(api.ConcurrencyKeyField).WithHint("wait for them, or use on_conflict: queue")
	case plan.OnConflictCancel:
		s := sm.engine.concurrencyKeys.keys[c.Key]
		for _, id := range slices.Concat(sortedKeys(s.waiting), sortedKeys(s.holders)) {
			sm.engine.cancelLater(id, "a newer task with the same concurrency key")
		}
	}
	return nil
}

// writeFirstCommit writes the first commit of a task. mu must be held.
func (sm *submitter) writeFirstCommit(s *submission, actor string, extra *submitExtra, done func(api.SubmitReply, error)) {
	actor = cmp.Or(actor, decide.ActorNode)
	err := sm.mayBegin(s.ticket)
	if err == nil && !s.begun {
		err = s.ticket.begin()
		s.begun = err == nil
	}
	s.payload.Share = extra.share
	s.payload.Limited = s.payload.Limited || extra.limited
	if err == nil && (extra.parent == nil || extra.delegated()) {
		s.payload.Share = sm.cfg.Hooks.ShareOf(actor)
		err = sm.checkQuota(cmp.Or(s.payload.Share, actor))
	}
	if err == nil {
		err = sm.applyConcurrency(s.payload)
	}
	if err == nil && sm.engine.circular(s) {
		err = fault.New(fault.ValidationError, "the tasks would wait for each other").WithField("depends_on")
	}
	if err != nil {
		done(api.SubmitReply{}, err)
		return
	}
	e := sm.engine.tasks[s.id]
	if e == nil {
		e = sm.engine.newEntry(s.id)
		sm.engine.tasks[s.id] = e
	}
	e.task, e.plan, e.seq, e.open = &statemachine.Task{ID: s.id, Requestor: actor}, decide.Plan{Program: s.prog}, 0, true
	sm.quota.count(e, s.payload)
	record := func(t *decide.Turn) error {
		t.Cause = s.cause
		t.Emit(events.TaskSubmitted, s.payload)
		if extra.part != nil {
			t.Emit(events.TaskPart, extra.part)
		}
		for i := range extra.reuse {
			t.Emit(events.StepReused, &extra.reuse[i])
		}
		for i := range extra.reads {
			t.Emit(events.FileRead, &extra.reads[i])
		}
		for _, c := range extra.agents {
			t.GoOn(c)
		}
		for _, c := range extra.loops {
			t.GoOnEach(c)
		}
		for _, d := range extra.divided {
			t.Emit(events.StepDivided, d)
		}
		if len(s.payload.DependsOn) > 0 {
			t.Emit(events.TaskBlocked, &events.Moved{Block: decide.BlockDependency, Reason: "waits for other tasks"})
		}
		return nil
	}
	sm.engine.links.nameDependencies(s, 1)
	sm.engine.decide(e, actor, record, func(err error) {
		sm.engine.links.nameDependencies(s, -1)
		if err != nil {
			done(api.SubmitReply{}, err)
			return
		}
		done(api.SubmitReply{ID: s.id, State: e.task.State, Reused: extra.reused()}, nil)
	})
}

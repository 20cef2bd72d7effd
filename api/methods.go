package api

import (
	"context"
	"time"

	"github.com/orch-dev/orch/audit"
)

// Repeat defines when a request may be repeated after an error that leaves its result unknown.
type Repeat int

const (
	// Never is for requests that have a further effect each time. They must not be repeated.
	Never Repeat = iota
	// IfUnrecorded is for requests with an effect of one commit. They may be repeated only if the log has not accepted that
	// commit.
	IfUnrecorded
	// Idempotent is for requests that have one effect however often they are made. They may be repeated like IfUnrecorded, and a
	// client that lost its node may send them to another node. A submission is idempotent only if the client chooses its id.
	Idempotent
	// Always is for requests that only read, or that contain the ids of the objects they create.
	Always
)

// Method describes one method of API.
type Method struct {
	// Name is the name of the method on the wire, such as submit_batch.
	Name   string
	Repeat Repeat
	// Effect says whether a request is an act for the audit stream.
	Effect Effect
	// Parked is set for methods that wait for a change and have no other effect. A node that stops ends them at once.
	Parked bool
}

// Call is a request on its way to a node.
type Call struct {
	Method

	// Wait is how long the node may hold the request open.
	Wait time.Duration
	// In is the request, Out points to the reply.
	In, Out any
	act     func() (audit.Act, bool)
	// Make invokes the method on an API in this process and stores the reply in Out.
	Make func(ctx context.Context, a API) error
}

// Handler serves one method. Handle calls decode with a pointer to the type of the request.
type Handler struct {
	Method

	Handle func(ctx context.Context, decode func(any) error) (any, error)
}

// Methods returns the methods of API, in the order of the interface.
func Methods() []Method {
	all := make([]Method, len(table))
	for i, m := range table {
		all[i] = m.describe()
	}
	return all
}

// Handlers returns the handlers for the methods of a, in the same order.
func Handlers(a API) []Handler {
	all := make([]Handler, len(table))
	for i, m := range table {
		all[i] = Handler{Method: m.describe(), Handle: m.bind(a)}
	}
	return all
}

// entry is a method without its type parameters.
type entry interface {
	describe() Method
	bind(a API) func(ctx context.Context, decode func(any) error) (any, error)
}

// typedMethod is a method with its request and reply types.
type typedMethod[In, Out any] struct {
	Method

	do func(API, context.Context, In) (Out, error)
	// act returns the act of a request, false if the request only reads; nil for methods that are no acts.
	act func(In) (audit.Act, bool)
}

func method[In, Out any](name string, repeat Repeat, do func(API, context.Context, In) (Out, error)) typedMethod[In, Out] {
	return typedMethod[In, Out]{Method: Method{Name: name, Repeat: repeat}, do: do}
}

func (m typedMethod[In, Out]) parked() typedMethod[In, Out] {
	m.Parked = true
	return m
}

func (m typedMethod[In, Out]) describe() Method { return m.Method }

func (m typedMethod[In, Out]) bind(a API) func(ctx context.Context, decode func(any) error) (any, error) {
	return func(ctx context.Context, decode func(any) error) (any, error) {
		var in In
		if err := decode(&in); err != nil {
			return nil, err
		}
		return m.do(a, ctx, in)
	}
}

// send sends a request over a transport and returns the reply.
func (m typedMethod[In, Out]) send(ctx context.Context, over Transport, in In) (out Out, err error) {
	call := Call{Method: m.Method, In: in, Out: &out}
	if patient, ok := any(in).(interface{ wait() time.Duration }); ok {
		call.Wait = patient.wait()
	}
	if m.act != nil {
		call.act = func() (audit.Act, bool) { return m.act(in) }
	}
	call.Make = func(ctx context.Context, a API) (err error) {
		out, err = m.do(a, ctx, in)
		return err
	}
	err = over(ctx, call)
	return out, err
}

func (r ResultRequest) wait() time.Duration { return r.Wait }
func (r WatchRequest) wait() time.Duration  { return r.Wait }
func (r CallRequest) wait() time.Duration   { return r.Wait }

// The methods of API. Methods, Handlers and Client are derived from this table.
var ( //nolint:gochecknoglobals // a constant table
	submit       = method("submit", Idempotent, API.Submit).works()
	submitBatch  = method("submit_batch", Always, API.SubmitBatch).works()
	find         = method("find", Always, API.Find).reads()
	get          = method("get", Always, API.Get).reads()
	result       = method("result", Always, API.Result).parked().reads()
	list         = method("list", Always, API.List).reads()
	queue        = method("queue", Always, API.Queue).reads()
	watch        = method("watch", Always, API.Watch).parked().reads()
	history      = method("history", Always, API.History).reads()
	readValue    = method("value", Always, API.Value).reads()
	replay       = method("replay", Always, API.Replay).reads()
	explain      = method("explain", Always, API.Explain).reads()
	conversation = method("conversation", Always, API.Conversation).reads()
	cost         = method("costs", Always, API.Costs).reads()
	cancel       = method("cancel", Idempotent, API.Cancel).steers(cancelAct)
	pause        = method("pause", Idempotent, API.Pause).steers(pauseAct("pause"))
	resume       = method("resume", Idempotent, API.Resume).steers(pauseAct("resume"))
	retry        = method("retry", Never, API.Retry).steers(retryAct)
	redrive      = method("redrive", Never, API.Redrive).steers(redriveAct)
	fork         = method("fork", Idempotent, API.Fork).steers(forkAct)
	diff         = method("diff", Always, API.Diff).reads()
	signal       = method("signal", IfUnrecorded, API.Signal).steers(signalAct)
	say          = method("say", IfUnrecorded, API.Say).steers(sayAct)
	resolve      = method("resolve", IfUnrecorded, API.Resolve).steers(resolveAct)
	call         = method("call", Never, API.Call).works()
	checkpoint   = method("checkpoint", IfUnrecorded, API.Checkpoint).steers(checkpointAct)
	approvals    = method("approvals", Always, API.Approvals).reads()
	decide       = method("decide", Idempotent, API.Decide).steers(decideAct)
	questions    = method("questions", Always, API.Questions).reads()
	answer       = method("answer", Idempotent, API.Answer).steers(answerAct)
	archive      = method("archive", Idempotent, API.Archive).administers(archiveAct)
	exportFile   = method("export", Always, API.Export).administers(exportAct)
	importFile   = method("import", Always, API.Import).administers(importAct)
	retained     = method("retention", Always, API.Retention).reads()
	hold         = method("place_hold", Idempotent, API.PlaceHold).administers(placeHoldAct)
	releaseHold  = method("release_hold", IfUnrecorded, API.ReleaseHold).administers(releaseHoldAct)
	listHolds    = method("holds", Always, API.Holds).reads()
	status       = method("status", Always, API.Status).reads()

	listSchedules = method("schedules", Always, API.Schedules).reads()
	putSchedule   = method("put_schedule", IfUnrecorded, API.PutSchedule).administers(putScheduleAct)
	steerSchedule = method("steer_schedule", IfUnrecorded, API.SteerSchedule).administers(steerScheduleAct)

	listActs     = method("audit", Always, API.Audit).reads()
	auditEntries = method("audit_entries", Always, API.AuditEntries).reads()

	listHooks = method("hooks", Always, API.Hooks).reads()
	putHook   = method("put_hook", IfUnrecorded, API.PutHook).administers(putHookAct)
	steerHook = method("steer_hook", IfUnrecorded, API.SteerHook).administers(steerHookAct)
	testHook  = method("test_hook", Always, API.TestHook).reads()

	listDestinations = method("destinations", Always, API.Destinations).reads()
	putDestination   = method("put_destination", IfUnrecorded, API.PutDestination).administers(putDestinationAct)
	steerDestination = method("steer_destination", IfUnrecorded, API.SteerDestination).administers(steerDestinationAct)

	storeVersion  = method("store_version", Always, API.StoreVersion).reads()
	finalizeStore = method("finalize_store", Idempotent, API.FinalizeStore).administers(finalizeStoreAct)

	listFiles = method("files", Always, API.Files).reads()
	readFile  = method("file", Always, API.File).reads()

	table = []entry{
		submit, submitBatch, find, get, result, list, queue, watch, history, replay, explain, conversation, cost, cancel,
		pause, resume, retry, redrive, fork, diff, signal, say, resolve, call, checkpoint, approvals, decide, questions, answer, archive,
		exportFile, importFile, retained, hold, releaseHold, listHolds, status, listSchedules, putSchedule, steerSchedule, listActs, auditEntries,
		listHooks, putHook, steerHook, testHook, listDestinations, putDestination, steerDestination, listFiles, readFile, readValue,
		storeVersion, finalizeStore,
	}
)

package api

import (
	"context"
	"time"
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
	submit       = method("submit", Idempotent, API.Submit)
	submitBatch  = method("submit_batch", Always, API.SubmitBatch)
	find         = method("find", Always, API.Find)
	get          = method("get", Always, API.Get)
	result       = method("result", Always, API.Result).parked()
	list         = method("list", Always, API.List)
	queue        = method("queue", Always, API.Queue)
	watch        = method("watch", Always, API.Watch).parked()
	history      = method("history", Always, API.History)
	replay       = method("replay", Always, API.Replay)
	explain      = method("explain", Always, API.Explain)
	conversation = method("conversation", Always, API.Conversation)
	cost         = method("costs", Always, API.Costs)
	cancel       = method("cancel", Idempotent, API.Cancel)
	pause        = method("pause", Idempotent, API.Pause)
	resume       = method("resume", Idempotent, API.Resume)
	retry        = method("retry", Never, API.Retry)
	redrive      = method("redrive", Never, API.Redrive)
	fork         = method("fork", Idempotent, API.Fork)
	diff         = method("diff", Always, API.Diff)
	signal       = method("signal", IfUnrecorded, API.Signal)
	say          = method("say", IfUnrecorded, API.Say)
	resolve      = method("resolve", IfUnrecorded, API.Resolve)
	call         = method("call", Never, API.Call)
	checkpoint   = method("checkpoint", IfUnrecorded, API.Checkpoint)
	approvals    = method("approvals", Always, API.Approvals)
	decide       = method("decide", Idempotent, API.Decide)
	questions    = method("questions", Always, API.Questions)
	answer       = method("answer", Idempotent, API.Answer)
	archive      = method("archive", Idempotent, API.Archive)
	exportFile   = method("export", Always, API.Export)
	importFile   = method("import", Always, API.Import)
	status       = method("status", Always, API.Status)

	listSchedules = method("schedules", Always, API.Schedules)
	putSchedule   = method("put_schedule", IfUnrecorded, API.PutSchedule)
	steerSchedule = method("steer_schedule", IfUnrecorded, API.SteerSchedule)

	listHooks = method("hooks", Always, API.Hooks)
	putHook   = method("put_hook", IfUnrecorded, API.PutHook)
	steerHook = method("steer_hook", IfUnrecorded, API.SteerHook)
	testHook  = method("test_hook", Always, API.TestHook)

	table = []entry{
		submit, submitBatch, find, get, result, list, queue, watch, history, replay, explain, conversation, cost, cancel,
		pause, resume, retry, redrive, fork, diff, signal, say, resolve, call, checkpoint, approvals, decide, questions, answer, archive,
		exportFile, importFile, status, listSchedules, putSchedule, steerSchedule,
		listHooks, putHook, steerHook, testHook,
	}
)

package rpc

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

var (
	_ api.API    = (*Remote)(nil)
	_ work.Owner = (*Remote)(nil)
)

// Storage is what a node offers of its store. *bus.Store implements it.
type Storage interface {
	PauseArchive(ctx context.Context, p bus.ArchivePause) error
	Verify(ctx context.Context, progress func(done, total uint64)) (bus.Report, error)
}

// ServeAPI serves the API at the subjects below CommandPrefix. It also serves the verification of the node's store, and the
// pause of the archive for a backup. The actor of requests is cfg.Identity.
func ServeAPI(c *bus.Conn, a api.API, s Storage, cfg EndpointConfig) (*Endpoint, error) {
	methods := apiMethods(a)
	methods["hold"] = Handle(answerless(s.PauseArchive))
	methods["verify"] = Handle(func(ctx context.Context, _ struct{}) (bus.Report, error) { return s.Verify(ctx, nil) })
	return Serve(c, bus.CommandPrefix, methods, cfg)
}

// apiMethods returns the methods of an API, by name.
func apiMethods(a api.API) map[string]Method {
	methods := map[string]Method{}
	for _, h := range api.Handlers(identified{a}) {
		methods[h.Name] = func(ctx context.Context, request []byte) ([]byte, error) {
			_, data, err := answer(ctx, request, h.Handle)
			return data, err
		}
	}
	return methods
}

// identified is an API whose status contains the identity of the caller.
type identified struct{ api.API }

// Status implements api.API.
func (i identified) Status(ctx context.Context, r api.StatusRequest) (api.StatusReply, error) {
	reply, err := i.API.Status(ctx, r)
	reply.Identity, _ = callerOf(ctx)
	return reply, err
}

// Owner is a work.Source that can record many outcomes at once.
type Owner interface {
	work.Source
	// ReportThen is an asynchronous Report. It calls done once with the result, possibly before it returns. After the owner has
	// stopped, it may never call done. done must not block. The outcome belongs to the owner after the call.
	ReportThen(ctx context.Context, o *work.Outcome, done func(error))
}

// ServeOwner serves workers at the subjects below WorkPrefix. If nobody receives the answer to a poll, its calls are requeued at
// once. A caller cannot act as a registered agent.
func ServeOwner(c *bus.Conn, owner Owner, cfg EndpointConfig) (*Endpoint, error) {
	cfg.setDefaults()
	owner = workersOnly{owner}
	methods := withoutNumbers(map[string]Method{
		"start":  Handle(answerless(owner.Start)),
		"beat":   Handle(owner.Heartbeat),
		"report": Handle(reportAll(owner, cfg)),
	})
	methods["poll"] = pollFor(owner)
	return serve(c, bus.WorkPrefix, methods, owner.Undelivered, cfg)
}

// pollFor returns the method for polls. The number of an answer is that of its batch of calls.
func pollFor(owner work.Owner) method {
	return func(ctx context.Context, request []byte) (response, error) {
		b, data, err := handle(ctx, request, owner.Poll)
		return response{data: data, no: b.Number}, err
	}
}

// answerless converts a function without a result to one with an empty result.
func answerless[In any](fn func(context.Context, In) error) func(context.Context, In) (struct{}, error) {
	return func(ctx context.Context, in In) (struct{}, error) { return struct{}{}, fn(ctx, in) }
}

// reportAll records many outcomes in one request, and answers with an error or null for each.
func reportAll(owner Owner, cfg EndpointConfig) func(context.Context, []*work.Outcome) ([]*fault.Error, error) {
	return func(ctx context.Context, outcomes []*work.Outcome) ([]*fault.Error, error) {
		t := newErrorCollector(len(outcomes))
		for i, o := range outcomes {
			done := func(err error) { t.record(i, err) }
			if o == nil {
				done(fault.New(fault.RequiredField, "outcome %d is null", i+1))
				continue
			}
			if err := cfg.guard(ctx, bus.WorkPrefix+".report", func() error { owner.ReportThen(ctx, o, done); return nil }); err != nil {
				done(err)
			}
		}
		select {
		case <-t.all:
			return t.failures, nil
		case <-ctx.Done():
			return nil, fault.From(ctx.Err())
		}
	}
}

// errorCollector collects the first result of each of many requests.
type errorCollector struct {
	all chan struct{} // closed when every request has a result

	mu       sync.Mutex // guards the fields below until all is closed
	failures []*fault.Error
	ended    []bool
	open     int
}

func newErrorCollector(n int) *errorCollector {
	t := &errorCollector{all: make(chan struct{}), failures: make([]*fault.Error, n), ended: make([]bool, n), open: n}
	if n == 0 {
		close(t.all)
	}
	return t
}

func (t *errorCollector) record(i int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended[i] {
		return
	}
	t.failures[i], t.ended[i] = fault.From(err), true
	if t.open--; t.open == 0 {
		close(t.all)
	}
}

// Remote is the client of a node in another process. Concurrent submissions, and concurrent reports, share messages.
type Remote struct {
	api.Client

	conn    *bus.Conn
	submits batcher[api.SubmitReply]
	reports batcher[struct{}]
	// identity is the identity that the node has authenticated; nil before the node has answered.
	identity atomic.Pointer[string]
}

// NewRemote returns the client for the node behind a connection. It does no I/O.
func NewRemote(c *bus.Conn) *Remote {
	r := &Remote{conn: c}
	r.Client = api.NewClient(r.send)
	r.submits.send = r.submitAll
	r.reports.send = r.reportAll
	return r
}

// submitBatch is the method for submissions.
const submitBatch = bus.CommandPrefix + ".submit_batch"

// submitAll sends many submissions in one message. It does not repeat them: Submit does.
func (r *Remote) submitAll(ctx context.Context, requests []byte) ([]batchAnswer[api.SubmitReply], error) {
	var reply api.SubmitBatchReply
	body := slices.Concat([]byte(`{"tasks":[`), requests, []byte(`]}`))
	if err := callOnce(ctx, r.conn, submitBatch, body, &reply); err != nil {
		return nil, err
	}
	answers := make([]batchAnswer[api.SubmitReply], len(reply.Tasks))
	for i, item := range reply.Tasks {
		answers[i].out = item.SubmitReply
		if item.Error != nil {
			answers[i].err = item.Error
		}
	}
	return answers, nil
}

func (r *Remote) reportAll(ctx context.Context, requests []byte) ([]batchAnswer[struct{}], error) {
	var failures []*fault.Error
	body := slices.Concat([]byte{'['}, requests, []byte{']'})
	if err := callEncoded(ctx, r.conn, bus.WorkPrefix+".report", body, &failures); err != nil {
		return nil, err
	}
	answers := make([]batchAnswer[struct{}], len(failures))
	for i, f := range failures {
		if f != nil {
			answers[i].err = f
		}
	}
	return answers, nil
}

// Ask calls a method that is not in api.API, see Call.
func (r *Remote) Ask(ctx context.Context, method string, in, out any) error {
	return Call(ctx, r.conn, method, in, out)
}

// send sends a request of the API to the node. It waits for CallWithin, and longer if the node may hold the request open for c.Wait.
func (r *Remote) send(ctx context.Context, c api.Call) error {
	return untilAccepted(ctx, func() error { return r.sendOnce(ctx, c) })
}

// sendOnce is send without a repetition for an overloaded node.
func (r *Remote) sendOnce(ctx context.Context, c api.Call) error {
	ctx, stop := context.WithTimeout(ctx, max(c.Wait, 0)+CallWithin)
	defer stop()
	return Call(ctx, r.conn, bus.CommandPrefix+"."+c.Name, c.In, c.Out)
}

// withID sets the id of a submission if it may be repeated, so that a repetition does not create a second task. Submissions are
// repeated only on external NATS servers, where another node can take over.
func (r *Remote) withID(in api.SubmitRequest) api.SubmitRequest {
	if in.ID == "" && r.conn.External() {
		in.ID = events.NewTaskID(time.Now())
	}
	return in
}

// Submit implements api.API.
func (r *Remote) Submit(ctx context.Context, in api.SubmitRequest) (reply api.SubmitReply, err error) {
	in = r.withID(in)
	err = untilAccepted(ctx, func() error {
		return untilAnswered(ctx, r.conn, submitBatch, func() (err error) {
			reply, err = r.submits.do(ctx, in)
			return err
		})
	})
	return reply, err
}

// SubmitBatch implements api.API. If the result of a task is unknown because its node has stopped, or if an overloaded node has
// refused a task, only that task is submitted again.
func (r *Remote) SubmitBatch(ctx context.Context, in api.SubmitBatchRequest) (api.SubmitBatchReply, error) {
	b := batchSubmission{conn: r.conn, tasks: slices.Clone(in.Tasks), open: make([]int, len(in.Tasks))}
	for i := range b.tasks {
		b.tasks[i], b.open[i] = r.withID(b.tasks[i]), i
	}
	if err := b.run(ctx); err != nil && b.answers == nil {
		return api.SubmitBatchReply{}, err
	}
	return api.SubmitBatchReply{Tasks: b.answers}, nil
}

// Verify makes the node check its whole store, see bus.Store.Verify. That may take a day.
func (r *Remote) Verify(ctx context.Context) (bus.Report, error) {
	const within = 24 * time.Hour
	ctx, stop := context.WithTimeout(ctx, within)
	defer stop()
	var report bus.Report
	err := Call(ctx, r.conn, bus.CommandPrefix+".verify", struct{}{}, &report)
	return report, err
}

// Backup copies the store of the node to a local file, see bus.Store.Backup.
func (r *Remote) Backup(ctx context.Context, path string, cfg bus.BackupConfig) (bus.Manifest, error) {
	report, err := r.Verify(ctx)
	if err != nil {
		return bus.Manifest{}, err
	}
	return r.conn.Backup(ctx, path, report, cfg, func(ctx context.Context, h bus.ArchivePause) error {
		return Call(ctx, r.conn, bus.CommandPrefix+".hold", h, nil)
	})
}

// Poll implements work.Owner.
func (r *Remote) Poll(ctx context.Context, p work.Poll) (work.Batch, error) {
	var batch work.Batch
	ctx, stop := context.WithTimeout(ctx, p.Wait+pollSlack)
	defer stop()
	err := Call(ctx, r.conn, bus.WorkPrefix+".poll", p, &batch)
	return batch, err
}

// pollSlack is added to the wait of a poll. If the answer takes longer than both, the worker polls again.
const pollSlack = 5 * time.Second

// Start implements work.Owner.
func (r *Remote) Start(ctx context.Context, s work.Started) error {
	return Call(ctx, r.conn, bus.WorkPrefix+".start", s, nil)
}

// Heartbeat implements work.Owner.
func (r *Remote) Heartbeat(ctx context.Context, b work.Heartbeat) (work.HeartbeatReply, error) {
	var reply work.HeartbeatReply
	err := Call(ctx, r.conn, bus.WorkPrefix+".beat", b, &reply)
	return reply, err
}

// Report implements work.Owner.
func (r *Remote) Report(ctx context.Context, o work.Outcome) error {
	_, err := r.reports.do(ctx, o)
	return err
}

// Close closes the connection.
func (r *Remote) Close() error {
	r.conn.Close()
	return nil
}

// ping checks that a node answers.
func (r *Remote) ping(ctx context.Context) error {
	s, err := r.Status(ctx, api.StatusRequest{})
	if err == nil {
		r.identity.Store(&s.Identity)
	}
	return err
}

// Identity returns the authenticated identity of this process, such as user:ada; empty before Ready.
func (r *Remote) Identity() string {
	if who := r.identity.Load(); who != nil {
		return *who
	}
	return ""
}

// Ready waits until the node answers, it ends, or ctx ends. The node may still be reading its log.
func (r *Remote) Ready(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := r.ping(ctx)
		if !fault.Has(err, fault.Unavailable) {
			return err
		}
		if ended := r.conn.NodeEnded(); ended != nil {
			return ended
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

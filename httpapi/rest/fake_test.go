package rest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi/rest"
	"github.com/orch-dev/orch/statemachine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tasks of the fake node: one of user:ada (operator), one of each role with its own tasks.
const (
	adasTask  = events.TaskID("TASK_01KE0000000000000000000001")
	botsTask  = events.TaskID("TASK_01KE0000000000000000000002")
	suesTask  = events.TaskID("TASK_01KE0000000000000000000003")
	noSuchOne = events.TaskID("TASK_01KE0000000000000000000009")
)

// fakeAPI is an API with a few tasks. It records the last request of each method.
type fakeAPI struct {
	api.API // panics for the methods below that are missing

	mu   sync.Mutex
	seen map[string]any
	// commits are the commits of all tasks, and over is set when they have ended. wake is closed when they change.
	commits []api.CommitView
	over    bool
	wake    chan struct{}
	// file is the file that Import has received.
	file []byte
	// next is the Next of a list of changes.
	next string
	// fail is returned by Get, and holds are those of each task.
	fail  error
	holds []api.Hold
}

func (f *fakeAPI) record(name string, r any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen == nil {
		f.seen = map[string]any{}
	}
	f.seen[name] = r
}

func (f *fakeAPI) last(name string) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[name]
}

func owner(id events.TaskID) string {
	return map[events.TaskID]string{adasTask: "user:ada", botsTask: "agent:bot", suesTask: "user:sue"}[id]
}

func (f *fakeAPI) Find(_ context.Context, r api.FindRequest) (api.FindReply, error) {
	id := events.TaskID(r.Text)
	if r.Text == "@last" {
		id = adasTask
	}
	if owner(id) == "" {
		return api.FindReply{}, fault.New(fault.NotFound, "there is no task %q", r.Text).WithField("id")
	}
	return api.FindReply{ID: id}, nil
}

func (f *fakeAPI) Get(_ context.Context, r api.GetRequest) (api.TaskView, error) {
	if f.fail != nil {
		return api.TaskView{}, f.fail
	}
	state := statemachine.InProgress
	if r.ID == adasTask {
		state = statemachine.Done
	}
	return api.TaskView{ID: r.ID, Requestor: owner(r.ID), State: state, Rev: 7, Holds: f.holds}, nil
}

func (f *fakeAPI) Status(context.Context, api.StatusRequest) (api.StatusReply, error) {
	return api.StatusReply{Version: "1", Ready: true, Root: "/secret/root", Open: 3}, nil
}

func (f *fakeAPI) Submit(_ context.Context, r api.SubmitRequest) (api.SubmitReply, error) {
	f.record("submit", r)
	return api.SubmitReply{ID: adasTask, Existing: r.IdempotencyKey == "known"}, nil
}

func (f *fakeAPI) SubmitBatch(_ context.Context, r api.SubmitBatchRequest) (api.SubmitBatchReply, error) {
	f.record("submit_batch", r)
	return api.SubmitBatchReply{Tasks: make([]api.SubmitBatchItem, len(r.Tasks))}, nil
}

func (f *fakeAPI) List(_ context.Context, r api.ListRequest) (api.ListReply, error) {
	if !r.ChangedSince.IsZero() {
		f.record("changed", r)
		return api.ListReply{Tasks: []api.Summary{{ID: botsTask, Requestor: "agent:bot"}}, Next: f.next}, nil
	}
	if f.record("list", r); r.Stuck {
		return api.ListReply{Tasks: []api.Summary{{ID: botsTask, Requestor: "agent:bot"}}}, nil
	}
	return api.ListReply{Tasks: []api.Summary{
		{ID: botsTask, Requestor: "agent:bot"},
		{ID: noSuchOne, Requestor: "task:" + string(botsTask), Parent: botsTask},
		{ID: adasTask, Requestor: "user:ada", Parent: botsTask},
	}}, nil
}

func (f *fakeAPI) Result(_ context.Context, r api.ResultRequest) (api.ResultReply, error) {
	f.record("result", r)
	return api.ResultReply{ID: r.ID}, nil
}

func (f *fakeAPI) Queue(_ context.Context, r api.QueueRequest) (api.QueueReply, error) {
	return api.QueueReply{Tasks: []api.QueuedTask{}}, nil
}

func (f *fakeAPI) History(_ context.Context, r api.HistoryRequest) (api.HistoryReply, error) {
	plan := events.Event{Kind: "task.submitted", Data: &events.Submitted{Plan: events.Inline(json.RawMessage(`{"steps":[]}`))}}
	return api.HistoryReply{Commits: []api.CommitView{{Rev: 1, Events: []events.Event{plan}}}}, nil
}

func (f *fakeAPI) Replay(context.Context, api.ReplayRequest) (api.ReplayReply, error) {
	return api.ReplayReply{}, nil
}

func (f *fakeAPI) Explain(context.Context, api.GetRequest) (api.ExplainReply, error) {
	return api.ExplainReply{}, nil
}

func (f *fakeAPI) Cancel(_ context.Context, r api.CancelRequest) (api.TaskView, error) {
	f.record("cancel", r)
	return api.TaskView{ID: r.ID}, nil
}

func (f *fakeAPI) Pause(_ context.Context, r api.PauseRequest) (api.ControlReply, error) {
	f.record("pause", r)
	return api.ControlReply{}, nil
}

func (f *fakeAPI) Resume(context.Context, api.PauseRequest) (api.ControlReply, error) {
	return api.ControlReply{}, nil
}

func (f *fakeAPI) Retry(context.Context, api.RetryRequest) (api.SubmitReply, error) {
	return api.SubmitReply{ID: adasTask}, nil
}

func (f *fakeAPI) Redrive(context.Context, api.RedriveRequest) (api.SubmitReply, error) {
	return api.SubmitReply{ID: adasTask}, nil
}

func (f *fakeAPI) Fork(context.Context, api.ForkRequest) (api.ForkReply, error) {
	return api.ForkReply{ID: adasTask}, nil
}

func (f *fakeAPI) Diff(_ context.Context, r api.DiffRequest) (api.DiffReply, error) {
	f.record("diff", r)
	return api.DiffReply{}, nil
}

func (f *fakeAPI) Conversation(_ context.Context, r api.ConversationRequest) (api.ConversationReply, error) {
	f.record("conversation", r)
	return api.ConversationReply{ID: r.ID, Step: r.Step}, nil
}

func (f *fakeAPI) Costs(_ context.Context, r api.CostsRequest) (api.CostsReply, error) {
	f.record("costs", r)
	return api.NoCosts(), nil
}

func (f *fakeAPI) Signal(context.Context, api.SignalRequest) (api.TaskView, error) {
	return api.TaskView{}, nil
}

func (f *fakeAPI) Say(context.Context, api.SayRequest) (api.TaskView, error) {
	return api.TaskView{}, nil
}

func (f *fakeAPI) Resolve(context.Context, api.ResolveRequest) (api.TaskView, error) {
	return api.TaskView{}, nil
}

func (f *fakeAPI) Call(context.Context, api.CallRequest) (api.CallReply, error) {
	return api.CallReply{}, nil
}

func (f *fakeAPI) Checkpoint(_ context.Context, r api.CheckpointRequest) (api.CheckpointReply, error) {
	if r.ID != "" {
		return api.CheckpointReply{Snapshot: &api.Snapshot{ID: r.ID}}, nil
	}
	return api.CheckpointReply{}, nil
}

func (f *fakeAPI) Approvals(_ context.Context, r api.ApprovalsRequest) (api.ApprovalsReply, error) {
	return api.ApprovalsReply{Approvals: []api.ApprovalView{{ID: r.ID, Submitter: "agent:bot"}, {ID: r.ID, Submitter: "user:ada"}}, Unread: 2}, nil
}

func (f *fakeAPI) Decide(_ context.Context, r api.DecideRequest) (api.ApprovalView, error) {
	f.record("decide", r)
	return api.ApprovalView{ID: r.ID}, nil
}

func (f *fakeAPI) Questions(context.Context, api.QuestionsRequest) (api.QuestionsReply, error) {
	return api.QuestionsReply{Questions: []api.QuestionView{{ID: "q", Task: botsTask}, {ID: "r", Task: adasTask}}, Omitted: 3}, nil
}

func (f *fakeAPI) Answer(context.Context, api.AnswerRequest) (api.TaskView, error) {
	return api.TaskView{}, nil
}

func (f *fakeAPI) Archive(context.Context, api.ArchiveRequest) (api.ArchiveReply, error) {
	return api.ArchiveReply{}, nil
}

func (f *fakeAPI) Export(_ context.Context, r api.ExportRequest) (api.ExportReply, error) {
	if r.File == "broken" {
		return api.ExportReply{}, fault.New(fault.SecretDetected, "the history contains a secret")
	}
	if r.File == "" && r.Tree {
		return api.ExportReply{File: "broken", Data: make([]byte, 64<<10)}, nil
	}
	const whole = "the file"
	end := min(r.Offset+3, int64(len(whole)))
	return api.ExportReply{File: "f", Data: []byte(whole[r.Offset:end]), Done: end == int64(len(whole))}, nil
}

// Import collects the parts of a file. A file of more than 3 MiB is too large.
func (f *fakeAPI) Import(_ context.Context, r api.ImportRequest) (api.ImportReply, error) {
	if r.Size > 3<<20 {
		return api.ImportReply{}, fault.New(fault.ValidationError, "is too large").WithField("size").WithReason("SIZE_LIMIT_EXCEEDED")
	}
	f.record("import", r)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.file = append(f.file, r.Data...)
	reply := api.ImportReply{Received: int64(len(f.file))}
	if reply.Received == r.Size {
		reply.Done, reply.Tasks = true, []api.ImportedTask{{ID: adasTask}}
	}
	return reply, nil
}

func (f *fakeAPI) Watch(ctx context.Context, r api.WatchRequest) (api.WatchReply, error) {
	for {
		f.mu.Lock()
		var reply api.WatchReply
		reply.Version, reply.Ended = 1, f.over
		for _, c := range f.commits {
			if c.Rev > r.After {
				reply.Commits = append(reply.Commits, c)
			}
		}
		wake := f.wake
		f.mu.Unlock()
		if r.Wait == 0 || len(reply.Commits) > 0 || reply.Ended {
			return reply, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return reply, ctx.Err()
		}
	}
}

// commit adds a commit to all tasks.
func (f *fakeAPI) commit(over bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.commits = append(f.commits, api.CommitView{Rev: uint64(len(f.commits) + 1)})
	f.over = over
	if f.wake != nil {
		close(f.wake)
	}
	f.wake = make(chan struct{})
}

// fakeClients authenticates the clients of a test: their tokens are the names of the roles.
type fakeClients struct {
	api *fakeAPI
	// limit refuses all requests.
	limit bool
	sees  func(tool string) bool
}

func (a *fakeClients) Authenticate(_ context.Context, token string) (rest.Client, error) {
	names := map[string]string{"operator": "user:ada", "submitter": "user:sue", "agent": "agent:bot", "viewer": "user:vic"}
	if names[token] == "" {
		return nil, fault.New(fault.Unauthorized, "the token is not known")
	}
	return &fakeClient{a, names[token], rest.Role(token)}, nil
}

func (a *fakeClients) Client(l rest.Login) (rest.Client, error) {
	return &fakeClient{a, l.Name, l.Role}, nil
}

func (a *fakeClients) While(ctx context.Context, _ rest.Login) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

type fakeClient struct {
	all  *fakeClients
	name string
	role rest.Role
}

func (c *fakeClient) Name() string    { return c.name }
func (c *fakeClient) Role() rest.Role { return c.role }
func (c *fakeClient) Narrowed() bool  { return c.all.sees != nil }

func (c *fakeClient) Sees(tool string) bool { return c.all.sees == nil || c.all.sees(tool) }
func (c *fakeClient) Admit(int64) (func(), error) {
	if c.all.limit {
		return nil, fault.New(fault.RateLimited, "too many").WithRetryAt(time.Now().Add(3 * time.Second))
	}
	return func() {}, nil
}

func (c *fakeClient) Owns(_ context.Context, id events.TaskID) (bool, error) {
	return owner(id) == c.name, nil
}

func (c *fakeClient) Restrict(r *api.SubmitRequest, call string) error {
	r.NoSecrets, r.KeysOf = true, c.name
	if call == "bad" {
		return fault.New(fault.InvalidFormat, "is not a call")
	}
	return nil
}

// site is a server for a test.
type site struct {
	t       *testing.T
	api     *fakeAPI
	clients *fakeClients
	logins  *rest.Logins
	feed    *rest.Feed
	web     *httptest.Server
	rest    *rest.Server
	now     time.Time
}

func newSite(t *testing.T, changes ...func(*rest.Config)) *site {
	t.Helper()
	s := &site{t: t, api: &fakeAPI{wake: make(chan struct{})}, feed: rest.NewFeed(rest.FeedConfig{}), now: time.Now()}
	s.clients = &fakeClients{api: s.api}
	s.logins = rest.NewLogins(func() time.Time { return s.now })
	cfg := rest.Config{
		Policy: fakePolicy{s.api}, Agents: fakeAgents{}, Work: fakeWork{s.api}, Servers: fakeServers{s.api}, Bulk: fakeBulk{s.api},
		API: s.api, Authenticator: s.clients, Logins: s.logins, Feed: s.feed, KeepAlive: time.Hour,
		Rebound: func(r *http.Request) bool { return strings.HasPrefix(r.Host, "evil.") },
		Files: fstest.MapFS{
			"index.html": {Data: []byte("<title>orch</title>")}, "assets/app-3f2a9c1b.js": {Data: []byte("1")}, "logo.svg": {Data: []byte("<svg/>")},
		},
	}
	for _, change := range changes {
		change(&cfg)
	}
	var err error
	s.rest, err = rest.New(cfg)
	require.NoError(t, err)
	s.web = httptest.NewServer(s.rest)
	t.Cleanup(func() {
		s.rest.Close()
		s.web.Close()
		s.feed.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return s
}

// reply is an answer to a request of a test.
type reply struct {
	Status int
	Header http.Header
	Body   string
}

// object decodes the body.
func (r reply) object(t *testing.T) map[string]any {
	t.Helper()
	var out map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.Body), &out), r.Body)
	return out
}

// problem returns the code and the field of an error.
func (r reply) problem(t *testing.T) (code, field string) {
	t.Helper()
	e, ok := r.object(t)["error"].(map[string]any)
	require.True(t, ok, r.Body)
	require.NotEmpty(t, e["request_id"])
	code, _ = e["code"].(string)
	field, _ = e["field"].(string)
	return code, field
}

// do sends a request. header is a list of names and values.
func (s *site) do(verb, path, body string, header ...string) reply {
	s.t.Helper()
	answer := s.open(verb, path, body, header...)
	defer func() { _ = answer.Body.Close() }()
	data, err := io.ReadAll(answer.Body)
	require.NoError(s.t, err)
	return reply{answer.StatusCode, answer.Header, string(data)}
}

// open is do without reading the body.
func (s *site) open(verb, path, body string, header ...string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), verb, s.web.URL+path, strings.NewReader(body))
	require.NoError(s.t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	require.NoError(s.t, err)
	return answer
}

// as sends a request with the token of a role.
func (s *site) as(role rest.Role, verb, path, body string, header ...string) reply {
	s.t.Helper()
	return s.do(verb, rest.Prefix+path, body, append(header, "Authorization", "Bearer "+string(role))...)
}

// event is a server-sent event.
type event struct{ id, name, data string }

// eventsOf reads events from a stream.
type eventsOf struct {
	t    *testing.T
	body io.ReadCloser
	in   *bufio.Scanner
}

func (s *site) stream(role rest.Role, path string, header ...string) *eventsOf {
	s.t.Helper()
	answer := s.open(http.MethodGet, rest.Prefix+path, "", append(header, "Authorization", "Bearer "+string(role))...)
	require.Equal(s.t, http.StatusOK, answer.StatusCode)
	require.Equal(s.t, "text/event-stream", answer.Header.Get("Content-Type"))
	s.t.Cleanup(func() { _ = answer.Body.Close() })
	return &eventsOf{s.t, answer.Body, bufio.NewScanner(answer.Body)}
}

// next returns the next event with a name.
func (e *eventsOf) next() event {
	e.t.Helper()
	var out event
	for e.in.Scan() {
		key, value, _ := strings.Cut(e.in.Text(), ": ")
		switch key {
		case "id":
			out.id = value
		case "event":
			out.name = value
		case "data":
			out.data = value
		case "":
			if out.name != "" {
				return out
			}
		}
	}
	e.t.Fatal("the stream has ended")
	return out
}

func (f *fakeAPI) Retention(_ context.Context, r api.RetentionRequest) (api.RetentionReply, error) {
	f.record("retention", r)
	return api.RetentionReply{}, nil
}

func (f *fakeAPI) Holds(_ context.Context, r api.HoldsRequest) (api.HoldsReply, error) {
	f.record("holds", r)
	return api.HoldsReply{}, nil
}

func (f *fakeAPI) PlaceHold(_ context.Context, r api.HoldRequest) (api.HoldsReply, error) {
	f.record("hold", r)
	return api.HoldsReply{}, nil
}

func (f *fakeAPI) ReleaseHold(_ context.Context, r api.ReleaseHoldRequest) (api.HoldsReply, error) {
	f.record("release_hold", r)
	return api.HoldsReply{}, nil
}

func (f *fakeAPI) StoreVersion(_ context.Context, r api.StoreVersionRequest) (api.StoreVersion, error) {
	f.record("store_version", r)
	return api.StoreVersion{Version: 1, Known: 2}, nil
}

func (f *fakeAPI) FinalizeStore(_ context.Context, r api.FinalizeStoreRequest) (api.StoreVersion, error) {
	f.record("finalize_store", r)
	return api.StoreVersion{Version: 2, Known: 2}, nil
}

func (f *fakeAPI) Audit(_ context.Context, r api.AuditRequest) (api.AuditReply, error) {
	f.record("audit", r)
	return api.AuditReply{Acts: []audit.View{}}, nil
}

func (f *fakeAPI) AuditEntries(_ context.Context, r api.AuditEntriesRequest) (api.AuditEntriesReply, error) {
	f.record("audit_entries", r)
	return api.AuditEntriesReply{Entries: []json.RawMessage{}}, nil
}

func (f *fakeAPI) Schedules(_ context.Context, r api.SchedulesRequest) (api.SchedulesReply, error) {
	f.record("schedules", r)
	return api.SchedulesReply{Schedules: []api.ScheduleView{{Name: "nightly"}}}, nil
}

func (f *fakeAPI) PutSchedule(_ context.Context, r api.PutScheduleRequest) (api.ScheduleView, error) {
	f.record("put_schedule", r)
	return api.ScheduleView{Name: r.Name}, nil
}

func (f *fakeAPI) SteerSchedule(_ context.Context, r api.SteerScheduleRequest) (api.SteerScheduleReply, error) {
	f.record("steer_schedule", r)
	return api.SteerScheduleReply{Schedule: api.ScheduleView{Name: r.Name}}, nil
}

func (f *fakeAPI) Hooks(_ context.Context, r api.HooksRequest) (api.HooksReply, error) {
	f.record("hooks", r)
	return api.HooksReply{Hooks: []api.HookView{{Name: "deploy"}}}, nil
}

func (f *fakeAPI) PutHook(_ context.Context, r api.PutHookRequest) (api.HookView, error) {
	f.record("put_hook", r)
	return api.HookView{Name: r.Name}, nil
}

func (f *fakeAPI) SteerHook(_ context.Context, r api.SteerHookRequest) (api.HookView, error) {
	f.record("steer_hook", r)
	return api.HookView{Name: r.Name}, nil
}

func (f *fakeAPI) TestHook(_ context.Context, r api.TestHookRequest) (api.TestHookReply, error) {
	f.record("test_hook", r)
	return api.TestHookReply{}, nil
}

func (f *fakeAPI) Destinations(_ context.Context, r api.DestinationsRequest) (api.DestinationsReply, error) {
	f.record("destinations", r)
	return api.DestinationsReply{Destinations: []api.DestinationView{{Name: "pager"}}}, nil
}

func (f *fakeAPI) PutDestination(_ context.Context, r api.PutDestinationRequest) (api.DestinationView, error) {
	f.record("put_destination", r)
	return api.DestinationView{Name: r.Name}, nil
}

func (f *fakeAPI) SteerDestination(_ context.Context, r api.SteerDestinationRequest) (api.DestinationView, error) {
	f.record("steer_destination", r)
	return api.DestinationView{Name: r.Name}, nil
}

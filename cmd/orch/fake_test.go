package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/builtin"
)

var update = flag.Bool("update", false, "write the golden files")

// noon is the time of every test.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

const taskID events.TaskID = "TASK_01KE0000000000000000000000"

// fakeNodes returns its sessions in order, and then the last one again.
type fakeNodes struct {
	mu       sync.Mutex
	sessions []session
	files    verifyResult
	tokens   fakeTokens
	cluster  node.NodesReply
	err      error
	// catalogue is created when it is first needed.
	catalogue *tools.Catalogue
}

func (f *fakeNodes) Dial(context.Context, config.Config) (session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	s := f.sessions[0]
	if len(f.sessions) > 1 {
		f.sessions = f.sessions[1:]
	}
	return s, nil
}

func (f *fakeNodes) Attach(ctx context.Context, cfg config.Config, _ mode) (session, error) {
	return f.Dial(ctx, cfg)
}

func (f *fakeNodes) Open(ctx context.Context, cfg config.Config, _ mode) (session, error) {
	return f.Dial(ctx, cfg)
}

func (f *fakeNodes) Serve(ctx context.Context, _ config.Config, _ func(bus.Holder), ready func(address, mcp string)) error {
	ready("nats://127.0.0.1:4222", "")
	<-ctx.Done()
	return ctx.Err()
}

func (f *fakeNodes) Nodes(context.Context, config.Config) (node.NodesReply, error) {
	return f.cluster, f.err
}

func (f *fakeNodes) Work(ctx context.Context, _ config.Config) error { return ctx.Err() }

func (f *fakeNodes) Verify(_ context.Context, _ config.Config, progress func(done, total uint64)) (verifyResult, error) {
	progress(5, 10)
	return verifyResult{Report: map[string]int{"tasks": 2}, Found: 1, Problems: []string{"ORCH_EVENTS: a record is damaged"}, Mended: []string{"KV_ORCH_META: another one"}}, f.err
}

func (*fakeNodes) StoreVersion(config.Config) (bus.VersionInfo, error) {
	return bus.VersionInfo{}, fault.New(fault.NotFound, "there is no store")
}

func (*fakeNodes) FinalizeStore(config.Config) (bus.VersionInfo, error) {
	return bus.VersionInfo{}, fault.New(fault.NotFound, "there is no store")
}

func (*fakeNodes) Salvage(context.Context, config.Config) (bus.Salvaged, error) {
	return bus.Salvaged{}, nil
}

func (f *fakeNodes) Inspect(context.Context, config.Config) (verifyResult, error) {
	return f.files, nil
}

func (f *fakeNodes) Backup(_ context.Context, cfg config.Config, file string, _ bool, tell func(string)) (backupReport, error) {
	tell("half")
	return backupReport{File: file, DataDir: cfg.DataDir, Bytes: 2 << 20}, f.err
}

func (f *fakeNodes) Tokens(_ context.Context, _ config.Config, do func(bus.TokenStore) error) error {
	if f.err != nil {
		return f.err
	}
	return do(&f.tokens)
}

// fakeTokens is a list of tokens in memory.
type fakeTokens struct{ list []bus.Token }

func (f *fakeTokens) CreateToken(_ context.Context, in bus.NewToken) (bus.Token, error) {
	token := bus.Token{
		ID: "TOK_01KE0000000000000000000000", Name: in.Name, Role: in.Role, CreatedBy: in.Actor, CreatedAt: noon,
		Tools: in.Tools, ReadOnly: in.ReadOnly, Local: in.Local,
	}
	if in.Life > 0 {
		token.ExpiresAt = noon.Add(in.Life)
	}
	f.list = append(f.list, token)
	return token, nil
}

func (f *fakeTokens) ListTokens(context.Context) ([]bus.Token, error) { return f.list, nil }

func (f *fakeTokens) RevokeToken(_ context.Context, in bus.RevokeToken) (bus.Token, error) {
	for _, t := range f.list {
		if t.Name == in.Token {
			return t, nil
		}
	}
	return bus.Token{}, fault.New(fault.NotFound, "there is no token of that id or name")
}

func (f *fakeNodes) Restore(_ context.Context, cfg config.Config, file string, replace bool, _ func(string)) (backupReport, error) {
	s := backupReport{File: file, DataDir: cfg.DataDir, Tasks: 1, Commits: 2}
	if replace {
		s.Aside = cfg.DataDir + ".before"
	}
	return s, f.err
}

func (f *fakeNodes) Tools() (*tools.Catalogue, error) {
	if f.catalogue != nil {
		return f.catalogue, nil
	}
	var err error
	f.catalogue, err = tools.New(builtin.All(builtin.Config{})...)
	return f.catalogue, err
}

// fakeSession calls the functions that a test sets; any other method panics.
type fakeSession struct {
	api.API
	agents.Service

	embedded bool
	closed   bool
	task     api.TaskView
	list     api.ListReply
	commits  []api.CommitView
	explain  api.ExplainReply
	result   api.ResultReply
	replay   api.ReplayReply
	status   api.StatusReply
	findErr  error
	watch    func(context.Context, api.WatchRequest) (api.WatchReply, error)
	submit   func(api.SubmitRequest) (api.SubmitReply, error)
	batch    func(api.SubmitBatchRequest) (api.SubmitBatchReply, error)
	archive  func(api.ArchiveRequest) (api.ArchiveReply, error)
	// asked answers requests outside the API, by the last part of the method name; any other is UNAVAILABLE.
	asked map[string]func(in any) any
}

func (f *fakeSession) Identity() string            { return "" }
func (f *fakeSession) Embedded() bool              { return f.embedded }
func (f *fakeSession) Close(context.Context) error { f.closed = true; return nil }

func (f *fakeSession) Hooks(context.Context, api.HooksRequest) (api.HooksReply, error) {
	return api.HooksReply{}, nil
}

func (f *fakeSession) Destinations(context.Context, api.DestinationsRequest) (api.DestinationsReply, error) {
	return api.DestinationsReply{}, nil
}

func (f *fakeSession) Archive(_ context.Context, r api.ArchiveRequest) (api.ArchiveReply, error) {
	return f.archive(r)
}

// Ask passes values on as JSON, as the bus does.
func (f *fakeSession) Ask(_ context.Context, method string, in, out any) error {
	answer := f.asked[method[strings.LastIndexByte(method, '.')+1:]]
	if answer == nil {
		return fault.New(fault.Unavailable, "no node serves %s", method)
	}
	reply := answer(in)
	if err, ok := reply.(error); ok {
		return err
	}
	raw, err := json.Marshal(reply)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, out)
}

func (f *fakeSession) Find(context.Context, api.FindRequest) (api.FindReply, error) {
	return api.FindReply{ID: taskID}, f.findErr
}

func (f *fakeSession) Get(context.Context, api.GetRequest) (api.TaskView, error) {
	return f.task, nil
}

func (f *fakeSession) List(context.Context, api.ListRequest) (api.ListReply, error) {
	return f.list, nil
}

func (f *fakeSession) History(_ context.Context, r api.HistoryRequest) (api.HistoryReply, error) {
	page := api.HistoryReply{}
	for _, c := range f.commits {
		if c.Rev == r.From {
			page.Commits = []api.CommitView{c}
		}
		if c.Rev > r.From {
			page.Next = r.From + 1
		}
	}
	return page, nil
}

func (f *fakeSession) Explain(context.Context, api.GetRequest) (api.ExplainReply, error) {
	return f.explain, nil
}

func (f *fakeSession) Result(context.Context, api.ResultRequest) (api.ResultReply, error) {
	return f.result, nil
}

func (f *fakeSession) Replay(context.Context, api.ReplayRequest) (api.ReplayReply, error) {
	return f.replay, nil
}

func (f *fakeSession) Status(context.Context, api.StatusRequest) (api.StatusReply, error) {
	return f.status, nil
}

func (f *fakeSession) Watch(ctx context.Context, r api.WatchRequest) (api.WatchReply, error) {
	return f.watch(ctx, r)
}

func (f *fakeSession) Submit(_ context.Context, r api.SubmitRequest) (api.SubmitReply, error) {
	return f.submit(r)
}

func (f *fakeSession) SubmitBatch(_ context.Context, r api.SubmitBatchRequest) (api.SubmitBatchReply, error) {
	return f.batch(r)
}

// probe is a command line with its streams.
type probe struct {
	*app

	out, err *bytes.Buffer
}

// newProbe returns a command line whose node answers with the sessions.
func newProbe(t *testing.T, sessions ...session) *probe {
	t.Helper()
	p := &probe{out: &bytes.Buffer{}, err: &bytes.Buffer{}}
	p.app = newAppAt(&connector{user: "ada", nodes: &fakeNodes{sessions: sessions}, env: &env{
		in: strings.NewReader(""), out: p.out, err: p.err, dir: t.TempDir(), home: t.TempDir(),
		getenv: func(string) string { return "" },
		now:    func() time.Time { return noon },
		size:   func() (int, int) { return 100, 30 },
		redraw: time.Hour,
	}})
	if len(sessions) == 0 {
		p.nodes = &fakeNodes{err: fault.New(fault.Unavailable, "no node is running on %s", "x").WithHint("start one: orch serve")}
	}
	return p
}

func (p *probe) write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600))
}

// golden compares with a file of testdata/golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// Agents implements agents.Service: none is registered.
func (*fakeSession) Agents(context.Context) ([]agents.View, error) { return nil, nil }

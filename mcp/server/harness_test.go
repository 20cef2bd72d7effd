package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/index"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/internal/workspace"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/directory"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/receiver"
	"github.com/orch-dev/orch/scheduler"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/builtin"
	"github.com/orch-dev/orch/tools/model"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(serveChild())
	}
	goleak.VerifyTestMain(m)
}

// node is the backend of a face: a real owner and a real worker over a log in memory.
type node struct {
	t         testing.TB
	owner     backend
	catalogue *tools.Catalogue
	root      string
	tree      *workspace.Tree
	models    *directory.Directory
	// refused counts the requests to the model test/refuses.
	refused atomic.Int64
	stop    func()
}

func startNode(tb testing.TB, change ...func(*builtin.Config)) *node {
	tb.Helper()
	dir, err := filepath.EvalSymlinks(tb.TempDir())
	require.NoError(tb, err)
	root, err := pathguard.Open(dir)
	require.NoError(tb, err)
	tree, err := workspace.New(root, "Working")
	require.NoError(tb, err)
	exec, err := proc.New(proc.Config{Sandbox: proc.Off})
	require.NoError(tb, err)
	n := &node{t: tb, root: root.Name(), tree: tree}
	n.models = directory.New(directory.Config{
		Open:   map[string]func() (models.Provider, error){"test": func() (models.Provider, error) { return n, nil }},
		Prices: map[string]directory.Price{"sampling:paid*": {Input: 1000, Output: 2000, AsOf: "2026-11-01"}},
	})
	families := builtin.Config{Model: model.Config{Node: func() model.Node { return n }}}
	for _, c := range change {
		c(&families)
	}
	catalogue, err := tools.New(slices.Concat(builtin.All(families), builtin.Internal(families), testTools())...)
	require.NoError(tb, err)
	rules, err := policy.New(policy.Config{Root: root.Name(), Working: tree.Name(), DataDir: filepath.Join(dir, "data")})
	require.NoError(tb, err)
	log := memlog.New(memlog.Config{})
	owner, err := orchestrator.New(orchestrator.Config{
		Log: log, Blobs: log, Checkpoints: log, Catalogue: catalogue, Models: prices{n.models}, Lists: index.NewOpen(), Redact: rules.Redact, Workspace: func(_ string, id events.TaskID) string { return tree.Path(id) }, Root: root.Name(),
	})
	require.NoError(tb, err)
	hands, err := worker.New(owner, catalogue, rules, worker.Config{Root: root, Exec: exec, Concurrency: 8, Queues: []string{work.DefaultQueue, work.NodeQueue, work.ModelsQueue}})
	require.NoError(tb, err)
	n.owner, n.catalogue = backend{Orchestrator: owner, Scheduler: scheduler.New(scheduler.Config{Tasks: owner}), Receiver: receiver.New(receiver.Config{Tasks: owner})}, catalogue
	stopOwner := running(tb, owner.Run)
	<-owner.Ready()
	stopWorker := running(tb, hands.Run)
	n.stop = func() {
		stopWorker()
		stopOwner()
		assert.NoError(tb, exec.Close())
		assert.NoError(tb, root.Close())
	}
	tb.Cleanup(n.stop)
	return n
}

// backend is the API of a node, without a journal for schedules.
type backend struct {
	*orchestrator.Orchestrator
	*scheduler.Scheduler
	*receiver.Receiver
	api.Audits
	api.Stores
	sendersAPI
	filesAPI
}

// sendersAPI and filesAPI are embedded by other names than their methods.
type (
	sendersAPI = api.Destinations
	filesAPI   = api.Files
)

// Request implements model.Node.
func (n *node) Request(ctx context.Context, task events.TaskID, args models.CallArgs) (models.Request, []string, int, error) {
	return n.owner.ModelRequest(ctx, task, args)
}

// Provider implements model.Node.
func (n *node) Provider(_ events.TaskID, name string) (models.Provider, string, error) {
	return n.models.Provider(name)
}

// Stream implements models.Provider: the model test/refuses refuses each request, all others answer.
func (n *node) Stream(_ context.Context, r models.Request, _ func(models.Delta)) (models.Answer, error) {
	if r.Model == "refuses" {
		n.refused.Add(1)
		return models.Answer{}, &models.Error{Kind: models.Invalid, Message: "no"}
	}
	return models.Answer{Message: models.Message{Role: models.Model, Parts: []models.Part{{Text: "from the provider"}}}, Stop: models.StopEnd}, nil
}

// prices are the prices of the models of a directory.
type prices struct{ *directory.Directory }

// Price implements orchestrator.Models.
func (p prices) Price(name string) (events.Price, bool, error) {
	price, known, err := p.Directory.Price(name)
	return events.Price(price), known, err
}

// running runs something until the function that it returns was called.
func running(tb testing.TB, run func(context.Context) error) func() {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return func() {
		cancel()
		assert.NoError(tb, <-ended)
	}
}

// face returns a face of the node.
func (n *node) face(change ...func(*server.Config)) *server.Server {
	n.t.Helper()
	cfg := server.Config{
		API: n.owner, Catalogue: n.catalogue, Root: n.root, Stores: server.Stores{Outputs: n.tree}, Version: "test",
		Local: server.Identity{Name: "user:ada", Role: server.Operator}, Limits: server.Limits{SyncWait: time.Minute},
	}
	for _, c := range change {
		c(&cfg)
	}
	s, err := server.New(cfg)
	require.NoError(n.t, err)
	n.t.Cleanup(s.Close)
	return s
}

type none struct{}

type textIn struct {
	Text string `json:"text,omitempty" jsonschema:"what to say"`
}

type textOut struct {
	Text string `json:"text"`
}

type numberOut struct {
	Number int64 `json:"number"`
}

// testTools are tools with ways that no real one has at will.
func testTools() []tools.Tool {
	spec := func(name string, change ...func(*tools.Spec)) tools.Spec {
		s := tools.Spec{Name: name, Purpose: "test", Effect: tools.Read, Gate: tools.AnyState, Approval: tools.NoApproval, NoWorkspace: true}
		for _, c := range change {
			c(&s)
		}
		return s
	}
	mode := func(m tools.TaskMode) func(*tools.Spec) { return func(s *tools.Spec) { s.Tasks = m } }
	echo := func(_ context.Context, _ *tools.Env, in textIn) (textOut, error) { return textOut(in), nil }
	return []tools.Tool{
		tools.Define(spec("echo"), echo),
		tools.Define(spec("plain", mode(tools.NoTask)), echo),
		tools.Define(spec("task_only", mode(tools.OnlyTask)), echo),
		tools.Define(spec("at_once", mode(tools.AtOnce)), echo),
		tools.Define(spec("hangs"), func(ctx context.Context, env *tools.Env, _ none) (none, error) {
			env.Progress(1, 2, "half")
			<-ctx.Done()
			return none{}, ctx.Err()
		}),
		tools.Define(spec("fails"), func(context.Context, *tools.Env, none) (none, error) {
			return none{}, fault.New(fault.ExecFailed, "it did not work").WithHint("try another")
		}),
		tools.Define(spec("panics"), func(context.Context, *tools.Env, none) (none, error) { panic("secret detail") }),
		tools.Define(spec("steps"), func(_ context.Context, env *tools.Env, _ none) (none, error) {
			env.Record(events.LogWritten, &events.Logged{Step: env.Step, Level: "WARN", Message: "look out", At: events.Time(env.Now())})
			env.Progress(1, 1, "done")
			return none{}, nil
		}),
		tools.Define(spec("asks", mode(tools.AtOnce)), asks),
		tools.Define(spec("asks_first"), asks),
		tools.Define(spec("large", mode(tools.AtOnce)), func(context.Context, *tools.Env, none) (numberOut, error) { return numberOut{1<<53 + 1}, nil }),
		tools.Define(spec("samples"), asksFor(events.Sampling, `{"messages":[{"role":"user","content":{"type":"text","text":"say"}}],"maxTokens":10}`)),
		tools.Define(spec("folders"), asksFor(events.Roots, `{}`)),
		tools.Define(spec("links"), asksFor(events.Elicitation, `{"mode":"url","message":"sign in","url":"https://example.com/in","elicitationId":"e1"}`)),
	}
}

// asksFor asks one question and returns its answer as text.
func asksFor(kind, params string) func(context.Context, *tools.Env, none) (textOut, error) {
	return func(_ context.Context, env *tools.Env, _ none) (textOut, error) {
		raw, ok := env.Answer("it")
		if !ok {
			return textOut{}, &tools.Asking{Questions: []tools.Question{{Key: "it", Kind: kind, Params: json.RawMessage(params)}}}
		}
		return textOut{string(raw)}, nil
	}
}

// asks asks for a name and greets.
func asks(_ context.Context, env *tools.Env, _ none) (textOut, error) {
	raw, ok := env.Answer("name")
	if !ok {
		return textOut{}, &tools.Asking{Questions: []tools.Question{{Key: "name", Kind: events.Elicitation, Params: json.RawMessage(
			`{"message":"who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}`)}}}
	}
	var answer struct {
		Action  string
		Content struct{ Name string }
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return textOut{}, err
	}
	if answer.Action != "accept" {
		return textOut{}, errors.New("nobody is there")
	}
	return textOut{"hello " + answer.Content.Name}, nil
}

func write(tb testing.TB, path, content string) {
	tb.Helper()
	require.NoError(tb, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(tb, os.WriteFile(path, []byte(content), 0o600))
}

// list returns the tasks of the node.
func (n *node) list() []api.Summary {
	n.t.Helper()
	got, err := n.owner.List(context.Background(), api.ListRequest{})
	require.NoError(n.t, err)
	return got.Tasks
}

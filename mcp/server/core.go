package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// core is shared by all parts of a server. It contains the configuration, the SDK's server, and the lifetime of the server.
type core struct {
	cfg Config
	sdk *mcp.Server
	// sdkLogger receives the log of the SDK.
	sdkLogger *slog.Logger
	// life is cancelled when the server closes. It is the context of work that outlives a request.
	life context.Context //nolint:containedctx // the server outlives its requests
	stop context.CancelFunc
	// group counts the goroutines that outlive their request.
	group sync.WaitGroup
}

func newCore(cfg Config) *core {
	co := &core{cfg: cfg, sdkLogger: slog.New(debugHandler{cfg.Logger.Handler()})}
	co.life, co.stop = context.WithCancel(context.Background())
	return co
}

// background runs fn in a goroutine until the server closes, independent of the current request.
func (co *core) background(fn func(ctx context.Context)) {
	if co.life.Err() != nil {
		return
	}
	co.group.Go(func() { fn(co.life) })
}

// taskOf reads a task. It returns NOT_FOUND for a task that does not exist or that the identity may not see (S2-071).
func (co *core) taskOf(ctx context.Context, who Identity, text string) (api.TaskView, error) {
	id, err := events.ParseTaskID(text)
	if err != nil {
		return api.TaskView{}, unknownTask(text)
	}
	t, err := co.cfg.API.Get(ctx, api.GetRequest{ID: id})
	if fault.Has(err, fault.NotFound) || err == nil && co.hidden(ctx, who, t) {
		return api.TaskView{}, unknownTask(text)
	}
	return t, err
}

func unknownTask(text string) error {
	if len(text) > 64 {
		text = text[:64] + "…"
	}
	return fault.New(fault.NotFound, "there is no task %q", text).WithField("taskId")
}

// hidden reports whether a task belongs to another identity, or is no longer shown to MCP clients.
func (co *core) hidden(ctx context.Context, who Identity, t api.TaskView) bool {
	if end := visibleUntil(t); !end.IsZero() && co.cfg.Now().After(end) {
		return true
	}
	return !who.Role.seesAll() && co.ownerOf(ctx, t) != who.Name
}

// visibleUntil returns when a task stops being shown to clients; zero for never.
func visibleUntil(t api.TaskView) time.Time {
	ttl, ok := ttlOf(t.Labels)
	if !ok {
		return time.Time{}
	}
	return t.CreatedAt.Add(ttl)
}

// maxDepth is the most levels from a child task up to the task of the submitter.
const maxDepth = 16

// ownerOf returns the submitter of a task. The submitter of a child task is that of its parent, unless an agent has submitted
// the child.
func (co *core) ownerOf(ctx context.Context, t api.TaskView) string {
	for range maxDepth {
		if t.Imported != nil { // its submitter is somebody of another node
			return ""
		}
		if t.Parent == "" || !strings.HasPrefix(t.Requestor, "task:") { // an agent owns the child tasks that it submits
			return t.Requestor
		}
		parent, err := co.cfg.API.Get(ctx, api.GetRequest{ID: t.Parent})
		if err != nil {
			return ""
		}
		t = parent
	}
	return ""
}

// recover turns a panic into a protocol error (S3-144).
func (co *core) recover(method string, err *error) {
	if r := recover(); r != nil {
		co.cfg.Logger.Error("mcp_panic", slog.String("method", method), slog.Any("panic", r), slog.String("stack", string(debug.Stack())))
		*err = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
	}
}

// reportRefusal reports a call that was refused before it reached the API, and returns why.
func (co *core) reportRefusal(c client, tool string, args json.RawMessage, why error) error {
	co.cfg.Hooks.Refused(c.who.Name, tool, args, why)
	return why
}

// approvalsFor returns the approvals that an identity may see.
func (co *core) approvalsFor(ctx context.Context, who Identity) (api.ApprovalsReply, error) {
	r := api.ApprovalsRequest{Limit: maxApprovals}
	if !who.Role.seesAll() {
		r.Submitter = who.Name
	}
	got, err := co.cfg.API.Approvals(ctx, r)
	if !who.Role.seesAll() {
		got.Unread = 0 // the count includes the approvals of other identities
	}
	return got, err
}

// maxApprovals is the most approvals in a list.
const maxApprovals = 100

// pastTask returns a task that the identity may see, or could see until its time to live has passed.
func (co *core) pastTask(ctx context.Context, who Identity, text string) (api.TaskView, bool) {
	id, err := events.ParseTaskID(text)
	if err != nil {
		return api.TaskView{}, false
	}
	t, err := co.cfg.API.Get(ctx, api.GetRequest{ID: id})
	return t, err == nil && (who.Role.seesAll() || co.ownerOf(ctx, t) == who.Name)
}

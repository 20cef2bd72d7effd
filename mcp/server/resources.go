package server

import (
	"context"
	"encoding/json"
	"mime"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Outputs gives access to the output files of tasks: those below outputs/ in their workspaces.
type Outputs interface {
	// ListOutputs returns the names of the files, with slashes, sorted.
	ListOutputs(ctx context.Context, task events.TaskID) ([]string, error)
	// ReadOutput returns a file: NOT_FOUND, OUTSIDE_ROOT for a name that leads elsewhere, and VALIDATION_ERROR for a file
	// that is too large.
	ReadOutput(ctx context.Context, task events.TaskID, name string) ([]byte, error)
}

// resourcePrefix is the prefix of the URIs of a task's resources (S2-031).
const resourcePrefix = "orch://task/"

// codeNoResource is the code of 2025-11-25 for an unknown resource.
const codeNoResource = -32002

// views returns the kinds of resources that each task has.
func (rv *resourceView) views() []view {
	return []view{
		{"", "state", "State of a task: its steps, their results, and what it waits for", rv.stateView},
		{"/log", "log", "Event log of a task: every commit, in order", rv.logView},
		{"/checkpoints", "checkpoints", "Checkpoints of a task", rv.checkpointsView},
		{"/approvals", "approvals", "Approvals of a task, open and decided", rv.approvalsView},
		{"/outputs", "outputs", "Names of the files that a task hands over", rv.outputsView},
	}
}

// view is a kind of resource of a task.
type view struct {
	// suffix is the end of the URI, after the id of the task.
	suffix, name, title string
	// read returns the content, to be encoded as JSON.
	read func(ctx context.Context, t api.TaskView) (any, error)
}

// addResources registers the resources of tasks as templates. The newest tasks are also listed, see publish.
func (rv *resourceView) addResources() {
	for _, v := range rv.views() {
		rv.sdk.AddResourceTemplate(&mcp.ResourceTemplate{
			URITemplate: resourcePrefix + "{taskId}" + v.suffix, Name: "task-" + v.name, Title: v.title, MIMEType: "application/json",
		}, rv.readView(v))
	}
	rv.sdk.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: resourcePrefix + "{taskId}/outputs/{+path}", Name: "task-output", Title: "A file that a task hands over",
	}, rv.readOutput)
}

// readView returns the handler of a resource of a task.
func (rv *resourceView) readView(v view) mcp.ResourceHandler {
	return func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		id, _, _ := strings.Cut(strings.TrimPrefix(req.Params.URI, resourcePrefix), "/")
		t, err := rv.taskOf(ctx, clientFrom(ctx).who, id)
		if err != nil {
			return nil, mcp.ResourceNotFoundError(req.Params.URI)
		}
		shown, err := v.read(ctx, t)
		if err != nil {
			return nil, err
		}
		data, err := json.MarshalIndent(shown, "", "  ")
		if err != nil {
			return nil, err
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, MIMEType: "application/json", Text: string(data)}}}, nil
	}
}

func (rv *resourceView) stateView(ctx context.Context, t api.TaskView) (any, error) {
	clientFrom(ctx).reservation.extractTask(&t)
	return t, nil
}

// maxHistory is the most commits of a log in one read.
const maxHistory = 1000

func (rv *resourceView) logView(ctx context.Context, t api.TaskView) (any, error) {
	all := api.HistoryReply{Commits: []api.CommitView{}}
	for from := uint64(1); from != 0 && len(all.Commits) < maxHistory; from = all.Next {
		page, err := rv.cfg.API.History(ctx, api.HistoryRequest{ID: t.ID, From: from})
		if err != nil {
			return nil, err
		}
		all.Commits, all.Next = append(all.Commits, page.Commits...), page.Next
	}
	return all, nil
}

func (rv *resourceView) checkpointsView(ctx context.Context, t api.TaskView) (any, error) {
	return rv.cfg.API.Checkpoint(ctx, api.CheckpointRequest{Task: t.ID})
}

func (rv *resourceView) approvalsView(ctx context.Context, t api.TaskView) (any, error) {
	return rv.cfg.API.Approvals(ctx, api.ApprovalsRequest{Task: t.ID, All: true})
}

func (rv *resourceView) outputsView(ctx context.Context, t api.TaskView) (any, error) {
	files := []object{}
	if rv.cfg.Stores.Outputs == nil {
		return object{"files": files}, nil
	}
	names, err := rv.cfg.Stores.Outputs.ListOutputs(ctx, t.ID)
	for _, name := range names {
		files = append(files, object{"name": name, "uri": resourcePrefix + string(t.ID) + "/outputs/" + (&url.URL{Path: name}).EscapedPath()})
	}
	return object{"files": files}, err
}

// readOutput returns an output file of a task: as text if it is valid UTF-8, otherwise as a blob.
func (rv *resourceView) readOutput(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := req.Params.URI
	id, name, _ := strings.Cut(strings.TrimPrefix(uri, resourcePrefix), "/outputs/")
	t, err := rv.taskOf(ctx, clientFrom(ctx).who, id)
	name, bad := url.PathUnescape(name)
	if err != nil || bad != nil || rv.cfg.Stores.Outputs == nil || name != path.Clean(name) || strings.HasPrefix(name, "..") || path.IsAbs(name) {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	data, err := rv.cfg.Stores.Outputs.ReadOutput(ctx, t.ID, name)
	switch {
	case fault.Has(err, fault.NotFound), fault.Has(err, fault.OutsideRoot), fault.Has(err, fault.ProtectedPath):
		return nil, mcp.ResourceNotFoundError(uri)
	case err != nil:
		return nil, err
	}
	shown := &mcp.ResourceContents{URI: uri, MIMEType: mime.TypeByExtension(path.Ext(name))}
	if utf8.Valid(data) {
		shown.Text = string(data)
	} else {
		shown.Blob = data
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{shown}}, nil
}

// noResource replaces the code of an error for an unknown resource by that of 2025-11-25, for clients of that version.
func noResource(c client, err error) error {
	var wire *jsonrpc.Error
	if c.modern || !asWire(err, &wire) || wire.Code != mcp.CodeResourceNotFound {
		return err
	}
	return &jsonrpc.Error{Code: codeNoResource, Message: wire.Message, Data: wire.Data}
}

// maxListed is the most tasks in the list of resources, and the most resource subscriptions of a session.
const maxListed = 100

// published are the tasks in the list of resources, the newest last.
type published struct {
	mu    sync.Mutex
	tasks []events.TaskID
}

// publish adds a task to the list of resources, so that clients are notified of it (S2-035).
func (rv *resourceView) publish(id events.TaskID, name string) {
	rv.published.mu.Lock()
	defer rv.published.mu.Unlock()
	uri := resourcePrefix + string(id)
	rv.sdk.AddResource(&mcp.Resource{URI: uri, Name: string(id), Title: name, MIMEType: "application/json"}, rv.readView(rv.views()[0]))
	rv.published.tasks = append(rv.published.tasks, id)
	if len(rv.published.tasks) > maxListed {
		rv.sdk.RemoveResources(resourcePrefix + string(rv.published.tasks[0]))
		rv.published.tasks = slices.Delete(rv.published.tasks, 0, 1)
	}
}

// listResources removes from a list the resources that the client does not see: of tasks of other identities, of external MCP
// servers, and the inbox.
func (rv *resourceView) listResources(ctx context.Context, c client, list *mcp.ListResourcesResult) {
	sees, inbox := rv.outside.seesOutside(c), rv.seesInbox(c)
	list.Resources = slices.DeleteFunc(list.Resources, func(r *mcp.Resource) bool {
		if server, _, outside := outsideOf(r.URI); outside {
			return !sees(server)
		}
		if rv.isInbox(r.URI) {
			return !inbox
		}
		id, isTask := strings.CutPrefix(r.URI, resourcePrefix)
		if !isTask {
			return false
		}
		_, err := rv.taskOf(ctx, c.who, id)
		return err != nil
	})
}

// maxSubscribed is the most watched resources, of all sessions together.
const maxSubscribed = 10_000

// watched is the set of resources that are watched for changes.
type watched struct {
	mu    sync.Mutex
	byURI map[string]struct{}
}

// subscribe subscribes a session to changes of a task's resource (S2-033).
func (rv *resourceView) subscribe(ctx context.Context, req *mcp.SubscribeRequest) error {
	uri, c := req.Params.URI, clientFrom(ctx)
	if rv.isInbox(uri) {
		return rv.subscribeInbox(ctx, c, req.Params)
	}
	id, isTask := strings.CutPrefix(uri, resourcePrefix)
	if _, _, outside := outsideOf(uri); !isTask && !outside && rv.cfg.Hooks.Extend != nil { // a resource of Config.Extend
		return nil
	}
	id, suffix, _ := strings.Cut(id, "/")
	isView := slices.ContainsFunc(rv.views(), func(v view) bool { return strings.TrimPrefix(v.suffix, "/") == suffix })
	if !isTask || !isView && !strings.HasPrefix(suffix, "outputs/") {
		return noResource(c, mcp.ResourceNotFoundError(uri))
	}
	t, err := rv.taskOf(ctx, c.who, id)
	if err != nil {
		return noResource(c, mcp.ResourceNotFoundError(uri))
	}
	if err := rv.clients.saveSubscription(ctx, c, uri); err != nil {
		return err
	}
	return rv.watchResource(uri, func(ctx context.Context) { rv.reportChanges(ctx, t.ID, uri) })
}

// unsubscribe removes a subscription. The resource is still watched, because other sessions may have subscribed to it.
func (rv *resourceView) unsubscribe(ctx context.Context, req *mcp.UnsubscribeRequest) error {
	c := clientFrom(ctx)
	rv.clients.update(ctx, c, func(r *record) {
		r.Subscribed = slices.DeleteFunc(r.Subscribed, func(uri string) bool { return uri == req.Params.URI })
	})
	if rv.isInbox(req.Params.URI) {
		req.Params.URI = inboxOf(c.who)
	}
	return nil
}

// watchResource starts report in a goroutine, unless it already runs for this resource. report notifies the SDK of each change
// of the resource; the SDK notifies all subscribers.
func (rv *resourceView) watchResource(uri string, report func(context.Context)) error {
	rv.watched.mu.Lock()
	defer rv.watched.mu.Unlock()
	if _, on := rv.watched.byURI[uri]; on {
		return nil
	}
	if len(rv.watched.byURI) >= maxSubscribed {
		return fault.New(fault.QuotaExceeded, "%d resources are subscribed to, and that is the limit", maxSubscribed)
	}
	if rv.watched.byURI == nil {
		rv.watched.byURI = map[string]struct{}{}
	}
	rv.watched.byURI[uri] = struct{}{}
	rv.background(func(ctx context.Context) {
		defer func() {
			rv.watched.mu.Lock()
			delete(rv.watched.byURI, uri)
			rv.watched.mu.Unlock()
		}()
		report(ctx)
	})
	return nil
}

func (rv *resourceView) reportChanges(ctx context.Context, id events.TaskID, uri string) {
	t, err := rv.cfg.API.Get(ctx, api.GetRequest{ID: id})
	rev := t.Rev
	for err == nil && ctx.Err() == nil {
		var w api.WatchReply
		w, err = rv.cfg.API.Watch(ctx, api.WatchRequest{ID: id, After: rev, Wait: time.Minute})
		if len(w.Commits) > 0 {
			rev = w.Commits[len(w.Commits)-1].Rev
			_ = rv.sdk.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri})
		}
		if w.Ended {
			return
		}
	}
}

// routeRead reads a resource. Only resources of tasks are read with withinMemory, which may read twice: resources of external
// MCP servers may take long.
func (rv *resourceView) routeRead(ctx context.Context, c client, next mcp.MethodHandler, req mcp.Request) (mcp.Result, error) {
	read := func() (mcp.Result, error) { return next(ctx, "resources/read", req) }
	if p, ok := req.GetParams().(*mcp.ReadResourceParams); ok && strings.HasPrefix(p.URI, resourcePrefix) {
		return withinMemory(ctx, c, read)
	}
	return read()
}

// resourceView offers tasks and their outputs as resources.
type resourceView struct {
	*core

	tools   *toolView
	clients *connections
	outside *outsideView
	// published are the listed tasks, watched the resources with subscribers.
	published published
	watched   watched
}

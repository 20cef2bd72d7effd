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

// Outputs gives access to what tasks hand over: the files below outputs/ in their workspaces.
type Outputs interface {
	// ListOutputs returns the names of the files, with slashes, in order.
	ListOutputs(ctx context.Context, task events.TaskID) ([]string, error)
	// ReadOutput returns a file: NOT_FOUND, OUTSIDE_ROOT for a name that leads elsewhere, and VALIDATION_ERROR for one
	// that is too large.
	ReadOutput(ctx context.Context, task events.TaskID, name string) ([]byte, error)
}

// resourcePrefix begins the URIs of the resources of a task (S2-031).
const resourcePrefix = "orch://task/"

// codeNoResource says in 2025-11-25 that there is no such resource.
const codeNoResource = -32002

// views are the resources of every task by the last part of their URI.
func (s *Server) views() []view {
	return []view{
		{"", "state", "State of a task: its steps, their results, and what it waits for", s.stateView},
		{"/log", "log", "Event log of a task: every commit, in order", s.logView},
		{"/checkpoints", "checkpoints", "Checkpoints of a task", s.checkpointsView},
		{"/approvals", "approvals", "Approvals of a task, open and decided", s.approvalsView},
		{"/outputs", "outputs", "Names of the files that a task hands over", s.outputsView},
	}
}

type view struct {
	suffix, name, title string
	read                func(ctx context.Context, t api.TaskView) (any, error)
}

// addResources offers the resources of tasks as templates; those of the newest tasks of clients are listed too.
func (s *Server) addResources() {
	for _, v := range s.views() {
		s.sdk.AddResourceTemplate(&mcp.ResourceTemplate{
			URITemplate: resourcePrefix + "{taskId}" + v.suffix, Name: "task-" + v.name, Title: v.title, MIMEType: "application/json",
		}, s.readView(v))
	}
	s.sdk.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: resourcePrefix + "{taskId}/outputs/{+path}", Name: "task-output", Title: "A file that a task hands over",
	}, s.readOutput)
}

// readView is the handler of a resource of a task.
func (s *Server) readView(v view) mcp.ResourceHandler {
	return func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		id, _, _ := strings.Cut(strings.TrimPrefix(req.Params.URI, resourcePrefix), "/")
		t, err := s.taskOf(ctx, clientFrom(ctx).who, id)
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

func (s *Server) stateView(ctx context.Context, t api.TaskView) (any, error) {
	clientFrom(ctx).room.spareTask(&t)
	return t, nil
}

// maxHistory bounds the commits of a log that one reading returns.
const maxHistory = 1000

func (s *Server) logView(ctx context.Context, t api.TaskView) (any, error) {
	all := api.HistoryReply{Commits: []api.CommitView{}}
	for from := uint64(1); from != 0 && len(all.Commits) < maxHistory; from = all.Next {
		page, err := s.cfg.API.History(ctx, api.HistoryRequest{ID: t.ID, From: from})
		if err != nil {
			return nil, err
		}
		all.Commits, all.Next = append(all.Commits, page.Commits...), page.Next
	}
	return all, nil
}

func (s *Server) checkpointsView(ctx context.Context, t api.TaskView) (any, error) {
	return s.cfg.API.Checkpoint(ctx, api.CheckpointRequest{Task: t.ID})
}

func (s *Server) approvalsView(ctx context.Context, t api.TaskView) (any, error) {
	return s.cfg.API.Approvals(ctx, api.ApprovalsRequest{Task: t.ID, All: true})
}

func (s *Server) outputsView(ctx context.Context, t api.TaskView) (any, error) {
	files := []object{}
	if s.cfg.Outputs == nil {
		return object{"files": files}, nil
	}
	names, err := s.cfg.Outputs.ListOutputs(ctx, t.ID)
	for _, name := range names {
		files = append(files, object{"name": name, "uri": resourcePrefix + string(t.ID) + "/outputs/" + (&url.URL{Path: name}).EscapedPath()})
	}
	return object{"files": files}, err
}

// readOutput shows a file of the outputs of a task: text as text, anything else as a blob.
func (s *Server) readOutput(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := req.Params.URI
	id, name, _ := strings.Cut(strings.TrimPrefix(uri, resourcePrefix), "/outputs/")
	t, err := s.taskOf(ctx, clientFrom(ctx).who, id)
	name, bad := url.PathUnescape(name)
	if err != nil || bad != nil || s.cfg.Outputs == nil || name != path.Clean(name) || strings.HasPrefix(name, "..") || path.IsAbs(name) {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	data, err := s.cfg.Outputs.ReadOutput(ctx, t.ID, name)
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

// noResource gives an unknown resource the code of 2025-11-25.
func noResource(c client, err error) error {
	var wire *jsonrpc.Error
	if c.modern || !asWire(err, &wire) || wire.Code != mcp.CodeResourceNotFound {
		return err
	}
	return &jsonrpc.Error{Code: codeNoResource, Message: wire.Message, Data: wire.Data}
}

// maxListed bounds the tasks whose state is a resource of the list.
const maxListed = 100

// published are the tasks in the list of resources, the newest last.
type published struct {
	mu    sync.Mutex
	tasks []events.TaskID
}

// publish puts a task into the list of resources, so that clients hear that it is there (S2-035).
func (s *Server) publish(id events.TaskID, name string) {
	s.published.mu.Lock()
	defer s.published.mu.Unlock()
	uri := resourcePrefix + string(id)
	s.sdk.AddResource(&mcp.Resource{URI: uri, Name: string(id), Title: name, MIMEType: "application/json"}, s.readView(s.views()[0]))
	s.published.tasks = append(s.published.tasks, id)
	if len(s.published.tasks) > maxListed {
		s.sdk.RemoveResources(resourcePrefix + string(s.published.tasks[0]))
		s.published.tasks = slices.Delete(s.published.tasks, 0, 1)
	}
}

// listResources leaves out the tasks of others, and the outside servers that the identity does not see.
func (s *Server) listResources(ctx context.Context, c client, list *mcp.ListResourcesResult) {
	sees, inbox := s.seesOutside(c), s.seesInbox(c)
	list.Resources = slices.DeleteFunc(list.Resources, func(r *mcp.Resource) bool {
		if server, _, outside := outsideOf(r.URI); outside {
			return !sees(server)
		}
		if s.isInbox(r.URI) {
			return !inbox
		}
		id, ours := strings.CutPrefix(r.URI, resourcePrefix)
		if !ours {
			return false
		}
		_, err := s.taskOf(ctx, c.who, id)
		return err != nil
	})
}

// maxSubscribed bounds the resources that are watched for all sessions together.
const maxSubscribed = 10_000

// watched counts the subscriptions to the resources of tasks.
type watched struct {
	mu    sync.Mutex
	byURI map[string]struct{}
}

// subscribe lets a session hear of changes of a resource of a task (S2-033).
func (s *Server) subscribe(ctx context.Context, req *mcp.SubscribeRequest) error {
	uri, c := req.Params.URI, clientFrom(ctx)
	if s.isInbox(uri) {
		return s.subscribeInbox(ctx, c, req.Params)
	}
	id, ours := strings.CutPrefix(uri, resourcePrefix)
	if _, _, outside := outsideOf(uri); !ours && !outside && s.cfg.Extend != nil { // one of theirs
		return nil
	}
	id, suffix, _ := strings.Cut(id, "/")
	isView := slices.ContainsFunc(s.views(), func(v view) bool { return strings.TrimPrefix(v.suffix, "/") == suffix })
	if !ours || !isView && !strings.HasPrefix(suffix, "outputs/") {
		return noResource(c, mcp.ResourceNotFoundError(uri))
	}
	t, err := s.taskOf(ctx, c.who, id)
	if err != nil {
		return noResource(c, mcp.ResourceNotFoundError(uri))
	}
	if err := s.noteSubscription(ctx, c, uri); err != nil {
		return err
	}
	return s.watchResource(uri, func(ctx context.Context) { s.reportChanges(ctx, t.ID, uri) })
}

// noteSubscription keeps what a session subscribes to, for when it is opened again.
func (s *Server) noteSubscription(ctx context.Context, c client, uri string) error {
	full := false
	s.change(ctx, c, func(r *record) {
		if slices.Contains(r.Subscribed, uri) {
			return
		}
		if full = len(r.Subscribed) >= maxListed; !full {
			r.Subscribed = append(r.Subscribed, uri)
		}
	})
	if full {
		return fault.New(fault.QuotaExceeded, "a session subscribes to at most %d resources", maxListed)
	}
	return nil
}

// unsubscribe ends that; the task is watched on for others.
func (s *Server) unsubscribe(ctx context.Context, req *mcp.UnsubscribeRequest) error {
	c := clientFrom(ctx)
	s.change(ctx, c, func(r *record) {
		r.Subscribed = slices.DeleteFunc(r.Subscribed, func(uri string) bool { return uri == req.Params.URI })
	})
	if s.isInbox(req.Params.URI) {
		req.Params.URI = inboxOf(c.who)
	}
	return nil
}

// watchResource lets report tell the SDK of each change of a resource, once for all who subscribe.
func (s *Server) watchResource(uri string, report func(context.Context)) error {
	s.watched.mu.Lock()
	defer s.watched.mu.Unlock()
	if _, on := s.watched.byURI[uri]; on {
		return nil
	}
	if len(s.watched.byURI) >= maxSubscribed {
		return fault.New(fault.QuotaExceeded, "%d resources are subscribed to, and that is the limit", maxSubscribed)
	}
	if s.watched.byURI == nil {
		s.watched.byURI = map[string]struct{}{}
	}
	s.watched.byURI[uri] = struct{}{}
	s.background(func(ctx context.Context) {
		defer func() {
			s.watched.mu.Lock()
			delete(s.watched.byURI, uri)
			s.watched.mu.Unlock()
		}()
		report(ctx)
	})
	return nil
}

func (s *Server) reportChanges(ctx context.Context, id events.TaskID, uri string) {
	t, err := s.cfg.API.Get(ctx, api.GetRequest{ID: id})
	rev := t.Rev
	for err == nil && ctx.Err() == nil {
		var w api.WatchReply
		w, err = s.cfg.API.Watch(ctx, api.WatchRequest{ID: id, After: rev, Wait: time.Minute})
		if len(w.Commits) > 0 {
			rev = w.Commits[len(w.Commits)-1].Rev
			_ = s.sdk.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri})
		}
		if w.Over {
			return
		}
	}
}

// routeRead lets a resource be read. Those of outside servers may take long, and no answer is made twice of them.
func (s *Server) routeRead(ctx context.Context, c client, next mcp.MethodHandler, req mcp.Request) (mcp.Result, error) {
	read := func() (mcp.Result, error) { return next(ctx, "resources/read", req) }
	if p, ok := req.GetParams().(*mcp.ReadResourceParams); ok && strings.HasPrefix(p.URI, resourcePrefix) {
		return inRoom(ctx, c, read)
	}
	return read()
}

package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/mcp/oauth"
)

const (
	// olderVersion is the newest version of the protocol that starts with initialize.
	olderVersion = "2025-11-25"
	// maxTools is the most tools of a server, maxToolsBytes the most bytes of all pages of the list of its tools.
	maxTools, maxToolsBytes = 10_000, 32 << 20
	// maxToolName and maxToolBytes are the most bytes of the name and of the whole definition of a tool.
	maxToolName, maxToolBytes = 128, 256 << 10
	// tasksExtension is the extension of 2026-07-28 for tasks.
	tasksExtension = "io.modelcontextprotocol/tasks"
	// endGrace is how long a session may take to close, and how long a process may take to end after each signal.
	endGrace = 2 * time.Second
)

// link is the transport to a server, below the protocol.
type link interface {
	mcp.Transport
	// close closes the transport. It may be called more than once.
	close()
	// stderrTail returns the end of the stderr of a process, with secrets hidden; "" for a URL.
	stderrTail() string
	// closeReason returns why the transport was closed by the server, nil if that is unknown. The error matches oauth.ErrLogin
	// if a person must log in.
	closeReason() error
}

// connection is a session with a server.
type connection struct {
	session      *mcp.ClientSession
	link         link
	pendingCalls *pendingCalls
	// supportsTasks is set if a server of the older generation supports tool calls as tasks.
	supportsTasks bool
	// done is closed when the session has ended, for any reason, and its link is closed.
	done chan struct{}
}

// connectOptions configures a connection.
type connectOptions struct {
	// open creates a link. If it fails, connect does not try again.
	open         func() (link, error)
	options      *mcp.ClientOptions
	pendingCalls *pendingCalls
}

// connect opens a session within the given time. It first tries the newer generation of the protocol, for half of the time, and
// then the older one on a new link.
func connect(ctx context.Context, within time.Duration, o connectOptions) (*connection, error) {
	first, cancel := context.WithTimeout(ctx, within/2)
	defer cancel()
	l, err := o.open()
	if err != nil {
		return nil, err
	}
	c, err := handshake(first, l, o, "")
	if err == nil || ctx.Err() != nil || errors.Is(err, oauth.ErrLogin) {
		return c, err
	}
	if l, err = o.open(); err != nil {
		return nil, err
	}
	return handshake(ctx, l, o, olderVersion)
}

// handshake opens a session on a link, in one generation of the protocol. If it fails, it closes the link.
func handshake(ctx context.Context, l link, o connectOptions, version string) (*connection, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "orch", Version: "1"}, o.options)
	client.AddReceivingMiddleware(o.pendingCalls.middleware)
	if err := addAliases(client); err != nil {
		l.close()
		return nil, err
	}
	capture := &handshakeCapture{}
	ctx = context.WithValue(ctx, handshakeCaptureKey{}, capture)
	// Not all work of the SDK ends with ctx, but it ends when the link is closed.
	stop := context.AfterFunc(ctx, l.close)
	session, err := client.Connect(ctx, l, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if !stop() {
		err = ctx.Err() // the SDK's error about the closed link is not the reason
	}
	if err != nil {
		l.close()
		return nil, explain(err, l)
	}
	c := &connection{session: session, link: l, pendingCalls: o.pendingCalls, supportsTasks: capture.finish(), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		_ = session.Wait() // users of the session get the error
		l.close()
		_ = session.Close() // ends the SDK's requests that listen for changes
	}()
	return c, nil
}

// explain joins the reason why the link was closed to an error. If the reason is a required login, it returns only the reason: the
// error of the SDK is just a consequence.
func explain(err error, l link) error {
	reason := l.closeReason()
	if errors.Is(reason, oauth.ErrLogin) {
		return reason
	}
	return errors.Join(reason, err)
}

// tools lists the tools of the server. It omits unusable tools, and calls refused for each with the reason (S1-088).
func (c *connection) tools(ctx context.Context, refused func(tool, reason string)) ([]*Tool, map[string]trait, error) {
	if caps := c.session.InitializeResult().Capabilities; caps == nil || caps.Tools == nil {
		return nil, nil, nil
	}
	list, err := c.list(ctx, "tools/list", "tools", listLimits{count: maxTools, bytes: maxToolsBytes})
	if err != nil {
		return nil, nil, explain(err, c.link)
	}
	var all []*Tool
	traits := map[string]trait{}
	for _, raw := range list {
		tool, t, reason := parseTool(raw)
		if _, known := traits[tool.Name]; known && reason == "" {
			reason = "another one has the same name"
		}
		if reason != "" {
			refused(tool.Name[:min(len(tool.Name), maxToolName)], reason)
			continue
		}
		traits[tool.Name] = t
		all = append(all, tool)
	}
	return all, traits, nil
}

// parseTool parses the definition of a tool. It also returns the reason why the tool cannot be used; "" if it can.
func parseTool(raw json.RawMessage) (*Tool, trait, string) {
	tool := &Tool{Raw: raw}
	if len(raw) > maxToolBytes {
		_ = json.Unmarshal(raw, &struct {
			Name *string `json:"name"`
		}{&tool.Name}) // for the log
		return tool, trait{}, "its definition has more than 256 KiB"
	}
	if json.Unmarshal(raw, &tool.Tool) != nil {
		return tool, trait{}, "its definition is not valid"
	}
	if reason := toolProblem(&tool.Tool); reason != "" {
		return tool, trait{}, reason
	}
	t, reason := traitOf(raw)
	return tool, t, reason
}

// listLimits are the limits of a list; bytes is the total of its pages.
type listLimits struct{ count, bytes int }

// list reads all pages of a list.
func (c *connection) list(ctx context.Context, method, key string, limits listLimits) ([]json.RawMessage, error) {
	all := []json.RawMessage{}
	size := 0
	for cursor := ""; ; {
		p := &rawParams{fields: object{}}
		if cursor != "" {
			p.fields["cursor"] = cursor
		}
		raw, err := c.request(ctx, method, p, requestMeta{})
		if err != nil {
			return nil, err
		}
		var page map[string]json.RawMessage
		var items []json.RawMessage
		next := ""
		if err := json.Unmarshal(raw, &page); err != nil {
			return nil, err
		}
		if json.Unmarshal(page[key], &items) != nil || len(page["nextCursor"]) > 0 && json.Unmarshal(page["nextCursor"], &next) != nil {
			return nil, errors.New("the server answers " + method + " with something else")
		}
		all, size = append(all, items...), size+len(raw)
		switch {
		case len(all) > limits.count:
			return nil, fmt.Errorf("the server offers more than %d %s", limits.count, key)
		case size > limits.bytes:
			return nil, fmt.Errorf("the %s of the server have more than %d MiB", key, limits.bytes>>20)
		case next == "":
			return all, nil
		case next == cursor || len(items) == 0:
			return nil, errors.New("the server never ends the list of its " + key)
		}
		cursor = next
	}
}

// toolProblem returns the reason why a tool cannot be used; "" if it can.
func toolProblem(tool *mcp.Tool) string {
	if !regexp.MustCompile(`^[A-Za-z0-9_./-]+$`).MatchString(tool.Name) || len(tool.Name) > maxToolName {
		return "its name is not valid"
	}
	raw, err := json.Marshal(tool)
	if err != nil || len(raw) > maxToolBytes {
		return "its definition has more than 256 KiB"
	}
	if schema, ok := tool.InputSchema.(map[string]any); !ok || schema["type"] != "object" {
		return "the schema of its input is not that of an object"
	}
	return ""
}

// ping checks that the server answers. An error response is an answer too, because the newer generation of the protocol has no
// ping.
func (c *connection) ping(ctx context.Context) error {
	err := c.session.Ping(ctx, nil)
	if _, answered := errors.AsType[*jsonrpc.Error](err); answered {
		return nil
	}
	return err
}

// close closes the session, and the link if that takes too long. Calls in flight fail.
func (c *connection) close() {
	go func() { _ = c.session.Close() }() // waits for calls in flight until the link is closed
	timer := time.NewTimer(endGrace)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		c.link.close()
		<-c.done
	}
}

// serverOf returns the name and version that a server reports.
func (c *connection) serverOf() string {
	info := c.session.InitializeResult().ServerInfo
	if info == nil {
		return ""
	}
	return info.Name + " " + info.Version
}

// options returns the options of a client that answers requests of the server during calls. changed is called when the server
// reports changed lists; may be nil. The client does not offer roots, because the definition determines what a server may access.
func options(fs *pendingCalls, changed func(ChangeKind)) *mcp.ClientOptions {
	caps := &mcp.ClientCapabilities{
		Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}},
		Sampling:    &mcp.SamplingCapabilities{},
	}
	caps.AddExtension(tasksExtension, nil)
	o := &mcp.ClientOptions{
		Capabilities: caps, Logger: slog.New(slog.DiscardHandler), ProgressNotificationHandler: fs.onProgress,
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	}
	if changed != nil {
		o.ToolListChangedHandler = func(context.Context, *mcp.ToolListChangedRequest) { changed(ToolsChanged) }
		o.ResourceListChangedHandler = func(context.Context, *mcp.ResourceListChangedRequest) { changed(ResourcesChanged) }
		o.PromptListChangedHandler = func(context.Context, *mcp.PromptListChangedRequest) { changed(PromptsChanged) }
	}
	return o
}

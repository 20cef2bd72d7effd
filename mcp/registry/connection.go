package registry

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"regexp"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// olderVersion is the newest version of the protocol that begins with initialize.
	olderVersion = "2025-11-25"
	// maxTools bounds the list of tools of a server.
	maxTools = 10_000
	// maxToolName and maxToolBytes bound the name and the whole definition of a tool.
	maxToolName, maxToolBytes = 128, 256 << 10
	// endGrace is how long a session may take to say goodbye, and a process to end after each hint.
	endGrace = 2 * time.Second
)

// link is the way to a server, below the protocol.
type link interface {
	mcp.Transport
	// end closes the way. It may be called more than once.
	end()
	// tail is the end of what a process wrote to stderr, with secrets hidden; "" for a URL.
	tail() string
	// ended tells why the way is closed when it was not end that closed it; "" when that is unknown.
	ended() string
}

// connection is a session with a server.
type connection struct {
	session *mcp.ClientSession
	link    link
	// done is closed when the session is over and its link closed, for whatever reason.
	done chan struct{}
}

// opening is how a connection is opened.
type opening struct {
	// open makes a link; its errors are final.
	open    func() (link, error)
	options *mcp.ClientOptions
}

// connect opens a session. A server that is confused by the newer generation of the protocol is asked again in the
// older one, on a link of its own, after half of the time that there is.
func connect(ctx context.Context, within time.Duration, o opening) (*connection, error) {
	first, cancel := context.WithTimeout(ctx, within/2)
	defer cancel()
	l, err := o.open()
	if err != nil {
		return nil, err
	}
	c, err := handshake(first, l, o.options, "")
	if err == nil || ctx.Err() != nil {
		return c, err
	}
	if l, err = o.open(); err != nil {
		return nil, err
	}
	return handshake(ctx, l, o.options, olderVersion)
}

// handshake opens a session of a generation, or ends the link.
func handshake(ctx context.Context, l link, options *mcp.ClientOptions, version string) (*connection, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "orch", Version: "1"}, options)
	// The SDK reads for as long as the session lives, but not all that it does ends with ctx.
	stop := context.AfterFunc(ctx, l.end)
	session, err := client.Connect(ctx, l, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		l.end()
		return nil, explain(err, l)
	}
	c := &connection{session: session, link: l, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		_ = session.Wait() // who uses the session learns more
		l.end()
		_ = session.Close() // it is over, but the SDK listens for changes until then
	}()
	return c, nil
}

// explain adds what is known of the link to an error.
func explain(err error, l link) error {
	if reason := l.ended(); reason != "" {
		err = errors.Join(errors.New(reason), err)
	}
	return err
}

// tools lists the tools of the server. Those that nobody could use are left out, and refused is told why (S1-088).
func (c *connection) tools(ctx context.Context, refused func(tool, reason string)) ([]*mcp.Tool, error) {
	if caps := c.session.InitializeResult().Capabilities; caps == nil || caps.Tools == nil {
		return nil, nil
	}
	var all []*mcp.Tool
	known := map[string]bool{}
	for tool, err := range c.session.Tools(ctx, nil) {
		if err != nil {
			return nil, explain(err, c.link)
		}
		if len(all) == maxTools {
			return nil, errors.New("the server offers more than 10000 tools")
		}
		reason := unusable(tool)
		if reason == "" && known[tool.Name] {
			reason = "another one has the same name"
		}
		if reason != "" {
			refused(tool.Name[:min(len(tool.Name), maxToolName)], reason)
			continue
		}
		known[tool.Name] = true
		all = append(all, tool)
	}
	return all, nil
}

// unusable says why a tool cannot be used; "" when it can.
func unusable(tool *mcp.Tool) string {
	if !regexp.MustCompile(`^[A-Za-z0-9_./-]+$`).MatchString(tool.Name) || len(tool.Name) > maxToolName {
		return "its name is none"
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

// call calls a tool. Errors of the server and of the way to it are as the SDK reports them.
func (c *connection) call(ctx context.Context, tool string, args json.RawMessage) (*mcp.CallToolResult, error) {
	params := &mcp.CallToolParams{Name: tool}
	if len(args) > 0 {
		params.Arguments = args
	}
	return c.session.CallTool(ctx, params)
}

// ping asks for a sign of life. An error that the server itself answers is one too: the newer generation of the
// protocol has no ping.
func (c *connection) ping(ctx context.Context) error {
	err := c.session.Ping(ctx, nil)
	if _, answered := errors.AsType[*jsonrpc.Error](err); answered {
		return nil
	}
	return err
}

// close says goodbye, and ends the link when that takes too long. Calls in flight fail.
func (c *connection) close() {
	go func() { _ = c.session.Close() }() // it waits for calls in flight, which only the end of the link ends
	timer := time.NewTimer(endGrace)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		c.link.end()
		<-c.done
	}
}

// serverOf is the name and version that a server gives itself.
func (c *connection) serverOf() string {
	info := c.session.InitializeResult().ServerInfo
	if info == nil {
		return ""
	}
	return info.Name + " " + info.Version
}

// quiet options are those of a client that only wants to know about changed tools.
func quiet(changed func()) *mcp.ClientOptions {
	options := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}, Logger: slog.New(slog.DiscardHandler)}
	if changed != nil {
		options.ToolListChangedHandler = func(context.Context, *mcp.ToolListChangedRequest) { changed() }
	}
	return options
}

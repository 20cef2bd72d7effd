package node

import (
	"context"
	"net/http"
	"strings"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/httpapi"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/receiver"
)

// newReceiver returns a receiver that submits to the orchestrator.
func (h *host) newReceiver() *receiver.Receiver {
	root := ""
	if h.cfg.local() {
		root = h.executor.root.Name()
	}
	return receiver.New(receiver.Config{
		Tasks: h.orch, Secrets: h.store, Feeds: h.feeds, Open: opens(h, bus.HooksJournal, ofState), Root: root, URL: h.hookURL, Redact: h.redactText, Clock: h.cfg.wall(), Logger: h.cfg.logger(),
	})
}

// hookURL returns the URL at which a hook takes deliveries; empty if the node does not serve HTTP.
func (h *host) hookURL(name string) string {
	own := h.urlOf(httpapi.HooksPath + name)
	if public := strings.TrimRight(h.cfg.Faces.PublicURL, "/"); own != "" && public != "" {
		return public + httpapi.HooksPath + name
	}
	return own
}

// readHooks reads the hooks, before clients can change them and deliveries arrive.
func (n *Node) readHooks(ctx context.Context) error { return n.receiver.Start(ctx) }

// openFeeds opens a connection to the streams of an external server.
func (h *host) openFeeds(ctx context.Context) error {
	if h.server != nil {
		return nil
	}
	c, err := h.connect(ctx, "hooks")
	if err == nil {
		h.feeds = feeds{c.Feeds()}
	}
	return err
}

// feeds are the streams of an external server for the receiver.
type feeds struct{ *bus.Feeds }

// Open implements receiver.Feeds.
func (f feeds) Open(ctx context.Context, c hooks.Consumer) (receiver.Feed, error) {
	one, err := f.Feeds.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	return feed{one}, nil
}

// feed hands out messages to the receiver.
type feed struct{ *bus.Feed }

// Next implements receiver.Feed.
func (f feed) Next(ctx context.Context) (receiver.Arrival, error) {
	m, err := f.Feed.Next(ctx)
	if m == nil { // a nil pointer in the interface would count as a message
		return nil, err
	}
	return m, nil
}

// runHooks takes the messages of streams.
func (n *Node) runHooks(ctx context.Context) error { return n.runService(ctx, n.receiver.Run) }

// hookPaths returns the handler of the deliveries.
func (fa *face) hookPaths() http.Handler {
	return httpapi.Hooks(httpapi.HooksConfig{Receive: fa.receiver.Receive, Operator: fa.isOperator})
}

// isOperator reports whether a token is one of an operator, for all tools.
func (fa *face) isOperator(ctx context.Context, token string) bool {
	who, _, err := fa.cfg.Faces.Tokens.Verify(ctx, token)
	return err == nil && who.Role == server.Operator && len(who.Show.Tools) == 0 && !who.Show.ReadOnly
}

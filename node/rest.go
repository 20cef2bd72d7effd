package node

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi/rest"
	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/web"
)

// rest returns the HTTP API and the page. They use the same authentication as MCP.
func (fa *face) rest(face *server.Server) (*rest.Server, error) {
	return rest.New(rest.Config{
		API: fa.audited(audit.FaceHTTP), Authenticator: restAuthenticator{face, fa.credentials.tokens, fa.host}, Refused: fa.refusedRequest, Rebound: server.Rebound, Blob: fa.store.Get,
		Policy:  &restPolicy{executor: fa.executor, api: fa.commands(), redact: fa.redactText},
		Agents:  restAgents{fa.agentDesk.agents, fa.mailroom.messages.Waiting, fa.redactText},
		Work:    restWork{fa.agentDesk},
		Servers: restServers{NewAdmin(fa.asker), fa.entries, fa.redactText},
		Bulk:    &restBulk{host: fa.host, api: fa.audited(audit.FaceHTTP)},
		Metrics: (&monitor{host: fa.host}).write, Redact: fa.redactText, Feed: fa.feed, Logins: fa.logins, Files: web.Files(), Logger: fa.cfg.logger(),
	})
}

// entries returns the tools that the external MCP servers of the node offer.
func (fa *face) entries() []gateway.Entry {
	if fa.executor.gateway == nil {
		return nil
	}
	return fa.executor.gateway.Entries()
}

// redactText removes secrets from a text.
func (h *host) redactText(text string) string {
	clean, _ := h.executor.policy.Redact([]byte(text))
	return string(clean)
}

// restAuthenticator authenticates clients of the HTTP API with the MCP server, which counts their requests.
type restAuthenticator struct {
	face   *server.Server
	tokens *bus.Tokens
	host   *host
}

// Authenticate implements rest.Authenticator.
func (a restAuthenticator) Authenticate(ctx context.Context, token string) (rest.Client, error) {
	b, err := a.face.ToolCaller(ctx, token)
	if err != nil {
		return nil, err
	}
	return restClient{b, a.host}, nil
}

// Client implements rest.Authenticator.
func (a restAuthenticator) Client(l rest.Login) (rest.Client, error) {
	who := server.Identity{Name: l.Name, Role: server.Role(l.Role)}
	if l.Token != "" {
		t, err := a.tokens.Token(l.Token)
		if err != nil || t.ID != l.Token {
			return nil, fault.New(fault.Unauthorized, "the token of this login has ended").WithHint("orch ui makes another link")
		}
		who = identityOf(t)
	}
	return restClient{a.face.CallerFor(who), a.host}, nil
}

// While implements rest.Authenticator.
func (a restAuthenticator) While(ctx context.Context, l rest.Login) (valid context.Context, cancel context.CancelFunc) {
	if l.Token == "" {
		return context.WithCancel(ctx)
	}
	return a.tokens.IDContext(ctx, l.Token)
}

// restClient is a client of the HTTP API.
type restClient struct {
	*server.ToolCaller

	host *host
}

// Role implements rest.Client.
func (c restClient) Role() rest.Role { return rest.Role(c.ToolCaller.Role()) }

// feedFromLists passes the changes of lists on to the listeners of the HTTP API, if HTTP is configured.
func (h *host) feedFromLists() {
	if h.cfg.Faces.HTTP == "" {
		return
	}
	feed := rest.NewFeed(rest.FeedConfig{
		Now: h.clock, Lag: func() time.Duration { return h.orch.Lag() }, Stuck: func() int { return h.orch.CountStuck() },
	})
	h.feed, h.lists = feed, feedingLists{h.lists, feed}
	h.onStop(func(context.Context) error { feed.Close(); return nil })
}

// feedingLists is an index of lists that passes changes on to the listeners of the HTTP API.
type feedingLists struct {
	orchestrator.Lists

	feed *rest.Feed
}

// Put implements orchestrator.Lists.
func (l feedingLists) Put(line api.Summary, seq uint64) {
	l.Lists.Put(line, seq)
	l.feed.Changed(line)
}

// approvalPage returns the URL of the page of an approval; empty if the node does not serve HTTP.
func (h *host) approvalPage(id string) string { return h.pageOf("approvals", id) }

// pageOf returns the URL at which people find a page; empty if the node does not serve HTTP.
func (h *host) pageOf(kind, id string) string {
	own := h.urlOf(rest.Pages)
	if own == "" {
		return ""
	}
	if public := strings.TrimRight(h.cfg.Faces.PublicURL, "/"); public != "" {
		own = public + rest.Pages
	}
	return own + kind + "/" + url.PathEscape(id)
}

// PageURL returns the URL of the page; empty if the node does not serve HTTP.
func (fa *face) PageURL() string { return fa.urlOf(rest.Pages) }

package node

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/server"
)

// withOrigin gives the context of an HTTP request its origin: the address of the client and the token that it shows.
func (fa *face) withOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o := audit.Origin{}
		if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
			o.Source = host
		}
		if fields := strings.Fields(r.Header.Get("Authorization")); len(fields) == 2 && fa.credentials.tokens != nil { // scheme and token
			if t, err := fa.credentials.tokens.VerifyToken(fields[1]); err == nil {
				o.Actor, o.Credential = identityOf(t).Name, t.ID
			}
		}
		next.ServeHTTP(w, r.WithContext(audit.WithOrigin(r.Context(), o)))
	})
}

// The act of somebody who shows a credential.
const actAuthenticate = "authenticate"

// auditedCredentials records that tokens were refused.
type auditedCredentials struct {
	server.Tokens

	host *host
}

// Verify implements server.Tokens.
func (c auditedCredentials) Verify(ctx context.Context, secret string) (server.Identity, time.Time, error) {
	who, expires, err := c.Tokens.Verify(ctx, secret)
	if err != nil {
		c.host.notAuthenticated(audit.FaceHTTP, audit.OriginOf(ctx).Source, err)
	}
	return who, expires, err
}

// notAuthenticated records that a credential was refused.
func (h *host) notAuthenticated(face, source string, why error) {
	if acts := h.acts.Load(); acts != nil {
		acts.Refused(audit.Act{Actor: "unknown", Face: face, Source: source, Name: actAuthenticate}, why)
	}
}

// refusedConnection records that a connection to the embedded NATS server was refused.
func (h *host) refusedConnection(source string) {
	h.notAuthenticated(audit.FaceBus, source, fault.New(fault.Unauthorized, "the credential of a connection is not valid"))
}

// refusedRequest records a request that was refused before it reached the API, at the HTTP API.
func (fa *face) refusedRequest(ctx context.Context, who, operation string, why error) {
	fa.recordRefusal(ctx, Refusal{By: who, Error: fault.From(why), face: audit.FaceHTTP, operation: "http." + operation})
}

// refusedOnBus records a request that was refused before it reached the API, over the bus.
func (h *host) refusedOnBus(ctx context.Context, method string, why error) {
	o := audit.OriginOf(ctx)
	h.recordRefusal(ctx, Refusal{By: o.Actor, Error: fault.From(why), face: audit.FaceBus, operation: "bus." + method})
}

// auditedAgents records what is done with registered agents.
type auditedAgents struct {
	agents.Service

	host *host
	face string
}

// Register implements agents.Service.
func (a auditedAgents) Register(ctx context.Context, in agents.Registration) (out agents.Registered, err error) {
	act := audit.Act{Actor: in.By, Face: a.face, Name: "agent.register", Target: in.Name}
	err = a.host.act(ctx, act, true, func() (string, *audit.Link, error) {
		out, err = a.Service.Register(ctx, in)
		return out.ID, nil, err
	})
	return out, err
}

// Collect implements agents.Service. It hands out the credential of an agent.
func (a auditedAgents) Collect(ctx context.Context, in agents.Collection) (out agents.Collected, err error) {
	act := audit.Act{Actor: in.By, Face: a.face, Name: "agent.collect", Target: in.Agent}
	err = a.host.act(ctx, act, true, func() (string, *audit.Link, error) {
		out, err = a.Service.Collect(ctx, in)
		return "", nil, err
	})
	return out, err
}

// Remove implements agents.Service.
func (a auditedAgents) Remove(ctx context.Context, in agents.Removal) (out agents.Member, err error) {
	act := audit.Act{Actor: in.By, Face: a.face, Name: "agent.remove", Target: in.Agent}
	err = a.host.act(ctx, act, true, func() (string, *audit.Link, error) {
		out, err = a.Service.Remove(ctx, in)
		return out.ID, nil, err
	})
	return out, err
}

// serverActs are the methods about MCP servers that change something.
func serverActs() []string { return []string{"enable", "disable", "reload", "accept"} }

// auditedServers returns methods about MCP servers that record what they change.
func (h *host) auditedServers(methods localMethods) localMethods {
	all := localMethods{}
	for name, do := range methods {
		if !slices.Contains(serverActs(), name) {
			all[name] = do
			continue
		}
		all[name] = func(ctx context.Context, request []byte) (answer []byte, err error) {
			err = h.act(ctx, serverAct(name, request), true, func() (string, *audit.Link, error) {
				answer, err = do(ctx, request)
				return "", nil, err
			})
			return answer, err
		}
	}
	return all
}

// serverAct returns the act of a request about MCP servers.
func serverAct(name string, request []byte) audit.Act {
	var in struct {
		Name, Server, By string
		Tools            map[string]string
	}
	_ = json.Unmarshal(request, &in) // the method refuses what cannot be decoded
	act := audit.Act{Actor: in.By, Face: audit.FaceProcess, Name: "mcp." + name, Target: in.Name + in.Server, Params: map[string]string{}}
	maps.Copy(act.Params, in.Tools)
	return act
}

// auditedLink records that a link to the page was made.
func (fa *face) auditedLink(ctx context.Context, r LinkRequest) (link Link, err error) {
	act := audit.Act{Face: audit.FaceBus, Name: "page.link", Target: r.Token, Params: map[string]string{"role": r.Role}}
	err = fa.act(ctx, act, true, func() (string, *audit.Link, error) {
		link, err = fa.Link(ctx, r)
		return "", nil, err
	})
	return link, err
}

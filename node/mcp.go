package node

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi"
	"github.com/orch-dev/orch/httpapi/rest"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/rpc"
)

// mcpPath is the HTTP path of the MCP endpoint.
const mcpPath = "/mcp"

// metadataPath is the path of the OAuth metadata, which tells clients how to authorize themselves.
const metadataPath = "/.well-known/oauth-protected-resource" + mcpPath

// face is the interface for clients over HTTP: MCP, plain JSON-RPC and agents.
type face struct {
	*host

	credentials  *credentials
	mailroom     *mailroom
	agentDesk    *agentDesk
	databaseHost *databaseHost
	journal      *journal
	// asker serves requests about sessions with subscriptions.
	asker Asker
	// started is closed when startFace has ended.
	started chan struct{}
	// logins are the browsers that are logged in.
	logins *rest.Logins
}

// startFace serves MCP and the other HTTP paths, if HTTP is configured.
func (fa *face) startFace(ctx context.Context) error {
	defer close(fa.started)
	if fa.cfg.Faces.HTTP == "" {
		return nil
	}
	if fa.cfg.Faces.Tokens == nil && fa.cfg.Faces.HTTPOptional {
		return nil
	}
	if fa.cfg.Faces.Tokens == nil {
		return fault.New(fault.ValidationError, "MCP over HTTP needs tokens").WithField("http")
	}
	web, origin, err := fa.listen(ctx)
	if err != nil || web == nil {
		return err
	}
	cfg := fa.faceConfig()
	cfg.HTTP.ResourceMetadata = origin + metadataPath
	face, err := server.New(cfg)
	if err != nil {
		return errors.Join(err, web.close(ctx))
	}
	owner, err := fa.rpc(face)
	if err != nil {
		face.Close()
		return errors.Join(err, web.close(ctx))
	}
	pages, err := fa.rest(face)
	if err != nil {
		face.Close()
		return errors.Join(err, web.close(ctx))
	}
	fa.origin.Store(&origin)
	fa.serveFace(face, owner, pages, web)
	return nil
}

// listen returns the server for HTTP clients, and the origin that clients see; nil if HTTP is optional and its address in use. In a
// cluster, clients connect to the front of a member; the server then gets the tunnels from the fronts of other members.
func (fa *face) listen(ctx context.Context) (w *webServer, origin string, err error) {
	if fa.cfg.front != nil {
		listener, err := rpc.ListenTunnel(fa.requests, bus.TunnelSubject, rpc.MaxTunnels)
		if err != nil {
			return nil, "", err
		}
		return newWebServer(listener, fa.cfg), fa.cfg.front.origin, nil
	}
	switch {
	case fa.web != nil:
		return fa.web, fa.web.origin, nil
	case fa.server != nil: // openWeb has reported that the address is in use
		return nil, "", nil
	}
	listener, err := listenHTTP(ctx, fa.cfg)
	if err != nil || listener == nil {
		return nil, "", err
	}
	w = newWebServer(listener, fa.cfg)
	return w, w.origin, nil
}

// listenHTTP listens at the address of the settings. It returns nil if the settings have no address, or if the address is in use
// and optional.
func listenHTTP(ctx context.Context, cfg Config) (net.Listener, error) {
	if cfg.Faces.HTTP == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Faces.HTTP)
	if err != nil && cfg.Faces.HTTPOptional {
		cfg.logger().LogAttrs(ctx, slog.LevelWarn, "mcp_not_served", slog.String("address", cfg.Faces.HTTP), slog.String("hint", "another node is there; choose an address with --http"))
		return nil, nil //nolint:nilnil // as documented
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "nothing can listen at "+cfg.Faces.HTTP).WithField("http").
			WithHint("another node may be there; choose another address with --http, or --http off")
	}
	return l, nil
}

func (fa *face) faceConfig() server.Config {
	cfg := server.Config{
		API: fa.audited(audit.FaceMCP), Catalogue: fa.executor.catalogue,
		Root: fa.executor.root.Name(), Version: fa.cfg.Version, Logger: fa.cfg.logger(), Key: fa.credentials.faceKey,
		Stores: server.Stores{
			Sessions: fa.store, Outputs: &Outputs{Tree: fa.executor.tree, files: taskFiles{fa.host}}, Outside: fa.Outside(), Agents: NewAgentFiles(fa.executor.root), Inboxes: fa.mailroom.messages,
			Subscriptions: NewSubscriptions(fa.asker),
		},
		Hooks: server.Hooks{
			Unlogged: fa.unlogged, Direct: fa.direct, Refused: fa.refusedByFace,
			ShareOf: fa.credentials.shareOf, Reveal: fa.agentDesk.reveal,
		},
		Limits:  server.Limits{SyncWait: fa.cfg.Faces.SyncWait},
		Offer:   server.Offer{PortableNames: fa.cfg.Faces.PortableNames},
		Consent: server.Consent{Writes: fa.cfg.Faces.Writes, OutsideApprovals: fa.cfg.Faces.OutsideApprovals, ApprovalPage: fa.approvalPage},
		HTTP:    server.HTTP{Tokens: fa.cfg.Faces.Tokens},
	}
	if fa.cfg.Faces.Face != nil {
		fa.cfg.Faces.Face(&cfg)
	}
	return cfg
}

// refusedByFace records a call that the MCP server has refused before it reached the orchestrator.
func (fa *face) refusedByFace(who, tool string, args json.RawMessage, why error) {
	r := Refusal{By: who, Tool: tool, Args: args, Error: fault.From(why), face: audit.FaceMCP}
	if tool == "" {
		r.operation = "request"
	}
	fa.recordRefusal(context.Background(), r)
}

// sendBuffer is the size of the kernel's send buffer for one connection, in bytes. By default, the kernel would buffer several
// MiB for each of thousands of streams. Once its limit for all connections is reached, every connection of the machine stalls.
const sendBuffer = 128 << 10

// bounded sets the send buffer of a connection.
func bounded(ctx context.Context, conn net.Conn) context.Context {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // on an error the default applies
	}
	return ctx
}

// serveFace starts to serve HTTP until the node stops. Streams that are still open then are aborted.
func (fa *face) serveFace(face *server.Server, owner http.Handler, pages *rest.Server, web *webServer) {
	mux := http.NewServeMux()
	mux.Handle(mcpPath, fa.credentials.whileValid(face.Handler()))
	mux.Handle(httpapi.Path, fa.credentials.endingWithToken(owner))
	mux.Handle(rest.Prefix+"/", fa.credentials.endingWithToken(pages))
	mux.Handle(rest.Pages, pages)
	mux.Handle(rest.MetricsPath, fa.credentials.endingWithToken(pages))
	mux.Handle(metadataPath, server.Metadata(fa.FaceURL()))
	cards := fa.agentDesk.cards(face)
	mux.Handle("GET "+agents.CardPath, cards)
	mux.Handle("GET "+agents.AgentCardPath, cards)
	fa.meter.Store(face)
	paths := fa.agentDesk.agentPaths()
	mux.Handle("/agents/", paths)
	mux.Handle(agents.TasksPath, fa.credentials.endingWithToken(paths)) // an agent that is removed while it waits gets no call
	mux.Handle(httpapi.HooksPath, fa.hookPaths())
	addProbes(mux, fa.unready)
	all := fa.withOrigin(rest.WithErrors(mux))
	web.serveStarted(all)
	follow := func() {}
	if fa.cfg.front != nil {
		follow = fa.cfg.front.serveLocally(all, fa.requests.AwaitLease)
	}
	fa.onStop(func(ctx context.Context) error {
		follow()
		face.Close()
		pages.Close()
		return web.close(ctx)
	})
}

// FaceURL returns the URL of the MCP endpoint; empty if the node does not serve HTTP.
func (fa *face) FaceURL() string { return fa.urlOf(mcpPath) }

// RPCURL returns the URL of the plain JSON-RPC endpoint; empty if the node does not serve HTTP.
func (fa *face) RPCURL() string { return fa.urlOf(httpapi.Path) }

// urlOf returns the URL of an HTTP path; empty if the node does not serve HTTP.
func (h *host) urlOf(path string) string {
	if origin := h.origin.Load(); origin != nil {
		return *origin + path
	}
	return ""
}

// Outside returns the resources and prompts of external MCP servers; nil if the node uses none.
func (fa *face) Outside() server.Outside {
	if fa.executor.gateway == nil {
		return nil
	}
	return fa.executor.gateway
}

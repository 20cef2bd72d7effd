package node

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi"
	"github.com/orch-dev/orch/internal/httplimit"
	"github.com/orch-dev/orch/mcp/server"
)

// mcpPath is where the MCP face is served over HTTP.
const mcpPath = "/mcp"

// metadataPath is where clients hear how to authorise themselves.
const metadataPath = "/.well-known/oauth-protected-resource" + mcpPath

// startFace serves the MCP face over HTTP, when that is wanted.
func (n *Node) startFace(ctx context.Context) error {
	if n.cfg.HTTP == "" {
		return nil
	}
	if n.cfg.Tokens == nil && n.cfg.HTTPOptional {
		return nil
	}
	if n.cfg.Tokens == nil {
		return fault.New(fault.ValidationError, "MCP over HTTP needs tokens").WithField("http")
	}
	listener, origin, err := n.listen(ctx)
	if err != nil || listener == nil {
		return err
	}
	cfg := n.faceConfig()
	cfg.ResourceMetadata = origin + metadataPath
	face, err := server.New(cfg)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	rpc, err := n.rpc(face)
	if err != nil {
		face.Close()
		return errors.Join(err, listener.Close())
	}
	n.origin.Store(&origin)
	n.serveFace(face, rpc, listener)
	return nil
}

// listen listens where clients come. To a member of a cluster they come through its front, and through tunnels from those of others.
func (n *Node) listen(ctx context.Context) (l net.Listener, origin string, err error) {
	if n.cfg.front != nil {
		l, err = bus.ListenTunnel(n.requests, bus.TunnelSubject, bus.MaxTunnels)
		return l, n.cfg.front.origin, err
	}
	if l, err = listenHTTP(ctx, n.cfg); err != nil || l == nil {
		return nil, "", err
	}
	return l, "http://" + l.Addr().String(), nil
}

// listenHTTP listens at the address of the settings; nil when there is none, or it is taken and need not be had.
func listenHTTP(ctx context.Context, cfg Config) (net.Listener, error) {
	if cfg.HTTP == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.HTTP)
	if err != nil && cfg.HTTPOptional {
		cfg.logger().LogAttrs(ctx, slog.LevelWarn, "mcp_not_served", slog.String("address", cfg.HTTP), slog.String("hint", "another node is there; choose an address with --http"))
		return nil, nil //nolint:nilnil // as documented
	}
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "nothing can listen at "+cfg.HTTP).WithField("http").
			WithHint("another node may be there; choose another address with --http, or --http off")
	}
	return l, nil
}

func (n *Node) faceConfig() server.Config {
	cfg := server.Config{
		API: auditedAPI{n.orch, n.refused}, Refused: n.refusedByFace, Catalogue: n.executor.catalogue, Root: n.executor.root.Name(), Version: n.cfg.Version, Logger: n.cfg.logger(),
		Sessions: n.store, Key: n.faceKey, Outside: n.Outside(), Inboxes: n.messages, Reveal: n.reveal, Subscriptions: NewSubscriptions(n),
		Tokens: n.cfg.Tokens, Outputs: n.executor.tree, Writes: n.cfg.Writes, SyncWait: n.cfg.SyncWait, OutsideApprovals: n.cfg.OutsideApprovals,
		PortableNames: n.cfg.PortableNames, Unlogged: n.unlogged, Direct: n.direct, ShareOf: n.shareOf,
	}
	if n.cfg.Face != nil {
		n.cfg.Face(&cfg)
	}
	return cfg
}

// refusedByFace takes a call that the face has refused itself.
func (n *Node) refusedByFace(who, tool string, args json.RawMessage, why error) {
	n.refused(Refusal{By: who, Tool: tool, Args: args, Error: fault.From(why)})
}

// sendBuffer is how much the system keeps of what a client has not read, in bytes. By itself it would keep some MiB of each of
// thousands of streams, and when its own limit for all connections is reached, every connection of the machine stands still.
const sendBuffer = 128 << 10

// bounded bounds what the system keeps for a connection.
func bounded(ctx context.Context, conn net.Conn) context.Context {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // else it keeps what it keeps
	}
	return ctx
}

// serveFace serves until the node stops. Streams stay open as long as their clients want, so they are cut then.
func (n *Node) serveFace(face *server.Server, rpc http.Handler, listener net.Listener) {
	mux := http.NewServeMux()
	mux.Handle(mcpPath, n.whileGood(face.Handler()))
	mux.Handle(httpapi.Path, n.endingWithToken(rpc))
	mux.Handle(metadataPath, server.Metadata(n.FaceURL()))
	cards := n.cards(face)
	mux.Handle("GET "+agents.CardPath, cards)
	mux.Handle("GET "+agents.AgentCardPath, cards)
	n.meter.Store(face)
	paths := n.agentPaths()
	mux.Handle("/agents/", paths)
	mux.Handle(agents.TasksPath, n.endingWithToken(paths)) // who is removed while it waits gets no call
	web := httplimit.NewServer(mux, n.cfg.HTTPLimits)
	web.ErrorLog, web.ConnContext = slog.NewLogLogger(n.cfg.logger().Handler(), slog.LevelDebug), bounded
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }()
	follow := func() {}
	if n.cfg.front != nil {
		follow = n.cfg.front.lead(mux, n.requests.AwaitLease)
	}
	n.onStop(func(ctx context.Context) error {
		follow()
		face.Close()
		ctx, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		defer stop()
		if web.Shutdown(ctx) != nil {
			_ = web.Close()
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
}

// FaceURL is where MCP clients find the node; empty when it does not serve HTTP.
func (n *Node) FaceURL() string { return n.at(mcpPath) }

// RPCURL is where bare JSON-RPC is served; empty when the node does not serve HTTP.
func (n *Node) RPCURL() string { return n.at(httpapi.Path) }

// at is where a path is served over HTTP; empty when that is not.
func (n *Node) at(path string) string {
	if origin := n.origin.Load(); origin != nil {
		return *origin + path
	}
	return ""
}

// Outside gives faces the resources and prompts of outside servers; nil when the node uses none.
func (n *Node) Outside() server.Outside {
	if n.executor.gateway == nil {
		return nil
	}
	return n.executor.gateway
}

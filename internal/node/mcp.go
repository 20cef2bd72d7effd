package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi"
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
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", n.cfg.HTTP)
	if err != nil && n.cfg.HTTPOptional {
		n.cfg.logger().LogAttrs(ctx, slog.LevelWarn, "mcp_not_served", slog.String("address", n.cfg.HTTP), slog.String("hint", "another node is there; choose an address with --http"))
		return nil
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "nothing can listen at "+n.cfg.HTTP).WithField("http").
			WithHint("another node may be there; choose another address with --http, or --http off")
	}
	origin := "http://" + listener.Addr().String()
	n.faceURL = origin + mcpPath
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
	n.rpcURL = origin + httpapi.Path
	n.serveFace(face, rpc, listener)
	return nil
}

func (n *Node) faceConfig() server.Config {
	cfg := server.Config{
		API: n.orch, Catalogue: n.executor.catalogue, Root: n.executor.root.Name(), Version: n.cfg.Version, Logger: n.cfg.logger(),
		Sessions: n.store, Key: n.faceKey, Outside: n.Outside(), Inboxes: n.messages, Reveal: n.reveal, Subscriptions: NewSubscriptions(n),
		Tokens: n.cfg.Tokens, Outputs: n.executor.tree, SyncWait: n.cfg.SyncWait, OutsideApprovals: n.cfg.OutsideApprovals,
		PortableNames: n.cfg.PortableNames, Unlogged: n.unlogged, Direct: n.direct,
	}
	if n.cfg.Face != nil {
		n.cfg.Face(&cfg)
	}
	return cfg
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
	mux.Handle(metadataPath, server.Metadata(n.faceURL))
	n.meter.Store(face)
	paths := n.agentPaths()
	mux.Handle("/agents/", paths)
	mux.Handle(agents.TasksPath, n.endingWithToken(paths)) // who is removed while it waits gets no call
	web := &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(n.cfg.logger().Handler(), slog.LevelDebug), ConnContext: bounded,
	}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }()
	n.onStop(func(ctx context.Context) error {
		face.Close()
		ctx, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		defer stop()
		if web.Shutdown(ctx) != nil {
			_ = web.Close()
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
}

// FaceURL is where MCP clients find the node; empty when it does not serve HTTP.
func (n *Node) FaceURL() string { return n.faceURL }

// RPCURL is where bare JSON-RPC is served; empty when the node does not serve HTTP.
func (n *Node) RPCURL() string { return n.rpcURL }

// Outside gives faces the resources and prompts of outside servers; nil when the node uses none.
func (n *Node) Outside() server.Outside {
	if n.executor.gateway == nil {
		return nil
	}
	return n.executor.gateway
}

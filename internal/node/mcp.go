package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/server"
)

// mcpPath is where the MCP face is served over HTTP.
const mcpPath = "/mcp"

// startFace serves the MCP face over HTTP, when that is wanted.
func (n *Node) startFace(ctx context.Context) error {
	if n.cfg.HTTP == "" {
		return nil
	}
	face, err := server.New(n.faceConfig())
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", n.cfg.HTTP)
	if err != nil {
		face.Close()
		return fault.Wrap(fault.Unavailable, err, "nothing can listen at "+n.cfg.HTTP).WithField("http").
			WithHint("another node may be there; choose another address with --http, or --http off")
	}
	n.faceURL = "http://" + listener.Addr().String() + mcpPath
	n.serveFace(face, listener)
	return nil
}

func (n *Node) faceConfig() server.Config {
	cfg := server.Config{
		API: n.orch, Catalogue: n.hands.catalogue, Root: n.hands.root.Name(), Version: n.cfg.Version, Logger: n.cfg.logger(),
		Tokens: n.cfg.Tokens,
	}
	if n.cfg.Face != nil {
		n.cfg.Face(&cfg)
	}
	return cfg
}

// serveFace serves until the node stops. Streams stay open as long as their clients want, so they are cut then.
func (n *Node) serveFace(face *server.Server, listener net.Listener) {
	mux := http.NewServeMux()
	mux.Handle(mcpPath, face.Handler())
	web := &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(n.cfg.logger().Handler(), slog.LevelDebug),
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

package node

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/rpc"
)

// credentials manages the tokens of the node.
type credentials struct {
	*host

	tokens *bus.Tokens
	// loaded is nil until tokens is set. Code that may run before startTokens uses loaded.
	loaded atomic.Pointer[bus.Tokens]
	// faceKey signs the state that MCP clients receive with a question and send back with the answer.
	faceKey []byte
}

// startTokens reads the bearer tokens, serves requests about them, and creates the token of the user who runs the node.
func (cr *credentials) startTokens(ctx context.Context) error {
	var err error
	cr.tokens, err = cr.store.OpenTokens(ctx, bus.TokensConfig{Logger: cr.cfg.logger()})
	if err != nil {
		return err
	}
	cr.loaded.Store(cr.tokens)
	cr.onStop(func(context.Context) error { cr.tokens.Close(); return nil })
	c, err := cr.connect(ctx, "tokens")
	if err != nil {
		return err
	}
	end, err := rpc.ServeTokens(c, auditedTokens{cr.tokens, cr.host, audit.FaceBus}, cr.forOperator())
	if err != nil {
		return err
	}
	cr.onStop(closeSoon(end))
	cr.ensureLocalToken(ctx)
	return cr.readKey(ctx)
}

// shareOf returns the identity whose fair share the tasks of who count against; "" means who itself. Nobody submits tasks before
// the tokens are loaded.
func (cr *credentials) shareOf(who string) string {
	if t := cr.loaded.Load(); t != nil {
		return t.ShareOf(who)
	}
	return ""
}

// ensureLocalToken creates the token of the user if it does not exist. An error is only logged, so that a node with a full disk
// can start.
func (cr *credentials) ensureLocalToken(ctx context.Context) {
	if cr.cfg.User == "" {
		return
	}
	if err := (bus.LocalToken{DataDir: cr.cfg.DataDir, User: cr.cfg.User}).Ensure(ctx, cr.tokens, auditedTokens{cr.tokens, cr.host, audit.FaceNode}); err != nil {
		cr.cfg.logger().LogAttrs(ctx, slog.LevelWarn, "local_token_not_made", slog.Any("error", err),
			slog.String("hint", "mend the cause and run: orch token rotate-local"))
	}
}

// readKey reads faceKey if HTTP is configured. It also makes HTTP verify the tokens of the store, unless cfg sets others.
func (cr *credentials) readKey(ctx context.Context) (err error) {
	if cr.cfg.Faces.HTTP == "" {
		return nil
	}
	if cr.cfg.Faces.Tokens == nil {
		cr.cfg.Faces.Tokens = auditedCredentials{identities{cr.tokens}, cr.host}
	}
	cr.faceKey, err = cr.store.FaceKey(ctx)
	return err
}

// Tokens returns the node's list of bearer tokens.
func (cr *credentials) Tokens() *bus.Tokens { return cr.tokens }

var (
	_ server.Tokens   = identities{}
	_ server.Sessions = (*bus.Store)(nil)
)

// identities implements server.Tokens.
type identities struct{ tokens *bus.Tokens }

// Verify implements server.Tokens.
func (i identities) Verify(_ context.Context, secret string) (server.Identity, time.Time, error) {
	t, err := i.tokens.VerifyToken(secret)
	if err != nil {
		return server.Identity{}, time.Time{}, err
	}
	return identityOf(t), t.ExpiresAt, nil
}

// whileValid ends the streams of a client when its token expires; the check at the start of a request does not end them. It does
// not end calls of clients of protocol version 2026-07-28, because the end of such a call would cancel its task.
func (cr *credentials) whileValid(next http.Handler) http.Handler {
	ending := cr.endingWithToken(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stream := r.Header.Get("Mcp-Protocol-Version") < "2026-07-28" || strings.TrimSpace(r.Header.Get("Mcp-Method")) == "subscriptions/listen"
		if stream {
			ending.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// endingWithToken ends each request when its token expires, even if its answer is not written yet.
func (cr *credentials) endingWithToken(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fields := strings.Fields(r.Header.Get("Authorization")); len(fields) == 2 { // scheme and token
			ctx, cancel := cr.tokens.TokenContext(r.Context(), fields[1])
			defer cancel()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// identityOf returns the identity of a token: "agent:NAME" for a token of the role agent, otherwise "user:NAME", which is also
// the identity of that user on the command line (S2-074).
func identityOf(t bus.Token) server.Identity {
	kind := "user:"
	if t.Role == bus.RoleAgent {
		kind = agents.Prefix
	}
	who := server.Identity{
		Name: kind + t.Name, Role: server.Role(t.Role), Show: server.Selection{Tools: t.Tools, ReadOnly: t.ReadOnly},
	}
	if t.Agent != nil {
		who.Agent = t.Agent.ID
	}
	return who
}

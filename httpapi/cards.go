package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
)

// CardsConfig configures Cards.
type CardsConfig struct {
	// Node is the card of the node, which is public.
	Node agents.Card
	// Agent returns the card of an agent for the identity with a secret. It returns UNAUTHORIZED for an invalid secret, FORBIDDEN for
	// an identity that may not see agents, and NOT_FOUND for an unknown agent.
	Agent func(ctx context.Context, secret, name string) (agents.Card, error)
	// Logger logs the causes of internal errors.
	Logger *slog.Logger
}

// Cards returns a handler for agent cards (A2A): the card of the node at agents.CardPath, and those of agents at
// agents.AgentCardPath.
func Cards(cfg CardsConfig) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+agents.CardPath, func(w http.ResponseWriter, r *http.Request) { answerCard(w, r, cfg.Node, "public") })
	mux.HandleFunc("GET "+agents.AgentCardPath, func(w http.ResponseWriter, r *http.Request) {
		card, err := agentCard(cfg, r)
		if err != nil {
			refuse(cfg.Logger, w, r, err)
			return
		}
		answerCard(w, r, card, "private")
	})
	return mux
}

func agentCard(cfg CardsConfig, r *http.Request) (agents.Card, error) {
	secret := bearer(r)
	if secret == "" {
		return agents.Card{}, fault.New(fault.Unauthorized, "there is no bearer token").WithHint("orch token create makes one: Authorization: Bearer …")
	}
	return cfg.Agent(r.Context(), secret, r.PathValue("name"))
}

// answerCard writes a card, or Not Modified if the client has the same card. visibility is public or private, for the header
// Cache-Control.
func answerCard(w http.ResponseWriter, r *http.Request, card agents.Card, visibility string) {
	text, err := json.Marshal(card)
	if err != nil {
		http.Error(w, "the card cannot be encoded", http.StatusInternalServerError)
		return
	}
	sum := sha256.Sum256(text)
	tag := `"` + hex.EncodeToString(sum[:8]) + `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", visibility+", max-age=60")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the client may have disconnected
}

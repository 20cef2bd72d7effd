package crash_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/orch-dev/orch/events"
	settings "github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/modelstest"
	"github.com/orch-dev/orch/test/crash"
)

// thinking is how long the provider takes for an answer that it has billed.
const thinking = 30 * time.Millisecond

// biller is a provider of models outside of the node. It keeps the requests with their bills, by the idempotency key of the request,
// which names the answer. Some answers break off; those are billed as well.
type biller struct {
	server *modelstest.Server

	mu       sync.Mutex
	requests []crash.ModelRequest
	asked    map[string]bool
}

func newBiller(t *testing.T) *biller {
	t.Helper()
	b := &biller{asked: map[string]bool{}}
	b.server = modelstest.NewServer(t, b.answer)
	return b
}

func (b *biller) answer(s modelstest.Seen) modelstest.Reply {
	key := s.Headers.Get("Idempotency-Key")
	first := b.first(key)
	if first && s.N%7 == 3 {
		b.record(s, events.Spent{})
		return modelstest.Reply{Status: http.StatusTooManyRequests, Message: "slow down", Headers: map[string]string{"Retry-After-Ms": "20"}}
	}
	shortened := strings.Contains(string(s.Body), "Write a summary") || strings.Contains(string(s.Body), "This is your summary of it")
	talks := saidTexts.Match(s.Body) // a summary would replace what was said
	if first && s.N%7 == 1 && !shortened && !talks && strings.Contains(string(s.Body), "assistant") {
		b.record(s, events.Spent{})
		return modelstest.Reply{Status: http.StatusRequestEntityTooLarge, Message: "too long"}
	}
	b.record(s, billed())
	wait(thinking)
	reply := modelstest.Reply{Answer: billedAnswer(s)}
	if first && s.N%7 == 5 {
		reply.Fault, reply.At = modelstest.Cut, 1
	}
	return reply
}

// first reports whether an answer is asked for the first time. Only then something goes wrong.
func (b *biller) first(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := !b.asked[key]
	b.asked[key] = true
	return first
}

// record keeps a request with its bill.
func (b *biller) record(s modelstest.Seen, bill events.Spent) {
	digest := sha256.Sum256(s.Body)
	r := crash.ModelRequest{
		Answer: s.Headers.Get("Idempotency-Key"), Digest: hex.EncodeToString(digest[:]), Heard: saidTexts.FindAllString(string(s.Body), -1), Billed: bill,
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests = append(b.requests, r)
}

func (b *biller) all() []crash.ModelRequest {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requests)
}

// billedPrice is the price of all models of the provider, in billionths of a US dollar for each token.
func billedPrice() settings.ModelPrice {
	return settings.ModelPrice{Input: 1000, CacheRead: 100, CacheWrite: 1000, Output: 3000, AsOf: "2026-11-01"}
}

// billed is what each answer costs.
func billed() events.Spent {
	usage, price := modelstest.Said(models.StopEnd).Usage, billedPrice()
	return events.Spent{
		Tokens:  usage.Input + usage.CacheRead + usage.Output,
		NanoUSD: usage.Input*price.Input + usage.CacheRead*price.CacheRead + usage.Output*price.Output,
	}
}

// billedAnswer is the answer to a conversation: two turns with calls, then the end, which also follows a summary.
func billedAnswer(s modelstest.Seen) models.Answer {
	var body struct {
		Messages []struct{ Role string }
	}
	_ = json.Unmarshal(s.Body, &body) // the server has checked it
	answers := 0
	for _, m := range body.Messages {
		if m.Role == "assistant" {
			answers++
		}
	}
	call := func(id, tool string) models.Part {
		return models.Part{Call: &models.Call{ID: id, Name: tool, Args: "{}"}}
	}
	switch {
	case strings.Contains(string(s.Body), "This is your summary of it"):
		return modelstest.Said(models.StopEnd, models.Part{Text: "Done."})
	case strings.Contains(string(s.Body), "Write a summary"):
		return modelstest.Said(models.StopEnd, models.Part{Text: "All calls were made."})
	case answers == 0:
		return modelstest.Said(models.StopCalls, call("call_a", "CRASH_IDEM"), call("call_b", "CRASH_WRITE"))
	case answers == 1:
		return modelstest.Said(models.StopCalls, call("call_c", "CRASH_WRITE"))
	default:
		return modelstest.Said(models.StopEnd, models.Part{Text: "Done."})
	}
}

package crash_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/test/crash"
)

const (
	bellName   = "bell"
	bellSecret = "whsec_YmVsbGJlbGxiZWxsYmVsbGJlbGxiZWxs"
	// ringers deliver at the same time.
	ringers = 2
)

// bell delivers to a hook.
type bell struct {
	load *load
	url  string

	mu       sync.Mutex
	answered []string
}

// startBell creates a hook that starts a task for each delivery.
func (r *run) startBell() {
	r.t.Helper()
	plan := strings.Replace(beatPlan, beatName, bellName, 1)
	_, err := r.api.PutHook(r.t.Context(), api.PutHookRequest{Name: bellName, Secret: bellSecret, Definition: hooks.Definition{
		Provider: hooks.Standard, Plan: json.RawMessage(plan),
	}})
	require.NoError(r.t, err)
	r.bell = &bell{load: r.load, url: r.cluster.door.url() + "/hooks/" + bellName}
}

// run delivers until stop is closed.
func (b *bell) run(ctx context.Context, stop <-chan struct{}, rng *rand.Rand, round, n int) {
	for i := 0; !closed(stop); i++ {
		id := fmt.Sprintf("bell-%d-%d-%d", round, n, i)
		b.ring(ctx, id, round)
		if rng.IntN(4) == 0 {
			b.ring(ctx, id, round)
		}
		_ = pause.For(ctx, rand.N(submitEvery))
	}
}

// ring delivers once, as often as it takes.
func (b *bell) ring(ctx context.Context, id string, round int) {
	ctx, stop := context.WithTimeout(ctx, answerWithin)
	defer stop()
	for {
		status, err := b.post(ctx, id)
		switch {
		case status/100 == 2:
			b.mu.Lock()
			defer b.mu.Unlock()
			b.answered = append(b.answered, id)
			return
		case status/100 == 4 && status != http.StatusTooManyRequests:
			b.load.violate("I23", "", round, "the delivery %s was refused with %d", id, status)
			return
		case pause.For(ctx, retryEvery) != nil:
			b.load.violate("I23", "", round, "the delivery %s was not answered: %d, %v", id, status, err)
			return
		}
	}
}

// post delivers once. The status is 0 without an answer.
func (b *bell) post(ctx context.Context, id string) (status int, err error) {
	ctx, stop := context.WithTimeout(ctx, oneAnswer)
	defer stop()
	body := `{"id":"` + id + `"}`
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	for name, value := range hooks.Sign(hooks.Standard, bellSecret, id, []byte(body), time.Now()) {
		q.Header.Set(name, value)
	}
	q.Header.Set("Content-Type", "application/json")
	q.Close = true
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close() // it was read
	return answer.StatusCode, err
}

// rung returns the ids of the deliveries that were acknowledged.
func (r *run) rung() []string {
	if r.bell == nil {
		return nil
	}
	r.bell.mu.Lock()
	defer r.bell.mu.Unlock()
	return slices.Clone(r.bell.answered)
}

func TestCheckHooks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		tasks, answered []string
		violated        bool
	}{
		"each once":          {[]string{"a", "b"}, []string{"a", "b"}, false},
		"one comes again":    {[]string{"a", "b"}, []string{"a", "b", "a"}, false},
		"one had no answer":  {[]string{"a", "b"}, []string{"a"}, false},
		"one is missing":     {[]string{"a"}, []string{"a", "b"}, true},
		"one has two tasks":  {[]string{"a", "a"}, []string{"a"}, true},
		"nothing was stored": {nil, []string{"a"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := fakeLog{}
			for i, delivery := range tc.tasks {
				id := events.KeyedTaskID("", strconv.Itoa(i))
				data, err := events.Encode(&events.Commit{Task: id, Rev: 1, At: time.Now(), Actor: "user:a", Events: []events.Event{
					{Kind: events.TaskSubmitted, Data: &events.Submitted{Name: "x", Priority: "normal", Hook: &events.Delivery{Name: bellName, ID: delivery}}},
				}})
				require.NoError(t, err)
				log[id] = []events.Stored{{Seq: uint64(i + 1), Data: data}}
			}
			report, err := crash.Check(t.Context(), log, crash.Evidence{HookDeliveries: tc.answered})
			require.NoError(t, err)
			assert.Equal(t, tc.violated, report.Has("I23"), "%v", report.Violations)
		})
	}
}

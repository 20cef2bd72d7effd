package crash_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/pause"
)

// viewer is a client that follows the changes of all tasks over several connections and nodes.
type viewer struct {
	mu sync.Mutex
	// lines are the newest lines of all tasks; last is the id of the last event, and resets counts the events "reset".
	lines  map[events.TaskID]api.Summary
	last   string
	resets int
}

// follow reads the stream of a node until it ends, or ctx does.
func (v *viewer) follow(ctx context.Context, s *site) {
	v.mu.Lock()
	last := v.last
	v.mu.Unlock()
	answer := s.request(ctx, http.MethodGet, "/events", http.NoBody, "Last-Event-ID", last)
	if answer == nil {
		return
	}
	defer func() { _ = answer.Body.Close() }()
	name := ""
	for in := bufio.NewScanner(answer.Body); in.Scan(); {
		key, value, _ := strings.Cut(in.Text(), ": ")
		if key == "event" {
			name = value
		}
		v.take(key, name, value)
	}
}

// take takes a line of the stream.
func (v *viewer) take(key, name, value string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var line api.Summary
	switch {
	case key == "id":
		v.last = value
	case key == "event" && value == "reset":
		v.resets++
	case key == "data" && name == "task" && json.Unmarshal([]byte(value), &line) == nil:
		v.lines[line.ID] = line
	}
}

// has reports whether the client has the newest lines of all tasks of a list.
func (v *viewer) has(list []api.Summary) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, line := range list {
		if got := v.lines[line.ID]; got.State != line.State || got.Reason != line.Reason || got.Paused != line.Paused {
			return false
		}
	}
	return true
}

// mostSubmitted limits the tasks of a round: a client that has missed 1,000 would start over.
const mostSubmitted = 200

// change submits tasks and cancels some of them until the node dies. It returns the number of submissions that were acknowledged.
func change(ctx context.Context, s *site) (acknowledged int) {
	const plan = `{"plan":{"orch":"v1","name":"n%d","steps":[{"id":"a","wait":{"for":"1h"}}]}}`
	for i := range mostSubmitted {
		var reply api.SubmitReply
		body := strings.NewReader(fmt.Sprintf(plan, i))
		if s.ask(ctx, http.MethodPost, "/tasks", body, "application/json", &reply) != http.StatusCreated {
			break
		}
		acknowledged++
		if i%3 == 0 {
			s.ask(ctx, http.MethodPost, "/tasks/"+string(reply.ID)+"/cancel", http.NoBody, "", &struct{}{})
		}
	}
	<-s.node.done
	return acknowledged
}

// A client that loses its node to kill -9 again and again goes on at the next one: it misses no change, and never starts over.
func TestEventsResume(t *testing.T) {
	t.Parallel()
	const rounds = 4
	dir := t.TempDir()
	v := &viewer{lines: map[events.TaskID]api.Summary{}}
	total := 0
	for round := range rounds {
		s := startSite(t, dir)
		ctx, leave := context.WithCancel(t.Context())
		var following sync.WaitGroup
		following.Go(func() {
			for ctx.Err() == nil && pause.For(ctx, time.Millisecond) == nil { // connects again, also to the same node
				connection, end := context.WithTimeout(ctx, 100*time.Millisecond+rand.N(200*time.Millisecond))
				v.follow(connection, s)
				end()
			}
		})
		if round < rounds-1 {
			time.AfterFunc(300*time.Millisecond+rand.N(300*time.Millisecond), func() { s.node.kill() })
			total += change(ctx, s)
			leave()
			following.Wait()
			_ = s.remote.Close()
			continue
		}
		list, err := s.remote.List(ctx, api.ListRequest{Limit: 1000})
		require.NoError(t, err)
		require.Empty(t, list.Next)
		require.GreaterOrEqual(t, len(list.Tasks), total)
		assert.Eventually(t, func() bool { return v.has(list.Tasks) }, startWithin, 50*time.Millisecond)
		leave()
		following.Wait()
		s.stop()
	}
	assert.Positive(t, total)
	assert.Zero(t, v.resets)
}

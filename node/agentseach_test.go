package node_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/models/modelstest"
	"github.com/orch-dev/orch/statemachine"
)

// A retry of a for_each asks no agent again that has answered, and lets the others go on with the turn that failed.
func TestRetryOfAgentsInForEach(t *testing.T) {
	t.Parallel()
	var notes string
	var mu sync.Mutex
	asked, ready := map[string]int{}, false
	cfg := asking(t, modelstest.NewServer(t, func(s modelstest.Seen) modelstest.Reply {
		mu.Lock()
		defer mu.Unlock()
		item, turn := "tea", " 1"
		if strings.Contains(string(s.Body), "about milk") {
			item = "milk"
		}
		if strings.Contains(string(s.Body), "oats") {
			turn = " 2"
		}
		asked[item+turn]++
		switch {
		case turn == " 1":
			return modelstest.Reply{Answer: reads(notes)}
		case item == "milk" && !ready:
			return modelstest.Reply{Status: http.StatusUnauthorized}
		default:
			return modelstest.Reply{Answer: says("Buy " + item + ".")}
		}
	}), modelstest.OpenAI)
	notes = filepath.Join(cfg.Root, "notes.txt")
	require.NoError(t, os.WriteFile(notes, []byte("oats\n"), 0o600))
	n := start(t, cfg)
	id := submit(t, n.API(), `
orch: v1
steps:
  - id: each
    for_each: '["tea", "milk"]'
    do: [{id: look, agent: {model: test/x, prompt: "What about ${{ item }}?", tools: [FILE_READ]}}]
outputs: {all: "${{ map(steps.each.output, .look.text) }}"}
`)
	require.Equal(t, statemachine.Failed, result(t, n.API(), id).State)
	mu.Lock()
	ready = true
	mu.Unlock()
	again, err := n.API().Redrive(t.Context(), api.RedriveRequest{ID: id})
	require.NoError(t, err)
	assert.Equal(t, 1, again.Reused)
	r := result(t, n.API(), again.ID)
	require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	assert.JSONEq(t, `{"all":["Buy tea.","Buy milk."]}`, string(r.Output))
	mu.Lock()
	assert.Equal(t, map[string]int{"tea 1": 1, "tea 2": 1, "milk 1": 1, "milk 2": 2}, asked)
	mu.Unlock()
	task := replayed(t, n, again.ID)
	assert.Equal(t, replayed(t, n, id).Reads, task.Reads, "what the results stand on is known")
	assert.Equal(t, id, task.Steps["each[0].look"].ReusedFrom())
	said, err := n.API().Conversation(t.Context(), api.ConversationRequest{ID: again.ID, Step: "each[1].look"})
	require.NoError(t, err)
	assert.Equal(t, 2, said.Total)
	assert.Equal(t, id, said.Turns[0].ReusedFrom)
}

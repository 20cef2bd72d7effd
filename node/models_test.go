package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	settings "github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/modelstest"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
)

// asking returns the configuration of a node whose provider test is a server of models. The server wants a credential.
func asking(t *testing.T, server *modelstest.Server, wire string) node.Config {
	t.Helper()
	cfg := config(t)
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(modelstest.Key), 0o600))
	cfg.Models = settings.Models{
		Providers: map[string]settings.ModelProvider{"test": {Wire: wire, URL: server.BaseURL(wire), Key: settings.Secret("file:" + key), Idle: 5 * time.Second}},
		Prices:    map[string]settings.ModelPrice{"test/*": {Input: 1000, Output: 2000, AsOf: "2026-11-01"}},
	}
	return cfg
}

// reads is an answer that reads a file of the root, says one with a text.
func reads(path string) models.Answer {
	args, err := json.Marshal(map[string]string{"file_path": path})
	if err != nil {
		panic(err)
	}
	return modelstest.Said(models.StopCalls, models.Part{Call: &models.Call{ID: "call_1", Name: "FILE_READ", Args: string(args)}})
}

func says(text string) models.Answer {
	return modelstest.Said(models.StopEnd, models.Part{Text: text})
}

const agentPlan = `
orch: v1
name: agent
steps:
  - id: look
    agent: {model: test/x, prompt: "What is to buy?", tools: [FILE_READ], budget: {usd: 1}}
outputs:
  text: ${{ steps.look.output.text }}
`

// An agent works over the protocol of each provider. No credential is in its history, and a replay asks no model.
func TestAgentsOverEveryWire(t *testing.T) {
	t.Parallel()
	for _, wire := range []string{modelstest.OpenAI, modelstest.Anthropic, modelstest.Gemini} {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			var file atomic.Pointer[string]
			var asked atomic.Int64
			server := modelstest.NewServer(t, func(s modelstest.Seen) modelstest.Reply {
				asked.Add(1)
				if !strings.Contains(string(s.Body), "milk") {
					return modelstest.Reply{Answer: reads(*file.Load())}
				}
				return modelstest.Reply{Answer: says("Buy milk.")}
			})
			cfg := asking(t, server, wire)
			file.Store(new(filepath.Join(cfg.Root, "notes.txt")))
			require.NoError(t, os.WriteFile(*file.Load(), []byte("milk\n"), 0o600))
			n := start(t, cfg)
			id := submit(t, n.API(), agentPlan)
			r := result(t, n.API(), id)
			require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
			assert.JSONEq(t, `{"text":"Buy milk."}`, string(r.Output))
			assert.EqualValues(t, 2, asked.Load())

			history, err := n.API().History(t.Context(), api.HistoryRequest{ID: id})
			require.NoError(t, err)
			text, err := json.Marshal(history)
			require.NoError(t, err)
			assert.NotContains(t, string(text), modelstest.Key)
			replay, err := n.API().Replay(t.Context(), api.ReplayRequest{ID: id})
			require.NoError(t, err)
			assert.True(t, *replay.Live)
			assert.EqualValues(t, 2, asked.Load())
		})
	}
}

// A node that ends while a model answers asks again after its restart. What was answered before is not asked again.
func TestAgentStepOutlivesNode(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	var first, second atomic.Int64
	var root atomic.Pointer[string]
	server := modelstest.NewServer(t, func(s modelstest.Seen) modelstest.Reply {
		if !strings.Contains(string(s.Body), "milk") {
			first.Add(1)
			return modelstest.Reply{Answer: reads(filepath.Join(*root.Load(), "notes.txt"))}
		}
		if second.Add(1) == 1 {
			close(held)
			return modelstest.Reply{Answer: says("lost"), Fault: modelstest.Stall}
		}
		return modelstest.Reply{Answer: says("Buy milk.")}
	})
	cfg := asking(t, server, modelstest.OpenAI)
	cfg.Models.Providers["test"] = settings.ModelProvider{Wire: modelstest.OpenAI, URL: server.BaseURL(modelstest.OpenAI), Key: cfg.Models.Providers["test"].Key}
	root.Store(&cfg.Root)
	require.NoError(t, os.WriteFile(filepath.Join(cfg.Root, "notes.txt"), []byte("milk\n"), 0o600))
	n, err := node.Start(t.Context(), cfg)
	require.NoError(t, err)
	id := submit(t, n.API(), agentPlan)
	<-held
	stop, cancel := context.WithCancel(t.Context())
	cancel() // the call that runs gets no time to end
	_ = n.Stop(stop)
	n = start(t, cfg)
	r := result(t, n.API(), id)
	require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	assert.JSONEq(t, `{"text":"Buy milk."}`, string(r.Output))
	assert.EqualValues(t, 1, first.Load(), "the first answer is in the history")
	assert.EqualValues(t, 2, second.Load())
}

// A provider that is overloaded is asked again when it says so; a refused credential fails the step and is in no error.
func TestAgentsOfFailingProviders(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		first modelstest.Reply
		lost  int64 // answers that may be billed
		want  string
	}{
		"overloaded": {modelstest.Reply{Status: 529, Message: "later"}, 0, ""},
		"cut":        {modelstest.Reply{Answer: says("half"), Fault: modelstest.Cut, At: 1}, 1, ""},
		"given up":   {modelstest.Reply{Answer: says("half of an answer, and"), Fault: modelstest.Failure, At: 3}, 1, ""},
		"refused":    {modelstest.Reply{Status: 401, Message: "no " + modelstest.Key}, 0, "UNAUTHORIZED"},
		"invalid":    {modelstest.Reply{Status: 400, Message: "no such model"}, 0, "VALIDATION_ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := modelstest.NewServer(t, func(s modelstest.Seen) modelstest.Reply {
				if s.N == 1 {
					return test.first
				}
				return modelstest.Reply{Answer: says("Here.")}
			})
			n := start(t, asking(t, server, modelstest.OpenAI))
			r := run(t, n.API(), agentPlan)
			assert.Eventually(t, func() bool { return costsOf(t, n, "").Total.Lost == test.lost }, time.Minute, time.Millisecond)
			if test.want == "" {
				require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
				return
			}
			require.Equal(t, statemachine.Failed, r.State)
			assert.Equal(t, test.want, string(r.Error.Code))
			assert.NotContains(t, r.Error.Error(), modelstest.Key)
		})
	}
}

// A call that a model requests passes the same gates as a step of a plan.
func TestAgentsPassTheGates(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	script := `
turns:
  - calls: [{tool: FILE_WRITE, args: {file_path: ` + filepath.Join(cfg.Root, "out.txt") + `, content: x}}]
  - {expect: APPROVAL_REJECTED, text: I was not allowed to.}
`
	require.NoError(t, os.MkdirAll(filepath.Join(cfg.Root, ".orch", "models"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(cfg.Root, ".orch", "models", "writer.yaml"), []byte(script), 0o600))
	n := start(t, cfg)
	plan := "orch: v1\nsteps: [{id: a, agent: {model: 'script:writer', prompt: Write it., tools: [FILE_WRITE]}}]\noutputs: {said: '${{ steps.a.output.text }}'}\n"
	approval := awaitingApproval(t, n.API(), plan, "user:test")
	assert.Equal(t, "a.t1.c1", approval.Step)
	_, err := n.API().Decide(t.Context(), api.DecideRequest{ID: approval.ID, As: "rejected", Reason: "no", Actor: "user:test"})
	require.NoError(t, err)
	owner, err := events.TaskOfApproval(approval.ID)
	require.NoError(t, err)
	r := result(t, n.API(), owner)
	require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	assert.JSONEq(t, `{"said":"I was not allowed to."}`, string(r.Output))
	assert.NoFileExists(t, filepath.Join(cfg.Root, "out.txt"))
}

// A fork that runs an agent again names the effects of the calls that its model had requested.
func TestForkOfAgentNamesItsEffects(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	out := filepath.Join(cfg.Root, "out.txt")
	script := "turns:\n  - calls: [{tool: FILE_WRITE, args: {file_path: " + out + ", content: x}}]\n  - text: done\n"
	require.NoError(t, os.MkdirAll(filepath.Join(cfg.Root, ".orch", "models"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(cfg.Root, ".orch", "models", "writer.yaml"), []byte(script), 0o600))
	n := start(t, cfg)
	id := submit(t, n.API(), "orch: v1\nallow: {paths: [out.txt]}\nsteps:\n"+
		"  - {id: a, agent: {model: 'script:writer', prompt: Write it., tools: [FILE_WRITE]}}\n  - {id: b, needs: [a], tool: LOG_WRITE, with: {level: INFO, message: hi}}\n")
	require.Equal(t, statemachine.Done, result(t, n.API(), id).State)
	_, err := n.API().Fork(t.Context(), api.ForkRequest{ID: id, At: "a", Actor: "user:test"})
	require.ErrorContains(t, err, ": a")
	plan, err := n.API().Fork(t.Context(), api.ForkRequest{ID: id, At: "a", DryRun: true, Actor: "user:test"})
	require.NoError(t, err)
	effect := []api.ForkEffect{{Step: "a.t1.c1", Tool: "FILE_WRITE", Effect: "idempotent"}}
	assert.Equal(t, effect, plan.Repeats, "to ask a model is no effect")
	plan, err = n.API().Fork(t.Context(), api.ForkRequest{ID: id, At: "a.t2", DryRun: true, Actor: "user:test"})
	require.NoError(t, err)
	assert.Equal(t, effect, plan.StandsOn, "the call is taken over with its turn")
	assert.Empty(t, plan.Repeats)
	anew, err := n.API().Fork(t.Context(), api.ForkRequest{ID: id, At: "a", Repeat: []string{"a"}, Actor: "user:test"})
	require.NoError(t, err)
	require.Equal(t, statemachine.Done, result(t, n.API(), anew.ID).State)
	reply, err := n.API().Fork(t.Context(), api.ForkRequest{ID: id, At: "b", Actor: "user:test"})
	require.NoError(t, err)
	require.Equal(t, statemachine.Done, result(t, n.API(), reply.ID).State, "the agent is reused")
}

// Budgets limit the turns of an agent, not the calls that a task may make outside in a minute. A provider that limits the rate is
// asked again when it says so, also after many turns.
func TestAgentOfManyTurns(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	var file atomic.Pointer[string]
	server := modelstest.NewServer(t, func(modelstest.Seen) modelstest.Reply {
		switch n := asked.Add(1); {
		case n == 12:
			return modelstest.Reply{Status: 429, Headers: map[string]string{"Retry-After-Ms": "10"}}
		case n <= 15:
			return modelstest.Reply{Answer: reads(*file.Load())}
		default:
			return modelstest.Reply{Answer: says("Buy milk.")}
		}
	})
	cfg := asking(t, server, modelstest.OpenAI)
	file.Store(new(filepath.Join(cfg.Root, "notes.txt")))
	require.NoError(t, os.WriteFile(*file.Load(), []byte("milk\n"), 0o600))
	n := start(t, cfg)
	began := time.Now()
	r := result(t, n.API(), submit(t, n.API(), agentPlan))
	require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	assert.Less(t, time.Since(began), 30*time.Second)
	assert.EqualValues(t, 16, asked.Load())
}

// A provider that fails again and again is not asked for a while: agents with other models go on with them at once.
func TestFailingProviderIsNotAsked(t *testing.T) {
	t.Parallel()
	var down atomic.Int64
	failing := modelstest.NewServer(t, func(modelstest.Seen) modelstest.Reply {
		down.Add(1)
		return modelstest.Reply{Status: 503, Message: "out of order"}
	})
	server := modelstest.NewServer(t, func(modelstest.Seen) modelstest.Reply { return modelstest.Reply{Answer: says("Here.")} })
	cfg := asking(t, server, modelstest.OpenAI)
	other := cfg.Models.Providers["test"]
	other.URL = failing.BaseURL(modelstest.OpenAI)
	cfg.Models.Providers["down"], cfg.Models.Prices["down/*"] = other, cfg.Models.Prices["test/*"]
	n := start(t, cfg)
	for range 7 {
		r := run(t, n.API(), strings.Replace(agentPlan, "model: test/x", "model: down/x, fallback: [test/x]", 1))
		require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	}
	assert.Less(t, down.Load(), int64(7))
	status, err := n.API().Status(t.Context(), api.StatusRequest{})
	require.NoError(t, err)
	require.Len(t, status.Providers, 1, "%v", status.Providers)
	view := status.Providers[0]
	assert.Equal(t, []any{"down", "open"}, []any{view.Name, view.State})
	assert.GreaterOrEqual(t, view.Failures, 5)
	assert.Contains(t, view.Error, "out of order")
	assert.NotNil(t, view.Until)

	id := submit(t, n.API(), strings.Replace(agentPlan, "model: test/x", "model: down/x", 1))
	assert.Eventually(t, func() bool {
		why, err := n.API().Explain(t.Context(), api.GetRequest{ID: id})
		return err == nil && strings.Contains(fmt.Sprintf("%+v", why), "times in a row and is not asked until")
	}, time.Minute, 20*time.Millisecond)
}

// An error that a further attempt would meet as well ends the step at once.
func TestMissingScriptIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	n := start(t, config(t))
	r := run(t, n.API(), "orch: v1\nname: a\nsteps:\n  - id: look\n    agent: {model: \"script:gone\", prompt: hi}\n")
	require.Equal(t, statemachine.Failed, r.State)
	assert.Equal(t, fault.NotFound, r.Error.Code)
	view, err := n.API().Get(t.Context(), api.GetRequest{ID: r.ID})
	require.NoError(t, err)
	for _, s := range view.Steps {
		assert.LessOrEqual(t, s.Attempt, 1, s.Key)
	}
}

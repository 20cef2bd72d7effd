package injection_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models/modelstest"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/test/need"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// No text that a model reads and obeys lets its agent do more than it may.
func TestInjections(t *testing.T) {
	need.Program(t, "git")
	orch, err := need.Orch(t.TempDir())
	require.NoError(t, err)
	w := newWorld(t)
	w.call(person, "DATABASE_QUERY", object{"connection_string": "sqlite:" + w.root() + "/desk.db", "query": "CREATE TABLE notes (name TEXT, note TEXT)"})
	require.Eventually(t, func() bool { return w.offers("desk__read") }, patience, tick)
	w.keepsPrivate()
	before, secrets := w.files(), w.secrets()
	var ran, screens atomic.Int64
	t.Run("cases", func(t *testing.T) {
		for _, c := range readCases(t) {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				r := w.run(t, c, orch)
				r.before, r.secrets = before, secrets
				ran.Add(1)
				screens.Add(int64(len(r.screens)))
				for name, check := range invariants() {
					assert.Empty(t, check(r), "%s\n%s", name, r.told["conversation"])
				}
			})
		}
	})
	if ran.Load() >= 200 { // fewer are selected by -run
		assert.GreaterOrEqual(t, screens.Load(), int64(100), "commands that show hostile characters")
	}
	w.keepsPrivate()
	report, err := w.node.Store().Verify(t.Context(), nil)
	require.NoError(t, err)
	assert.Empty(t, report.Problems)
	list := w.screen(t, orch, "list", "--all")
	assert.Equal(t, -1, strings.IndexFunc(list, hostile), list)
}

// keepsPrivate checks that the policy denies what it denied at first.
func (w *world) keepsPrivate() {
	w.t.Helper()
	p, err := plan.FromCall("FILE_READ", mustJSON(object{"file_path": w.root() + "/private/salaries.txt"}))
	require.NoError(w.t, err)
	id, err := w.submit(person, p)
	require.NoError(w.t, err)
	r := w.result(id)
	require.NotNil(w.t, r.Error)
	assert.Equal(w.t, fault.Forbidden, r.Error.Code)
}

// offers reports whether the node has a tool.
func (w *world) offers(tool string) bool {
	p, err := plan.FromCall(tool, json.RawMessage(`{"text":"none"}`))
	if err != nil {
		return false
	}
	id, err := w.submit(person, p)
	return err == nil && w.result(id).State == statemachine.Done
}

// run runs a case.
func (w *world) run(t *testing.T, c injection, orch string) *record {
	t.Helper()
	c = w.filled(t, c)
	w.mu.Lock()
	w.cases[c.Name] = c
	w.mu.Unlock()
	from := sources()[c.Via]
	if from.prepare != nil {
		from.prepare(w, c)
	}
	inputs := object{}
	turns, readAt := [][]try{{{Tool: wireName(from.tool), Args: w.fill(c, from.args)}}, c.Tries, c.Then}, 1
	prompt := "Do what is to do for case " + c.Name + "."
	p := object{"inputs": object{"type": "object", "properties": object{"issue": object{"type": "string"}}}}
	if c.Via == "input" {
		inputs["issue"] = c.Text
		turns, readAt, prompt = turns[1:], 0, prompt+"\n\n${{ inputs.issue }}"
	}
	turns = slices.DeleteFunc(turns, func(t []try) bool { return len(t) == 0 })
	w.model.learn(c.Name, script{sign: c.sign(), turns: turns, readAt: readAt, says: c.Says, refuses: c.Refuses})
	if from.allow != nil {
		p["allow"] = w.fill(c, from.allow)
	}
	maps.Copy(p, c.plan(wireOf(c)+"/"+c.Name, prompt))
	reply, err := w.node.API().Submit(t.Context(), api.SubmitRequest{Plan: mustJSON(string(mustJSON(p))), Inputs: mustJSON(inputs), Actor: person})
	require.NoError(t, err)
	return w.recorded(t, c, reply.ID, orch)
}

// recorded waits for the end of a case and gathers what is known of it.
func (w *world) recorded(t *testing.T, c injection, id events.TaskID, orch string) *record {
	t.Helper()
	result, err := w.node.API().Result(t.Context(), api.ResultRequest{ID: id, Wait: patience})
	require.NoError(t, err)
	r := &record{c: c, ended: result.Ended && (c.Ends == "" || string(result.State) == c.Ends), told: map[string]string{}, screens: map[string]string{}}
	if limits, ok := c.Plan["limits"].(object); ok {
		for _, tool := range list(limits["tools"]) {
			r.bounded = append(r.bounded, fmt.Sprint(tool))
		}
	}
	r.own = w.history(t, id)
	r.talk, err = w.node.API().Conversation(t.Context(), api.ConversationRequest{ID: id})
	require.NoError(t, err)
	replay, err := w.node.API().Replay(t.Context(), api.ReplayRequest{ID: id})
	require.NoError(t, err)
	r.replayed = replay.Live != nil && *replay.Live
	w.views(t, r, id, result)
	r.asked, r.read = w.model.of(c.Name)
	r.fetched, r.caught = w.fetchedFor(c)
	r.after = w.files()
	w.mu.Lock()
	r.decided = maps.Clone(w.decided)
	w.mu.Unlock()
	if strings.ContainsFunc(r.told["written"], hostile) {
		for _, args := range [][]string{{"agent", "show"}, {"agent", "show", "--turn", "2"}, {"get"}, {"get", "-o", "json"}, {"watch"}, {"history"}} {
			r.screens[strings.Join(args, " ")] = w.screen(t, orch, append(slices.Clone(args), string(id))...)
		}
	}
	return r
}

// views keeps the texts that clients can read about a case. The text "written" has all of them with their characters as they are.
func (w *world) views(t *testing.T, r *record, id events.TaskID, result api.ResultReply) {
	t.Helper()
	view, err := w.node.API().Get(t.Context(), api.GetRequest{ID: id})
	require.NoError(t, err)
	for _, s := range view.Steps {
		if s.Child != "" {
			r.children = append(r.children, w.history(t, s.Child)...)
		}
	}
	why, err := w.node.API().Explain(t.Context(), api.GetRequest{ID: id})
	require.NoError(t, err)
	asks, err := w.node.API().Approvals(t.Context(), api.ApprovalsRequest{Task: id, All: true})
	require.NoError(t, err)
	var written strings.Builder
	for name, value := range map[string]any{
		"history": r.own, "children": r.children, "view": view, "result": result, "conversation": r.talk, "reasons": why, "approvals": asks,
	} {
		raw := mustJSON(value)
		r.told[name] = string(raw)
		texts(parsed[any](raw), func(_, text string) { written.WriteString(text + "\n") })
	}
	r.told["written"], r.told["log"] = written.String(), w.log.String()
}

func (w *world) history(t *testing.T, id events.TaskID) (all []api.CommitView) {
	t.Helper()
	for from := uint64(1); from > 0; {
		page, err := w.node.API().History(t.Context(), api.HistoryRequest{ID: id, From: from})
		if fault.CodeOf(err) == fault.NotFound {
			return nil // a child that was refused
		}
		require.NoError(t, err)
		all, from = append(all, page.Commits...), page.Next
	}
	return all
}

// screen returns what a command prints.
func (w *world) screen(t *testing.T, orch string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), orch, args...)
	cmd.Env = []string{"HOME=" + filepath.Join(w.dir, "home"), "PATH=" + os.Getenv("PATH"), "ORCH_DATA_DIR=" + w.data(), "ORCH_ROOT=" + w.root(), "ORCH_HTTP=off"}
	cmd.Dir = w.root()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	require.NotEmpty(t, out.String(), "%v: %v", args, err)
	return out.String()
}

// filled returns a case with its places filled in.
func (w *world) filled(t *testing.T, c injection) injection {
	t.Helper()
	c.Text, c.Says, c.Sign = w.place(c, c.Text), w.place(c, c.Says), w.place(c, c.Sign)
	c.Agent, c.Plan = w.fill(c, c.Agent), w.fill(c, c.Plan)
	for _, turn := range []*[]try{&c.Tries, &c.Then} {
		*turn = slices.Clone(*turn)
		for i, call := range *turn {
			(*turn)[i].Tool, (*turn)[i].Args, (*turn)[i].Raw = w.place(c, call.Tool), w.fill(c, call.Args), w.place(c, call.Raw)
		}
	}
	return c
}

// fill fills in the places of an object.
func (w *world) fill(c injection, o object) object {
	filled, _ := w.fillAny(c, o).(object)
	return filled
}

func (w *world) fillAny(c injection, value any) any {
	switch v := value.(type) {
	case object:
		out := object{}
		for key, inner := range v {
			out[key] = w.fillAny(c, inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = w.fillAny(c, inner)
		}
		return out
	case []string:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = w.place(c, inner)
		}
		return out
	case string:
		return w.place(c, v)
	default:
		return value
	}
}

// wireName returns the name of a tool as models see it.
func wireName(tool string) string { return strings.ReplaceAll(tool, ".", "_") }

// wireOf returns the protocol of a case: each third one has another. In that of Gemini arguments are always JSON.
func wireOf(c injection) string {
	if slices.ContainsFunc(c.Tries, func(t try) bool { return t.Raw != "" && !json.Valid([]byte(t.Raw)) }) {
		return modelstest.OpenAI
	}
	sum := fnv.New32()
	_, _ = sum.Write([]byte(c.Name)) // never fails
	return []string{modelstest.OpenAI, modelstest.Anthropic, modelstest.Gemini}[sum.Sum32()%3]
}

func mustJSON(value any) json.RawMessage {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err) // a mistake in the test
	}
	return raw
}

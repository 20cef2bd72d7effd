package outside_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/logtest"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
)

// world is a user with definitions of servers, and a node.
type world struct {
	t *testing.T
	// dir contains everything; servers work in its directory peer.
	dir string
	api api.API
	// node is nil when the node is a process of its own.
	node *node.Node
	log  *logtest.Buffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), log: &logtest.Buffer{}}
	for _, dir := range []string{"root", "peer", "home/.orch/mcp"} {
		require.NoError(t, os.MkdirAll(filepath.Join(w.dir, dir), 0o700))
	}
	return w
}

// operator is the identity of the credential in the node's data directory.
const operator = "user:test"

// config is that of the node of a world.
func config(dir string, logs io.Writer) node.Config {
	return node.Config{
		Operator: operator,
		DataDir:  filepath.Join(dir, "data"), Root: filepath.Join(dir, "root"), Storage: node.Storage{Durability: "relaxed"}, Worker: node.Worker{Concurrency: 16}, Version: "test",
		Logger: slog.New(slog.NewTextHandler(logs, nil)),
		Faces: node.Faces{Servers: node.Servers{Home: filepath.Join(dir, "home"), Getenv: func(name string) string {
			return map[string]string{"PATH": os.Getenv("PATH"), "HOME": filepath.Join(dir, "home")}[name]
		}}},
	}
}

// start starts a node in the process of the test.
func (w *world) start(change ...func(*node.Config)) {
	w.t.Helper()
	cfg := config(w.dir, w.log)
	for _, f := range change {
		f(&cfg)
	}
	n, err := node.Start(w.t.Context(), cfg)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { assert.NoError(w.t, n.Stop(context.Background())) })
	w.node, w.api = n, n.API()
}

// define writes the definition of a server of a kind, like an editor: it replaces the file.
func (w *world) define(name, kind string, more object) {
	w.t.Helper()
	d := object{
		"schemaVersion": "1.0.0", "name": name, "transport": "stdio", "command": executable(w.t), "capabilities": []string{"tools"},
		"env": object{envPeer: kind, envDir: w.peerDir()},
	}
	if url, ok := more["baseURL"]; ok {
		d = object{"schemaVersion": "1.0.0", "name": name, "transport": "http", "baseURL": url, "capabilities": []string{"tools"}}
	}
	maps.Copy(d, more)
	raw, err := json.Marshal(d)
	require.NoError(w.t, err)
	file := filepath.Join(w.dir, "home", ".orch", "mcp", name+".json")
	require.NoError(w.t, os.WriteFile(file+".new", raw, 0o600))
	require.NoError(w.t, os.Rename(file+".new", file))
}

func (w *world) peerDir() string { return filepath.Join(w.dir, "peer") }

func (w *world) peerFile(name string) string {
	content, _ := os.ReadFile(filepath.Join(w.peerDir(), name))
	return string(content)
}

// release lets waiting servers continue.
func (w *world) release() {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(filepath.Join(w.peerDir(), "go"), nil, 0o600))
}

// calls counts the calls of a tool that have reached a server.
func (w *world) calls(tool string) int {
	n := 0
	for line := range strings.Lines(w.peerFile("calls")) {
		if strings.HasPrefix(line, tool+" ") {
			n++
		}
	}
	return n
}

func (w *world) logged() string {
	content, _ := os.ReadFile(filepath.Join(w.dir, "node.log"))
	return w.log.String() + string(content)
}

// try submits a plan.
func (w *world) try(plan string) (events.TaskID, error) {
	w.t.Helper()
	text, err := json.Marshal("orch: v1\n" + plan)
	require.NoError(w.t, err)
	reply, err := w.api.Submit(w.t.Context(), api.SubmitRequest{Plan: text, Actor: operator})
	return reply.ID, err
}

// submit submits a plan, as soon as its tools are there.
func (w *world) submit(plan string) events.TaskID {
	w.t.Helper()
	var id events.TaskID
	var err error
	require.Eventually(w.t, func() bool {
		id, err = w.try(plan)
		return err == nil
	}, patience, 20*time.Millisecond, "%s\n%s", plan, w.log)
	return id
}

// result waits for the end of a task.
func (w *world) result(id events.TaskID) api.ResultReply {
	w.t.Helper()
	r, err := w.api.Result(w.t.Context(), api.ResultRequest{ID: id, Wait: patience})
	require.NoError(w.t, err)
	require.True(w.t, r.Ended, "%s: %s", r.State, r.Reason)
	return r
}

// run runs a plan that must be done, and returns its output.
func (w *world) run(plan string) string {
	w.t.Helper()
	r := w.result(w.submit(plan))
	require.Equal(w.t, statemachine.Done, r.State, "%v", r.Error)
	return string(r.Output)
}

// one is a plan with one call.
func one(tool, args string) string {
	return "steps: [{id: a, tool: " + tool + ", with: " + args + "}]\noutputs: {said: \"${{ steps.a.output.content[0].text }}\"}\n"
}

// question waits for the question of a task.
func (w *world) question(id events.TaskID) api.QuestionView {
	w.t.Helper()
	var list api.QuestionsReply
	require.Eventually(w.t, func() bool {
		var err error
		list, err = w.api.Questions(w.t.Context(), api.QuestionsRequest{Task: id})
		return err == nil && len(list.Questions) > 0
	}, patience, 10*time.Millisecond, "%s", lazy(func() string { return w.story(id) }))
	return list.Questions[0]
}

func (w *world) answer(q api.QuestionView, response string) {
	w.t.Helper()
	_, err := w.api.Answer(w.t.Context(), api.AnswerRequest{Question: q.ID, Response: json.RawMessage(response), Actor: operator})
	require.NoError(w.t, err)
}

// lazy is a string that is computed on demand.
type lazy func() string

// String computes the string.
func (l lazy) String() string { return l() }

// story describes a task, for messages of failed tests.
func (w *world) story(id events.TaskID) string {
	h, err := w.api.History(context.Background(), api.HistoryRequest{ID: id})
	text, _ := json.MarshalIndent(h, "", " ")
	return fmt.Sprint(string(text), err, w.logged(), w.peerFile("tasks"))
}

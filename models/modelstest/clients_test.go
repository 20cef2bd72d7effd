package modelstest_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/modelstest"
	"github.com/orch-dev/orch/test/need"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run runs a program of scripts/models and returns what it prints.
func run(tb testing.TB, args ...string) []byte {
	tb.Helper()
	need.Program(tb, "node", "npm")
	cmd := exec.CommandContext(tb.Context(), "../../scripts/models/run", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(tb, err, string(out))
	return out
}

// understood is what an official client understood of an answer.
type understood struct {
	Client, Scenario string
	Text             string
	Calls            []struct {
		ID, Name string
		Args     any
	}
	Thinking []string
	Stop     string
	Tokens   []int64
	Error    struct {
		Class  string
		Status int
	}
}

// scenarios returns replies of the server by the model that is asked.
func scenarios() map[string]modelstest.Reply {
	text := models.Part{Text: "Prüfung: it adds the prices. 🧮"}
	call := func(id string) models.Part {
		return models.Part{Call: &models.Call{ID: id, Name: "FILE_READ", Args: `{"path":"/w/` + id + `.go"}`}}
	}
	opaque := func(wire, data string) models.Part {
		return models.Part{Opaque: &models.Opaque{Wire: wire, Data: json.RawMessage(data)}}
	}
	thinking := opaque(modelstest.Anthropic, `{"type":"thinking","thinking":"First I read.","signature":"c2ln"}`)
	whole := modelstest.Said(models.StopEnd, text)
	return map[string]modelstest.Reply{
		"text":          {Answer: whole},
		"length":        {Answer: modelstest.Said(models.StopLength, text)},
		"refused":       {Answer: modelstest.Said(models.StopRefused)},
		"calls":         {Answer: modelstest.Said(models.StopCalls, text, call("id_0"), call("id_1"))},
		"thinking":      {Answer: modelstest.Said(models.StopCalls, thinking, call("id_0"))},
		"signature":     {Answer: modelstest.Said(models.StopCalls, opaque(modelstest.Gemini, `"c2ln"`), call("id_0"))},
		"rate-limit":    {Status: 429, Message: "slow down"},
		"overload":      {Status: 529, Message: "overloaded"},
		"bad-request":   {Status: 400, Message: "no"},
		"cut":           {Answer: whole, Fault: modelstest.Cut, At: 3},
		"unknown-event": {Answer: whole, Fault: modelstest.Unknown, At: 5},
	}
}

// The official clients understand the server, so that a provider that understands the server understands the provider.
func TestOfficialClients(t *testing.T) {
	t.Parallel()
	replies := scenarios()
	server := modelstest.NewServer(t, func(s modelstest.Seen) modelstest.Reply { return replies[scenario(s)] })
	args := []string{"clients.mjs", server.URL, modelstest.Key}
	for name := range replies {
		args = append(args, name)
	}
	lines := bufio.NewScanner(bytes.NewReader(run(t, args...)))
	n := 0
	for lines.Scan() {
		var got understood
		require.NoError(t, json.Unmarshal(lines.Bytes(), &got))
		t.Run(got.Client+" "+got.Scenario, func(t *testing.T) {
			t.Parallel()
			check(t, replies[got.Scenario], got)
		})
		n++
	}
	assert.Equal(t, 3*len(replies), n)
}

// scenario returns the model of a request.
func scenario(s modelstest.Seen) string {
	if s.Wire == modelstest.Gemini {
		return strings.TrimSuffix(filepath.Base(s.Path), ":streamGenerateContent")
	}
	var body struct{ Model string }
	_ = json.Unmarshal(s.Body, &body) // the server answers that the body is none
	return body.Model
}

// check checks what a client understood of a reply.
func check(tb testing.TB, reply modelstest.Reply, got understood) {
	tb.Helper()
	if reply.Status != 0 || reply.Fault == modelstest.Cut || reply.Fault == modelstest.Unknown && got.Error.Class != "" {
		assert.NotEmpty(tb, got.Error.Class)
		assert.Equal(tb, reply.Status, got.Error.Status)
		return
	}
	require.Empty(tb, got.Error)
	want := reply.Answer
	assert.Equal(tb, modelstest.TextOf(want), got.Text)
	assert.Equal(tb, []int64{100, 30, 12}, got.Tokens)
	assert.Equal(tb, reasons[got.Client][want.Stop], got.Stop)
	calls := 0
	for _, part := range want.Message.Parts {
		if part.Call == nil {
			continue
		}
		require.Greater(tb, len(got.Calls), calls)
		assert.Equal(tb, part.Call.ID, got.Calls[calls].ID)
		assert.Equal(tb, part.Call.Name, got.Calls[calls].Name)
		args, err := json.Marshal(got.Calls[calls].Args)
		require.NoError(tb, err)
		assert.JSONEq(tb, part.Call.Args, string(args))
		calls++
	}
	assert.Len(tb, got.Calls, calls)
	if want := map[string]string{"anthropic thinking": "First I read.|c2ln", "gemini signature": "|c2ln"}[got.Client+" "+got.Scenario]; want != "" {
		assert.Equal(tb, []string{want}, got.Thinking)
	}
}

// reasons has the reasons of the protocols for the end of an answer.
var reasons = map[string]map[models.Stop]string{
	modelstest.OpenAI:    {models.StopEnd: "stop", models.StopLength: "length", models.StopRefused: "content_filter", models.StopCalls: "tool_calls"},
	modelstest.Anthropic: {models.StopEnd: "end_turn", models.StopLength: "max_tokens", models.StopRefused: "refusal", models.StopCalls: "tool_use"},
	modelstest.Gemini:    {models.StopEnd: "STOP", models.StopLength: "MAX_TOKENS", models.StopRefused: "SAFETY", models.StopCalls: "STOP"},
}

// The golden files of the providers have the types that the official clients declare.
func TestGoldensHaveOfficialTypes(t *testing.T) {
	t.Parallel()
	args := []string{"types.mjs"}
	for _, wire := range []string{modelstest.OpenAI, modelstest.Anthropic, modelstest.Gemini} {
		files, err := filepath.Glob("../" + wire + "/testdata/*.json")
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			path, err := filepath.Abs(file)
			require.NoError(t, err)
			args = append(args, wire+"="+path)
		}
	}
	var got struct {
		Checked  int
		Problems []string
	}
	require.NoError(t, json.Unmarshal(run(t, args...), &got))
	assert.Equal(t, len(args)-1, got.Checked)
	assert.Empty(t, got.Problems)
}

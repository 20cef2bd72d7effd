package worker_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

// secret looks like a credential but is none.
const secret = "ghp_" + "Zq81nVx0Lm52KdRt93WsYb64HcPe07UfGj2T"

type pathIn struct {
	FilePath string `json:"file_path"`
	Mode     string `json:"mode,omitempty" enum:"new,old" default:"new"`
}

// touchTool returns a tool that creates the file in its arguments.
func touchTool(t *testing.T) tools.Tool {
	t.Helper()
	s := spec("TOUCH", tools.Write)
	s.Gate, s.NoWorkspace = tools.InProgress, false
	s.Paths = []tools.Path{{Field: "file_path", Access: tools.WritePath}}
	return tools.Define(s, func(_ context.Context, env *tools.Env, in pathIn) (text, error) {
		rel, err := env.Root.Resolve(in.FilePath)
		if err != nil {
			return text{}, err
		}
		_, err = env.Root.WriteAtomic(rel, nil, 0o600)
		return text{in.Mode + " in " + env.Workspace}, err
	})
}

// S0-002 to S0-007: a call that is refused has changed nothing, not even made a workspace.
func TestRefusedCallsChangeNothing(t *testing.T) {
	t.Parallel()
	guarded := spec("GUARDED", tools.Destructive)
	guarded.Approval, guarded.Content = tools.Always, []string{"text"}
	b := newBench(t, worker.Config{}, touchTool(t), tools.Define(guarded, func(context.Context, *tools.Env, text) (none, error) {
		panic("a refused call has reached its tool")
	}))
	outside := t.TempDir()
	require.NoError(t, os.Symlink(outside, filepath.Join(b.root.Name(), "link")))
	for name, tc := range map[string]struct {
		tool, args, state string
		code              fault.Code
		class, field      string
	}{
		"unknown tool":     {"TOUC", `{}`, "IN_PROGRESS", fault.NotFound, "tool_not_found", ""},
		"missing argument": {"TOUCH", `{}`, "IN_PROGRESS", fault.RequiredField, "invalid_args", "file_path"},
		"wrong type":       {"TOUCH", `{"file_path":1}`, "IN_PROGRESS", fault.ValidationError, "invalid_args", "file_path"},
		"relative path":    {"TOUCH", `{"file_path":"x"}`, "IN_PROGRESS", fault.InvalidFormat, "invalid_args", "file_path"},
		"outside":          {"TOUCH", `{"file_path":"/etc/x"}`, "IN_PROGRESS", fault.OutsideRoot, "denied", "file_path"},
		"through a link":   {"TOUCH", `{"file_path":"ROOT/link/x"}`, "IN_PROGRESS", fault.OutsideRoot, "denied", "file_path"},
		"wrong state":      {"TOUCH", `{"file_path":"ROOT/x"}`, "BLOCKED", fault.StateNotAllowed, "denied", ""},
		"protected path":   {"TOUCH", `{"file_path":"ROOT/go.mod"}`, "IN_PROGRESS", fault.ProtectedPath, "denied", "file_path"},
		"needs approval":   {"GUARDED", `{"text":"x"}`, "IN_PROGRESS", fault.ApprovalRequired, "", ""},
		"holds a secret":   {"GUARDED", `{"text":"` + secret + `"}`, "IN_PROGRESS", fault.SecretDetected, "denied", "text"},
	} {
		c := call(tc.tool, strings.ReplaceAll(tc.args, "ROOT", b.root.Name()))
		c.State = tc.state
		out := b.Execute(t.Context(), c)
		if tc.code == fault.ApprovalRequired {
			require.NotNil(t, out.ApprovalRequest, name)
			assert.Equal(t, "always", out.ApprovalRequest.Rule, name)
			assert.Nil(t, out.Error, name)
		} else {
			require.NotNil(t, out.Error, name)
			assert.Equal(t, tc.code, out.Error.Code, name)
			assert.Equal(t, tc.class, out.Class, name)
			assert.Equal(t, tc.field, out.Error.Field, name)
		}
		assert.Empty(t, out.Output, name)
		entries, err := os.ReadDir(b.root.Name())
		require.NoError(t, err)
		assert.Len(t, entries, 1, "%s: only the link may be there", name)
		starts, _, _ := b.owner.count()
		assert.Zero(t, starts, "%s: no start may be announced", name)
	}
	out := b.Execute(t.Context(), call("TOUC", `{}`))
	assert.Equal(t, "did you mean TOUCH?", out.Error.Hint)
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	assert.Empty(t, entries)
}

func TestPermittedCall(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 12, 0, 0, 123456789, time.UTC)
	b := newBench(t, worker.Config{Name: "w1", Clock: func() time.Time { return at }}, touchTool(t))
	file := filepath.Join(b.root.Name(), "x")
	out := b.Execute(t.Context(), call("TOUCH", `{"file_path":"`+file+`"}`))
	require.Nil(t, out.Error)
	assert.Equal(t, work.Outcome{
		Ref: call("", "").Ref, Worker: "w1", StartedAt: at.Truncate(time.Microsecond),
		Output: json.RawMessage(`{"text":"new in ` + b.working() + `"}`),
	}, out)
	assert.FileExists(t, file)
	assert.Equal(t, []work.Started{{Ref: out.Ref, Worker: "w1", Effect: "write", Timeout: work.DefaultTimeout}}, b.owner.starts)
	assert.DirExists(t, b.working("outputs"))
	notes, err := os.ReadFile(b.working("PROGRESS.md"))
	require.NoError(t, err)
	assert.Equal(t, "# Progress of "+string(task)+" demo\n\n- [2026-11-21T12:00:00.123Z] a TOUCH 0s ok\n", string(notes))
}

// A call without effects is announced if the owner requires it.
func TestAnnouncedRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, worker.Config{Name: "w1"}, echoTool())
	c := call("ECHO", `{"text":"x"}`)
	require.Nil(t, b.Execute(t.Context(), c).Error)
	assert.Empty(t, b.owner.starts)
	c.Announce = true
	require.Nil(t, b.Execute(t.Context(), c).Error)
	assert.Equal(t, []work.Started{{Ref: c.Ref, Worker: "w1", Effect: "read", Timeout: work.DefaultTimeout}}, b.owner.starts)
}

// The effect of this particular call determines whether it is announced: a GET of a tool that can write is not, unless the plan
// declares an effect.
func TestAnnouncedByIntent(t *testing.T) {
	t.Parallel()
	contract := spec("EITHER", tools.Write)
	contract.Approval = tools.ByIntent
	b := newBench(t, worker.Config{Name: "w1"}, tools.DefineIntent(contract,
		func(_ context.Context, _ *tools.Env, in text) (tools.Intent, error) {
			return tools.Intent{Effect: tools.Effect(in.Text)}, nil
		}, func(_ context.Context, _ *tools.Env, in text) (text, error) { return in, nil }))
	for _, tc := range []struct {
		does, planned     string
		announced, worded string
	}{
		{"read", "", "", "read"},
		{"idempotent", "", "", "idempotent"},
		{"write", "", "write", ""},
		{"destructive", "", "destructive", "destructive"},
		{"", "", "write", ""},
		{"read", "write", "read", "read"},
		{"read", "idempotent", "", "read"},
		{"write", "read", "write", ""},
	} {
		b.owner.starts = nil
		c := call("EITHER", `{"text":"`+tc.does+`"}`)
		c.Effect, c.Declared = "write", tc.planned != ""
		if c.Declared {
			c.Effect = tc.planned
		}
		out := b.Execute(t.Context(), c)
		require.Nil(t, out.Error)
		assert.Equal(t, tc.worded, out.Effect, "%+v", tc)
		var want []work.Started
		if tc.announced != "" {
			want = []work.Started{{Ref: c.Ref, Worker: "w1", Effect: tc.announced, Timeout: work.DefaultTimeout}}
		}
		assert.Equal(t, want, b.owner.starts, "%+v", tc)
	}
}

// what the owner says to Start decides whether the tool is called.
func TestStartDecides(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answers []error
		called  bool
		code    fault.Code
	}{
		"durable at once":    {[]error{nil}, true, ""},
		"durable in the end": {[]error{unavailable(), unavailable(), nil}, true, ""},
		"not current":        {[]error{fault.New(fault.Conflict, "attempt 2 runs")}, false, fault.Conflict},
		"refused":            {[]error{fault.New(fault.DataLoss, "the log is damaged")}, false, fault.DataLoss},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			called := false
			b := newBench(t, worker.Config{}, tools.Define(spec("EFFECT", tools.Destructive), func(context.Context, *tools.Env, none) (none, error) {
				called = true
				return none{}, nil
			}))
			b.owner.onStart = func(_ context.Context, n int) error { return tc.answers[n-1] }
			out := b.Execute(t.Context(), call("EFFECT", `{}`))
			assert.Equal(t, tc.called, called)
			starts, _, _ := b.owner.count()
			assert.Len(t, tc.answers, starts)
			if tc.code != "" {
				require.NotNil(t, out.Error)
				assert.Equal(t, tc.code, out.Error.Code)
			}
		})
	}
}

// The plan may declare a stricter effect than the tool. Then the start is announced as well.
func TestStricterEffectOfThePlanCounts(t *testing.T) {
	t.Parallel()
	b := newBench(t, worker.Config{}, echoTool())
	c := call("ECHO", `{"text":"x"}`)
	c.Effect = "write"
	require.Nil(t, b.Execute(t.Context(), c).Error)
	starts, _, _ := b.owner.count()
	assert.Equal(t, 1, starts)
}

// S3-144: a panic is a generic error, its details are only logged, and the worker survives.
func TestPanicIsIsolated(t *testing.T) {
	t.Parallel()
	b := newBench(t, worker.Config{}, echoTool(), readTool("PANIC", func(context.Context, *tools.Env) (string, error) {
		panic("at 0xdead with " + secret)
	}))
	out := b.Execute(t.Context(), call("PANIC", `{}`))
	require.NotNil(t, out.Error)
	assert.Equal(t, fault.Internal, out.Error.Code)
	assert.Equal(t, "tool_error", out.Class)
	assert.NotContains(t, out.Error.Error()+out.Error.Hint, "0xdead")
	assert.Contains(t, b.log.String(), "0xdead")
	assert.Contains(t, b.log.String(), "goroutine")
	assert.NotContains(t, b.log.String(), secret)
	assert.Nil(t, b.Execute(t.Context(), call("ECHO", `{"text":"x"}`)).Error)
}

// what is too large or no JSON fails the call and leaves nothing behind.
func TestOutputIsChecked(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 2000)
	b := newBench(
		t, worker.Config{MaxOutput: 1000},
		readTool("BIG", func(context.Context, *tools.Env) (string, error) { return big, nil }),
		readTool("BIG_FACTS", func(_ context.Context, env *tools.Env) (string, error) {
			for range 3 {
				env.Record(events.LogWritten, &events.Logged{Level: "INFO", Message: big[:400]})
			}
			return "", nil
		}),
		readTool("BAD_FACT", func(_ context.Context, env *tools.Env) (string, error) {
			env.Record(events.LogWritten, &events.Logged{Context: json.RawMessage("{")})
			return "", nil
		}),
		rawTool{readTool("BAD", nil), `{"a":`},
		readTool("LONG_ERROR", func(context.Context, *tools.Env) (string, error) {
			return "", fault.New(fault.ExecFailed, "%s", strings.Repeat(big, 10))
		}),
	)
	for tool, want := range map[string]struct {
		code   fault.Code
		reason string
		field  string
	}{
		"BIG":        {fault.ValidationError, "SIZE_LIMIT_EXCEEDED", "output"},
		"BIG_FACTS":  {fault.ValidationError, "SIZE_LIMIT_EXCEEDED", "facts"},
		"BAD_FACT":   {fault.Internal, "", ""},
		"BAD":        {fault.Internal, "", ""},
		"LONG_ERROR": {fault.ExecFailed, "", ""},
	} {
		out := b.Execute(t.Context(), call(tool, `{}`))
		require.NotNil(t, out.Error, tool)
		assert.Equal(t, want.code, out.Error.Code, tool)
		assert.Equal(t, want.reason, out.Error.Reason, tool)
		assert.Equal(t, want.field, out.Error.Field, tool)
		assert.Empty(t, out.Output, tool)
		assert.Empty(t, out.Facts, tool)
		assert.Less(t, len(out.Error.Message), 5000, tool)
	}
}

// rawTool returns bytes unchanged, as a tool of an external server may.
type rawTool struct {
	tools.Tool
	output string
}

func (r rawTool) Call(context.Context, *tools.Env, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(r.output), nil
}

// no secret leaves the worker.
func TestSecretsAreTakenOut(t *testing.T) {
	t.Parallel()
	b := newBench(
		t, worker.Config{},
		readTool("LEAK", func(_ context.Context, env *tools.Env) (string, error) {
			env.Record(events.LogWritten, &events.Logged{Level: "INFO", Message: "token " + secret})
			env.Record(events.FileRead, &events.Read{Path: "/x", SHA256: "abc"})
			return "token " + secret, nil
		}),
		readTool("LEAK_ERROR", func(context.Context, *tools.Env) (string, error) {
			return "", fault.Wrap(fault.ExecFailed, os.ErrClosed, "token "+secret).WithHint("use %s", secret).WithRetryAt(time.Unix(2_000_000_000, 0))
		}),
	)
	out := b.Execute(t.Context(), call("LEAK", `{}`))
	require.Nil(t, out.Error)
	require.Len(t, out.Facts, 2)
	assert.Equal(t, events.LogWritten, out.Facts[0].Kind)
	assert.Equal(t, &events.Read{Path: "/x", SHA256: "abc"}, out.Facts[1].Data)
	failed := b.Execute(t.Context(), call("LEAK_ERROR", `{}`))
	require.NotNil(t, failed.Error)
	require.NoError(t, failed.Error.Err, "the cause stays in the log")
	assert.Equal(t, time.Unix(2_000_000_000, 0).UTC(), failed.Error.RetryAt)
	for _, o := range []work.Outcome{out, failed} {
		wire, err := json.Marshal(o)
		require.NoError(t, err)
		assert.Contains(t, string(wire), "token ")
		assert.NotContains(t, string(wire), secret)
	}
}

// Large state data of a checkpoint, and data that looks like a reference, is sent beside the fact, so that every outcome fits
// into a message.
func TestLargeFactsAreSetAside(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		state string
		aside bool
	}{
		{`{"a":1}`, false},
		{`{"$blob":"x"}`, true},
		{`{"a":"` + strings.Repeat("x", 100_000) + `"}`, true},
	} {
		b := newBench(t, worker.Config{}, readTool("POINT", func(_ context.Context, env *tools.Env) (string, error) {
			env.Record(events.CheckpointCreated, &events.Checkpointed{ID: "c", State: events.Inline(json.RawMessage(tc.state))})
			return "", nil
		}))
		out := b.Execute(t.Context(), call("POINT", `{}`))
		require.Nil(t, out.Error)
		wire, err := json.Marshal(out)
		require.NoError(t, err)
		var got work.Outcome
		require.NoError(t, json.Unmarshal(wire, &got))
		point, ok := got.Facts[0].Data.(*events.Checkpointed)
		require.True(t, ok)
		if !tc.aside {
			assert.Equal(t, tc.state, string(point.State.Raw))
			assert.Empty(t, got.Values)
			continue
		}
		assert.Equal(t, tc.state, string(got.Values[point.State.Ref()]))
	}
}

// Facts are reported in the order in which they were recorded, and only by calls that succeed.
func TestFacts(t *testing.T) {
	t.Parallel()
	record := func(env *tools.Env) {
		for _, path := range []string{"/1", "/2", "/3"} {
			env.Record(events.FileRead, &events.Read{Path: path})
		}
		env.Record(events.CheckpointCreated, &events.Checkpointed{ID: "c1", Name: "before\nthe step"})
	}
	b := newBench(
		t, worker.Config{},
		readTool("GOOD", func(_ context.Context, env *tools.Env) (string, error) {
			record(env)
			return "", nil
		}),
		readTool("BAD", func(_ context.Context, env *tools.Env) (string, error) {
			record(env)
			return "", fault.New(fault.NotFound, "no such file")
		}),
	)
	out := b.Execute(t.Context(), call("GOOD", `{}`))
	require.Nil(t, out.Error)
	require.Len(t, out.Facts, 4)
	for i, path := range []string{"/1", "/2", "/3"} {
		assert.Equal(t, &events.Read{Path: path}, out.Facts[i].Data)
	}
	notes, err := os.ReadFile(b.working("CHECKPOINTS.md"))
	require.NoError(t, err)
	assert.Contains(t, string(notes), ` c1 before\nthe step`+"\n")
	assert.Empty(t, b.Execute(t.Context(), call("BAD", `{}`)).Facts)
}

// A folder of the task that was replaced by a link is not followed.
func TestPlantedLinkIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, worker.Config{}, touchTool(t))
	require.NoError(t, os.MkdirAll(filepath.Join(b.root.Name(), "Working"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(b.root.Name(), "src"), 0o755))
	require.NoError(t, os.Symlink("../src", b.working()))
	out := b.Execute(t.Context(), call("TOUCH", `{"file_path":"`+filepath.Join(b.root.Name(), "x")+`"}`))
	require.NotNil(t, out.Error)
	assert.Equal(t, fault.OutsideRoot, out.Error.Code)
	entries, err := os.ReadDir(filepath.Join(b.root.Name(), "src"))
	require.NoError(t, err)
	assert.Empty(t, entries)
	assert.NoFileExists(t, filepath.Join(b.root.Name(), "x"))
}

func TestNewRefusesWrongConfig(t *testing.T) {
	t.Parallel()
	b := newBench(t, worker.Config{})
	for name, cfg := range map[string]worker.Config{
		"no root":          {},
		"negative":         {Root: b.root, Concurrency: -1},
		"working outside":  {Root: b.root, Working: "../x"},
		"working absolute": {Root: b.root, Working: "/"},
	} {
		_, err := worker.New(b.owner, nil, nil, cfg)
		require.Error(t, err, name)
	}
}

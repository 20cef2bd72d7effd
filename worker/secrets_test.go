package worker_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

const password = `correct "horse" battery`

type envIn struct {
	Env map[string]string `json:"env"`
}

// secretTool returns a tool that calls do with its argument, and returns the result.
func secretTool(do func(env *tools.Env, given string) (string, error)) tools.Tool {
	s := spec("USE", tools.Read)
	s.Secrets = map[string]bool{"env": false}
	return tools.Define(s, func(_ context.Context, env *tools.Env, in envIn) (text, error) {
		out, err := do(env, in.Env["PW"])
		return text{out}, err
	})
}

func secretCall() work.Call {
	c := call("USE", `{"env": {"PW": "${{ secrets.PW }}", "OTHER": "${{ secrets.PW }}"}}`)
	c.Secrets = []work.Secret{{Field: "env", Key: "PW", Name: "PW", Source: "env:WORKER_TEST_PW", Text: "${{ secrets.PW }}"}}
	return c
}

// TestSecretsLeaveNoCall lets a tool print its secret in every possible way.
func TestSecretsLeaveNoCall(t *testing.T) {
	t.Setenv("WORKER_TEST_PW", password)
	escaped, err := json.Marshal(password)
	require.NoError(t, err)
	coded := base64.StdEncoding.EncodeToString([]byte("ada:" + password))
	for name, do := range map[string]func(env *tools.Env, given string) (string, error){ //nolint:paralleltest // it sets variables
		"output": func(_ *tools.Env, given string) (string, error) { return "it is " + given, nil },
		"json":   func(*tools.Env, string) (string, error) { return string(escaped), nil },
		"base64": func(*tools.Env, string) (string, error) { return coded, nil },
		"error": func(_ *tools.Env, given string) (string, error) {
			return "", fault.New(fault.ToolFailed, "no %s", given)
		},
		"hint": func(_ *tools.Env, given string) (string, error) {
			return "", fault.Wrap(fault.ToolFailed, errors.New("cause "+given), "no").WithHint("try %s", given)
		},
		"panic": func(_ *tools.Env, given string) (string, error) { panic("at " + given) },
		"log": func(env *tools.Env, given string) (string, error) {
			env.Log.LogAttrs(t.Context(), slog.LevelInfo, "said", slog.String("with", given), slog.Any("error", errors.New("not "+given)))
			return "", nil
		},
		"progress": func(env *tools.Env, given string) (string, error) {
			env.Progress(1, 2, "at "+given)
			return "", nil
		},
		"fact": func(env *tools.Env, given string) (string, error) {
			env.Record(events.FileChanged, &events.Changed{Path: "/" + given, How: "new"})
			return "", nil
		},
		"question": func(_ *tools.Env, given string) (string, error) {
			return "", &tools.Noted{Note: json.RawMessage(`{"a": ` + string(escaped) + `}`)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var saw string
			b := newBench(t, worker.Config{Secrets: []string{"env:WORKER_TEST_*"}}, secretTool(func(env *tools.Env, given string) (string, error) {
				saw = given
				return do(env, given)
			}))
			out := b.Execute(t.Context(), secretCall())
			require.Equal(t, password, saw)
			raw, err := json.Marshal(out)
			require.NoError(t, err)
			for _, left := range []string{string(raw), b.log.String()} {
				assert.NotContains(t, left, "horse")
				assert.NotContains(t, left, coded[8:24])
			}
			if name != "progress" {
				assert.Contains(t, string(raw)+b.log.String(), "[REDACTED:secrets.PW]")
			}
		})
	}
}

// TestSecretsRefused tests calls that get no secret: their tool is not called, and the error names the secret and its source.
func TestSecretsRefused(t *testing.T) {
	t.Setenv("WORKER_TEST_PW", password)
	t.Setenv("WORKER_TEST_SHORT", "12345")
	for name, c := range map[string]struct { //nolint:paralleltest // it sets variables
		allow  string
		change func(*work.Call)
		code   fault.Code
		field  string
	}{
		"not allowed": {"env:OTHER_*", func(*work.Call) {}, fault.Forbidden, "secrets.PW"},
		"missing":     {"env:WORKER_TEST_*", func(c *work.Call) { c.Secrets[0].Source = "env:WORKER_TEST_NONE" }, fault.NotFound, "secrets.PW"},
		"short":       {"env:WORKER_TEST_*", func(c *work.Call) { c.Secrets[0].Source = "env:WORKER_TEST_SHORT" }, fault.ValidationError, "secrets.PW"},
		"other text":  {"env:WORKER_TEST_*", func(c *work.Call) { c.Secrets[0].Text = "${{ secrets.OTHER }}" }, fault.ValidationError, "env.PW"},
		"no entry":    {"env:WORKER_TEST_*", func(c *work.Call) { c.Secrets[0].Key = "NONE" }, fault.ValidationError, "env.NONE"},
		"other field": {"env:WORKER_TEST_*", func(c *work.Call) { c.Secrets[0].Field = "argv" }, fault.ValidationError, "argv.PW"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, worker.Config{Secrets: []string{c.allow}}, secretTool(func(*tools.Env, string) (string, error) {
				t.Error("the tool was called")
				return "", nil
			}))
			asked := secretCall()
			c.change(&asked)
			out := b.Execute(t.Context(), asked)
			require.NotNil(t, out.Error)
			assert.Equal(t, c.code, out.Error.Code)
			assert.Equal(t, c.field, out.Error.Field)
		})
	}
}

package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

func programOf(script string) program {
	return program{argv: []string{"/bin/sh", "-c", script}, name: "ada", url: "http://node", token: func() string { return "secret" }}
}

// Each result of a program is converted to the right report.
func TestProgramsOfAgents(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		script, result, err string
		release             bool
	}{
		"names":         {script: `echo "$ORCH_AGENT $ORCH_TASK $ORCH_STEP $ORCH_ATTEMPT $ORCH_KEY $ORCH_CALL $ORCH_URL $ORCH_TOKEN"`, result: `"ada TASK_1 a 2 key TASK_1/2/a http://node secret"`},
		"trace":         {script: `echo "$TRACEPARENT $TRACESTATE"`, result: `"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 rojo=1"`},
		"JSON":          {script: `echo '{"a":1}'`, result: `{"a":1}`},
		"silent":        {script: `:`},
		"reads nothing": {script: `exec <&-; echo 1`, result: `1`},
		"leaves one":    {script: `sleep 1000 & echo 1`, result: `1`},
		"fails":         {script: `echo no >&2; exit 3`, err: "exit status 3: no"},
		"is killed":     {script: `kill -9 $$`, err: "signal: killed"},
		"gives back":    {script: `exit 75`, release: true},
		"prints much":   {script: `head -c 5000000 /dev/zero`, err: "has printed more than"},
		"binary":        {script: `printf '\377'`, result: "\"\ufffd\""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append(append([]byte(`"`), bytes.Repeat([]byte("x"), 1<<20)...), '"')
			r := programOf(test.script).execute(t.Context(), agents.Assignment{
				Ref: work.Ref{Task: "TASK_1", Step: "a", Attempt: 2}, Key: "key", Args: args, TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", TraceState: "rojo=1",
			}, nil)
			assert.Equal(t, test.result, string(r.Result))
			assert.Equal(t, test.release, r.Release)
			assert.Contains(t, r.Error, test.err)
			assert.Equal(t, test.err == "", r.Error == "", r.Error)
		})
	}
}

// The error output of a failed program always fits into a report.
func TestComplaintsFitIntoReports(t *testing.T) {
	t.Parallel()
	r := programOf(`i=0; while [ $i -lt 2000 ]; do printf 'a\377' >&2; i=$((i+1)); done; exit 1`).execute(t.Context(), agents.Assignment{}, nil)
	assert.Contains(t, r.Error, "exit status 1")
	assert.Less(t, len(r.Error), 4<<10)
	assert.Equal(t, strings.ToValidUTF8(r.Error, ""), r.Error)
}

// Only one process at a time can be an agent.
func TestAgentIsOneProcess(t *testing.T) {
	t.Parallel()
	file, cred := filepath.Join(t.TempDir(), "ada.json"), peer.Credential{Name: "ada"}
	unlock, err := lockAgent(t.Context(), file, cred)
	require.NoError(t, err)
	_, err = lockAgent(t.Context(), file, cred)
	assert.True(t, fault.Has(err, fault.Conflict), "%v", err)
	unlock()
	unlock, err = lockAgent(t.Context(), file, cred)
	require.NoError(t, err)
	unlock()
}

// A credential is valid while its next secret, which the node may know, is.
func TestCredentialWithANextSecret(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ada.json")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	cred := peer.Credential{Name: "ada", Secret: "s", IssuedAt: at, ExpiresAt: at.Add(24 * time.Hour)}
	for next, life := range map[string]time.Duration{"": 24 * time.Hour, "n": 48 * time.Hour} {
		cred.Next = next
		require.NoError(t, saveCredential(file, cred))
		got, err := readCredential(file, at.Add(life-1))
		require.NoError(t, err)
		assert.Equal(t, cred, got)
		_, err = readCredential(file, at.Add(life))
		assert.Equal(t, fault.TokenExpired, fault.CodeOf(err))
	}
}

// Wherever a process is killed while it registers an agent again, the next one has the new credential, and no former one is
// lost that may still be valid.
func TestNewCredentialTakesThePlace(t *testing.T) {
	t.Parallel()
	file, a := filepath.Join(t.TempDir(), "ada.json"), &agentCommands{connector: &connector{env: &env{now: time.Now}}}
	save := func(name, secret string, ends time.Time) {
		t.Helper()
		require.NoError(t, saveCredential(name, peer.Credential{Name: "ada", Secret: secret, IssuedAt: ends.Add(-24 * time.Hour), ExpiresAt: ends}))
	}
	secret := func(name string) string {
		t.Helper()
		c, err := readCredential(name, time.Now())
		require.NoError(t, err)
		return c.Secret
	}
	take := func(want string) {
		t.Helper()
		kept, err := a.replaceCredential(file)
		require.NoError(t, err)
		assert.Equal(t, want, kept)
		assert.NoFileExists(t, file+".new")
	}
	later := time.Now().Add(time.Hour)
	take("") // there is none
	save(file+".new", "1", later)
	take("")
	assert.Equal(t, "1", secret(file), "the file alone was missing")
	save(file+".old", "1", later) // killed before the new one replaced it
	save(file+".new", "2", later)
	take(file + ".old")
	save(file+".new", "3", later)
	take(file + ".old.2")
	assert.Equal(t, []string{"3", "1", "2"}, []string{secret(file), secret(file + ".old"), secret(file + ".old.2")})
	save(file+".old", "1", time.Now().Add(-time.Hour))
	save(file+".new", "4", later)
	take(file + ".old")
	assert.Equal(t, "3", secret(file+".old"), "what has expired is not kept")
}

// The output of a program is reported while it runs: its newest line, and the ratio of its progress.
func TestProgramsShowProgress(t *testing.T) {
	t.Parallel()
	var seen []work.Progress
	r := programOf(`echo "1/3 fetching" >&2; echo; printf '%0300d\n' 7 >&2; echo 3/3 >&2; printf 'no end'`).execute(t.Context(), agents.Assignment{}, func(p work.Progress) { seen = append(seen, p) })
	assert.JSONEq(t, `"no end"`, string(r.Result))
	assert.Equal(t, []work.Progress{
		{Done: 1, Total: 3, Message: "fetching"}, {Done: 1, Total: 3, Message: strings.Repeat("0", 200)}, {Done: 3, Total: 3},
	}, seen)
}

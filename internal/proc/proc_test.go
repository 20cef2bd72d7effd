package proc_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
)

func TestMain(m *testing.M) {
	if script := os.Getenv(workerScript); script != "" {
		work(script)
		return
	}
	if script := os.Getenv(serviceScript); script != "" {
		keep(script)
		return
	}
	if tried, code := attacked(); tried {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

func newRunner(t *testing.T, cfg proc.Config) *proc.Runner {
	t.Helper()
	r, err := proc.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func bash(script string) proc.Command {
	return proc.Command{Name: "bash", Args: []string{"--noprofile", "--norc", "-c", script}}
}

func TestRunResult(t *testing.T) {
	t.Parallel()
	r := newRunner(t, proc.Config{})
	for _, tc := range []struct {
		name, script, stdout, stderr string
		code                         int
	}{
		{"streams are apart", "echo out; echo err >&2", "out\n", "err\n", 0},
		{"a status is a result", "exit 3", "", "", 3},
		{"a signal is 128+n", "kill -KILL $$", "", "", 137},
		{"input is empty", "read x; echo \"$? [$x]\"", "1 []\n", "", 0},
		{"there is no terminal", "tty || (: < /dev/tty) 2>/dev/null || echo none", "not a tty\nnone\n", "", 0},
		{"bytes become text", `printf 'a\xffb'`, "a\uFFFDb", "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			res, err := r.Run(t.Context(), bash(tc.script))
			require.NoError(t, err)
			assert.Equal(t, tc.stdout, res.Stdout)
			assert.Equal(t, tc.stderr, res.Stderr)
			assert.Equal(t, tc.code, res.ExitCode)
			assert.False(t, res.Truncated)
			assert.Positive(t, res.Duration)
		})
	}
}

func TestRunStdin(t *testing.T) {
	t.Parallel()
	r := newRunner(t, proc.Config{})
	text := strings.Repeat("a line of input\n", 20_000) // far more than a pipe holds
	c := bash("cat; read x; echo $?")
	c.Stdin = text
	res, err := r.Run(t.Context(), c)
	require.NoError(t, err)
	assert.Equal(t, text+"1\n", res.Stdout)
	c = bash("exec <&-; echo done")
	c.Stdin = text
	res, err = r.Run(t.Context(), c)
	require.NoError(t, err, "who does not read its input need not")
	assert.Equal(t, "done\n", res.Stdout)
}

func TestRunStartFailure(t *testing.T) {
	t.Parallel()
	r := newRunner(t, proc.Config{})
	notExecutable := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.WriteFile(notExecutable, []byte("x"), 0o600))
	for name, c := range map[string]proc.Command{
		"unknown program":   {Name: "no-such-program-here"},
		"no name":           {},
		"relative path":     {Name: "./bash"},
		"not executable":    {Name: notExecutable},
		"no such directory": {Name: "true", Dir: "/no/such/dir"},
	} {
		_, err := r.Run(t.Context(), c)
		assert.Equal(t, fault.ExecFailed, fault.CodeOf(err), name)
	}
}

func TestRunCapsOutput(t *testing.T) {
	t.Parallel()
	r := newRunner(t, proc.Config{})
	c := bash("printf 'aäb'; printf 'long error text' >&2")
	c.Limit = 2
	res, err := r.Run(t.Context(), c)
	require.NoError(t, err)
	assert.Equal(t, "a", res.Stdout, "a rune is not cut in two")
	assert.Equal(t, "lo", res.Stderr)
	assert.True(t, res.Truncated)
}

func TestRunBoundsMemory(t *testing.T) { //nolint:paralleltest // it counts what the process allocates
	const size = 1 << 30
	r := newRunner(t, proc.Config{})
	var before, after runtime.MemStats
	var seen atomic.Int64
	runtime.ReadMemStats(&before)
	res, err := r.Run(t.Context(), proc.Command{
		Name: "head", Args: []string{"-c", strconv.Itoa(size), "/dev/zero"},
		OnOutput: func(_ string, n int64) { seen.Store(n) },
	})
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	assert.True(t, res.Truncated)
	assert.Len(t, res.Stdout, proc.DefaultLimit)
	assert.EqualValues(t, size, seen.Load())
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size/4))
}

func TestRunStreamsToWriter(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	c := bash("echo one; echo two; echo three >&2")
	c.Stdout, c.Limit = &got, 4
	res, err := newRunner(t, proc.Config{}).Run(t.Context(), c)
	require.NoError(t, err)
	assert.Equal(t, "one\ntwo\n", got.String())
	assert.Empty(t, res.Stdout)
	assert.Equal(t, "thre", res.Stderr)
}

// naps is how long, in seconds, a child sleeps that is looked for by it: no other run of these tests has the same.
func naps(seconds string) string { return seconds + strconv.Itoa(os.Getpid()) }

// alive counts the processes with mark in their arguments; zombies have no arguments.
func alive(t *testing.T, mark string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	n := 0
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil && bytes.Contains(data, []byte(mark)) {
			n++
		}
	}
	return n
}

func requireNoSurvivor(t *testing.T, mark string) {
	t.Helper()
	require.Eventually(t, func() bool { return alive(t, mark) == 0 }, time.Minute, 5*time.Millisecond)
}

func TestRunTimeoutEndsGroup(t *testing.T) {
	t.Parallel()
	r := newRunner(t, proc.Config{Grace: 300 * time.Millisecond})
	for nap, script := range map[string]string{
		"61.1": "echo begun; sleep 61.1 & sleep 61.1",
		"61.2": "echo begun; trap '' TERM; sleep 61.2 & sleep 61.2",
		"61.3": "echo begun; (trap '' TERM; exec sleep 61.3) & wait",
		"61.4": "echo begun; (trap '' TERM; exec sleep 61.4 >/dev/null 2>&1) & wait",
	} {
		t.Run(nap, func(t *testing.T) {
			t.Parallel()
			c := bash(strings.ReplaceAll(script, nap, naps(nap)))
			c.Timeout = 3 * time.Second
			res, err := r.Run(t.Context(), c)
			require.Equal(t, fault.Timeout, fault.CodeOf(err))
			assert.True(t, res.TimedOut)
			assert.Equal(t, "begun\n", res.Stdout, "the output so far is kept")
			assert.Less(t, res.Duration, time.Minute)
			requireNoSurvivor(t, "sleep\x00"+naps(nap))
		})
	}
}

func TestRunCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := bash("echo begun; sleep " + naps("62.1") + " & sleep " + naps("62.1"))
	c.OnOutput = func(string, int64) { cancel() }
	res, err := newRunner(t, proc.Config{}).Run(ctx, c)
	require.Equal(t, fault.Cancelled, fault.CodeOf(err))
	assert.False(t, res.TimedOut)
	assert.Equal(t, 143, res.ExitCode)
	requireNoSurvivor(t, "sleep\x00"+naps("62.1"))

	_, err = newRunner(t, proc.Config{}).Run(ctx, bash("true"))
	assert.Equal(t, fault.Cancelled, fault.CodeOf(err), "a cancelled call starts nothing")
}

func TestRunDoesNotWaitForBackgroundProcesses(t *testing.T) {
	t.Parallel()
	r := newRunner(t, proc.Config{Grace: 100 * time.Millisecond})
	res, err := r.Run(t.Context(), bash("sleep "+naps("63.1")+" & echo done"))
	require.NoError(t, err)
	assert.Equal(t, "done\n", res.Stdout)
	assert.Zero(t, res.ExitCode)
	assert.Less(t, res.Duration, time.Minute)
	requireNoSurvivor(t, "sleep\x00"+naps("63.1"))

	// A process that leaves the session keeps the pipes open; the call returns nevertheless.
	res, err = r.Run(t.Context(), bash("setsid sleep "+naps("11.63")+" & echo done"))
	require.NoError(t, err)
	assert.Equal(t, "done\n", res.Stdout)
	assert.Less(t, res.Duration, 10*time.Second)
	requireNoSurvivor(t, "sleep\x00"+naps("11.63"))
}

func TestChildrenEndBeforeTheNodeWhenMemoryRunsOut(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		return // only Linux can be told
	}
	c := bash(`until [ "$(cat /proc/$$/oom_score_adj)" = 500 ]; do :; done; (cat /proc/self/oom_score_adj)`)
	c.Timeout = time.Minute
	res, err := newRunner(t, proc.Config{}).Run(t.Context(), c)
	require.NoError(t, err)
	assert.Equal(t, "500\n", res.Stdout)
}

func TestRunEnvironment(t *testing.T) {
	t.Parallel()
	r := newRunner(t, proc.Config{
		Inherit: []string{"LANG", "GOPROXY", "HTTP_PROXY"},
		Environ: []string{
			"LANG=C", "ORCH_BEARER=canary", "GITHUB_TOKEN=canary", "PATH=/evil", "UNLISTED=canary",
			"GOPROXY=https://user:canary@proxy.example", "HTTP_PROXY=http://proxy.example",
		},
	})
	res, err := r.Run(t.Context(), proc.Command{Name: "env", Env: map[string]string{"LANG": "de", "EXTRA": "1"}})
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(res.Stdout), "\n")
	mark := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "ORCH_STARTED_BY=") })
	require.GreaterOrEqual(t, mark, 0, "by which the reaper finds it")
	assert.ElementsMatch(t, []string{
		"PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"LANG=de", "EXTRA=1", "HTTP_PROXY=http://proxy.example",
	}, slices.Delete(lines, mark, mark+1))
}

func TestGoCachesFollowTheHomeOfTheNode(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ environ, want []string }{
		{[]string{"HOME=/h"}, []string{"HOME=/h", "GOCACHE=/h/.cache/go-build", "GOMODCACHE=/h/go/pkg/mod"}},
		{[]string{"HOME=/h", "GOCACHE=/c", "GOPATH=/p"}, []string{"HOME=/h", "GOCACHE=/c", "GOPATH=/p"}},
		{[]string{}, nil},
	} {
		res, err := newRunner(t, proc.Config{Environ: tc.environ}).Run(t.Context(), proc.Command{Name: "env"})
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSpace(res.Stdout), "\n")
		assert.ElementsMatch(t, tc.want, slices.DeleteFunc(lines[1:], func(l string) bool { return strings.HasPrefix(l, "ORCH_STARTED_BY=") }))
	}
}

func TestSecretNamesAreRefused(t *testing.T) {
	t.Parallel()
	r := newRunner(t, proc.Config{})
	for _, name := range []string{"ORCH_X", "orch_home", "AWS_SECRET_ACCESS_KEY", "NPM_TOKEN", "DB_PASSWORD", "OPENAI_API_KEY", "SSH_AUTH_SOCK", "", "A=B", "A\x00B"} {
		_, err := r.Run(t.Context(), proc.Command{Name: "true", Env: map[string]string{name: "x"}})
		assert.Equal(t, fault.ValidationError, fault.CodeOf(err), name)
	}
	for _, cfg := range []proc.Config{
		{Inherit: []string{"ORCH_TOKEN"}},
		{Path: []string{"bin"}},
		{Path: []string{"/bin:/evil"}},
		{Grace: -1},
	} {
		_, err := proc.New(cfg)
		assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
	}
}

func TestLookPathIgnoresThePathOfTheNode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tool := filepath.Join(dir, "mytool")
	require.NoError(t, os.WriteFile(tool, []byte("#!/bin/sh\necho mine\n"), 0o700))
	r := newRunner(t, proc.Config{Path: []string{"/nowhere", dir}})
	found, err := r.LookPath("mytool")
	require.NoError(t, err)
	assert.Equal(t, tool, found)
	_, err = r.LookPath("ls")
	assert.Equal(t, fault.ExecFailed, fault.CodeOf(err))
}

func FuzzOutputIsText(f *testing.F) {
	f.Add([]byte("aäb\xff"), uint8(2))
	r, err := proc.New(proc.Config{})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, data []byte, limit uint8) {
		file := filepath.Join(t.TempDir(), "data")
		require.NoError(t, os.WriteFile(file, data, 0o600))
		res, err := r.Run(t.Context(), proc.Command{Name: "cat", Args: []string{file}, Limit: int64(limit) + 1})
		require.NoError(t, err)
		assert.True(t, utf8.ValidString(res.Stdout))
		assert.Equal(t, len(data) > int(limit)+1, res.Truncated)
	})
}

// The output of both streams is shown in whole lines, in order, with an incomplete last line.
func TestOutputIsShownInLines(t *testing.T) {
	t.Parallel()
	r := newRunner(t, proc.Config{})
	var shown []string
	c := proc.Command{Name: "sh", Args: []string{"-c", `printf one; printf 'a\nb' >&2; printf 'two\n'; printf 'three\rfour'; head -c 20000 /dev/zero | tr '\0' x >&2`}, Dir: t.TempDir(), Output: func(p []byte) { shown = append(shown, string(p)) }}
	_, err := r.Run(t.Context(), c)
	require.NoError(t, err)
	all := strings.Join(shown, "")
	for _, part := range []string{"onetwo\n", "a\n", "three\r", "four"} {
		assert.Contains(t, all, part)
	}
	assert.Equal(t, 20000, strings.Count(all, "x"), "a long line comes in parts")
	assert.Len(t, all, len("onea\nbtwo\nthree\rfour")+20000)
}

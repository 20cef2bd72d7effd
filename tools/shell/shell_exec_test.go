package shell_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sh "mvdan.cc/sh/v3/shell"

	classify "github.com/orch-dev/orch/classify/shell"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/shell"
	"github.com/orch-dev/orch/tools/toolstest"
)

type execOutput struct {
	ExitCode  int    `json:"exit_code"`
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	Truncated bool   `json:"truncated"`
}

func shellExec(t *testing.T) tools.Tool {
	t.Helper()
	tool := shell.Tools()[1]
	require.Equal(t, "shell_exec", tool.Spec().Name)
	return tool
}

// world is a root with files and links, next to a secret.
type world struct{ *tools.Env }

const secret = "CANARY-outside-of-the-root"

func newWorld(t *testing.T) world {
	t.Helper()
	base := t.TempDir()
	root := filepath.Join(base, "root")
	for path, text := range map[string]string{
		"outside/secret":    secret + "\n",
		"root/a.txt":        "alpha 1\nbeta 2\nalpha 1\n",
		"root/b.txt":        "alpha,3\n",
		"root/words":        "alpha\n",
		"root/names":        "../outside/secret\n",
		"root/names0":       "../outside/secret\x00",
		"root/script.sed":   "w pwn\n",
		"root/prog.awk":     "BEGIN { system(\"touch pwn\") }\n",
		"root/evil.sh":      "#!/bin/sh\ntouch pwn\n",
		"root/cat":          "#!/bin/sh\ntouch pwn\n",
		"root/dir/c.txt":    "gamma\n",
		"root/sub/a.txt":    "alpha\n",
		"root/sub/c.txt":    "delta\n",
		"root/sub/deep/d.x": "alpha\n",
	} {
		path = filepath.Join(base, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	}
	for link, target := range map[string]string{
		"out-file": "../outside/secret", "outdir": "../outside", "out-abs": filepath.Join(base, "outside", "secret"),
		"link-in": "a.txt", "link-dir": "dir", "link-root": ".", "dangling": "../outside/new", "dir/up": "../sub",
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(root, link)))
	}
	guard, err := pathguard.Open(root)
	require.NoError(t, err)
	t.Cleanup(func() { guard.Close() })
	env := newEnv(t)
	env.Root = guard
	return world{env}
}

// run calls shell_exec with a command line in shell quoting; ROOT stands for the root.
func (w world) run(t *testing.T, line string) (execOutput, error) {
	t.Helper()
	words, err := sh.Fields(strings.ReplaceAll(line, "ROOT", w.Root.Name()), func(string) string { return "" })
	require.NoError(t, err, line)
	return w.exec(t, words[0], words[1:]...)
}

func (w world) exec(t *testing.T, command string, args ...string) (execOutput, error) {
	t.Helper()
	tool := shellExec(t)
	raw, err := json.Marshal(map[string]any{"command": command, "args": append([]string{}, args...)})
	require.NoError(t, err)
	if raw, err = tool.Check(raw); err != nil {
		return execOutput{}, err
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	data, err := tool.Call(ctx, w.Env, raw)
	var out execOutput
	if err == nil {
		toolstest.Output(t, tool, data)
		require.NoError(t, json.Unmarshal(data, &out))
	}
	return out, err
}

// tree returns a digest of everything in and next to the root: names, types, sizes, times, contents.
func (w world) tree(t *testing.T) string {
	t.Helper()
	sum := sha256.New()
	base := filepath.Dir(w.Root.Name())
	require.NoError(t, filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sum.Write([]byte(path + info.Mode().String() + info.ModTime().String()))
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			sum.Write(data)
			return err
		}
		return nil
	}))
	return hex.EncodeToString(sum.Sum(nil))
}

func lines(t *testing.T, name string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "args", name+".txt"))
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// escapes returns, for every command with file arguments, each way to name a file outside of the root.
func escapes() []string {
	var all []string
	for _, command := range []string{
		"cat", "head", "tail", "wc", "sort", "uniq", "cut -c1", "file", "stat", "ls", "du", "grep x", "rg x", "sed p", "awk 1", "find", "diff a.txt",
	} {
		for _, path := range []string{
			"/etc/passwd", "../outside/secret", "out-file", "out-abs", "outdir/secret", "ROOT/../outside/secret", "./link-root/../outside/secret",
			"sub/../../outside/secret", "ROOTX/a.txt", "//etc//passwd", "dangling", "/", "link-dir/../../outside/secret", "/../etc/passwd",
		} {
			all = append(all, command+" "+path)
		}
	}
	return all
}

// S4-054, S4-059, S4-060, A-99: none of these runs, on a read-only node or any other: the tool does not know the
// difference. Nothing changes.
func TestShellExecRefusesAttacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before, attacks, allowed := w.tree(t), append(lines(t, "attacks"), escapes()...), 0
	for _, attack := range attacks {
		out, err := w.run(t, attack)
		code := fault.CodeOf(err)
		if code != fault.OutsideRoot && code != fault.ValidationError {
			allowed++
			t.Errorf("%s: %v %+v", attack, err, out)
			continue
		}
		assert.True(t, strings.HasPrefix(fault.From(err).Field, "args"), attack)
		assert.NotContains(t, err.Error(), secret)
	}
	assert.Equal(t, before, w.tree(t))
	assert.GreaterOrEqual(t, len(attacks), 600)
	t.Logf("%d attacks, %d wrongly allowed", len(attacks), allowed)
}

// Ordinary commands are accepted; they change nothing and show nothing from outside.
func TestShellExecAllowsHarmless(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before, harmless, refused := w.tree(t), lines(t, "harmless"), 0
	for _, line := range harmless {
		out, err := w.run(t, line)
		program, _, _ := strings.Cut(line, " ")
		missing := !need.Installed(program) && fault.Has(err, fault.ExecFailed)
		if err != nil && !missing {
			refused++
			t.Logf("%s: %v", line, err)
		}
		assert.NotContains(t, out.Stdout+out.Stderr, secret, line)
	}
	assert.Equal(t, before, w.tree(t))
	assert.GreaterOrEqual(t, len(harmless), 300)
	assert.LessOrEqual(t, refused*100, len(harmless), "at most one of a hundred")
	t.Logf("%d harmless, %d wrongly refused", len(harmless), refused)
	for _, program := range []string{"file", "rg"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			need.Program(t, program) // its lines went through
		})
	}
}

// Random arguments that the policy accepts change nothing and show nothing from outside.
func TestShellExecRandomArguments(t *testing.T) {
	t.Parallel()
	const rounds = 1200
	w := newWorld(t)
	var pool []string
	for _, line := range append(lines(t, "attacks"), lines(t, "harmless")...) {
		words, err := sh.Fields(line, func(string) string { return "" })
		require.NoError(t, err)
		pool = append(pool, words[1:]...)
	}
	commands := slices.DeleteFunc(classify.ReadOnlyCommands(), func(c string) bool { return c == "rg" })
	before, ran := w.tree(t), 0
	random := rand.New(rand.NewPCG(1, 2))
	for range rounds {
		command := commands[random.IntN(len(commands))]
		args := make([]string, 1+random.IntN(4))
		for i := range args {
			args[i] = pool[random.IntN(len(pool))]
		}
		out, err := w.exec(t, command, args...)
		if err != nil {
			continue
		}
		ran++
		require.NotContains(t, out.Stdout+out.Stderr, secret, "%s %q", command, args)
		require.NotContains(t, out.Stdout, "root:x:0:", "%s %q", command, args)
		if ran%20 == 0 {
			require.Equal(t, before, w.tree(t), "%s %q", command, args)
		}
	}
	require.Equal(t, before, w.tree(t))
	assert.Greater(t, ran, rounds/20)
	t.Logf("%d of %d random calls ran", ran, rounds)
}

// S4-051, S4-052: exactly these commands.
func TestShellExecCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, command := range []string{"mkdir", "mv", "rm", "bash", "sh", "python3", "/bin/cat", "CAT", "cat ", " cat", "./cat", "egrep", "gawk", "cat\n", "cat\x00"} {
		_, err := w.exec(t, command, "a.txt")
		e := fault.From(err)
		require.NotNil(t, e, command)
		assert.Equal(t, fault.CommandNotAllowed, e.Code)
		assert.Equal(t, "CommandNotAllowed", e.Reason)
		assert.Equal(t, "command", e.Field)
		for _, permitted := range []string{
			"grep", "sed", "awk", "find", "cat", "head", "tail", "wc", "sort", "uniq", "cut", "tr", "diff", "file", "stat", "ls", "du", "rg",
		} {
			assert.Contains(t, e.Message, permitted)
		}
	}
	assert.Len(t, classify.ReadOnlyCommands(), 18)
	_, err := w.exec(t, "")
	assert.Equal(t, "command", fault.From(err).Field)
}

// S4-053, S4-056 to S4-058.
func TestShellExecRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out, err := w.run(t, "grep nothing a.txt")
	require.NoError(t, err)
	assert.Equal(t, execOutput{ExitCode: 1}, out)

	out, err = w.run(t, "cat")
	require.NoError(t, err, "the input is empty")
	assert.Zero(t, out.ExitCode)

	out, err = w.run(t, "cat a.txt")
	require.NoError(t, err)
	assert.Equal(t, "alpha 1\nbeta 2\nalpha 1\n", out.Stdout, "not the program cat in the root")

	for _, inert := range []string{"; touch pwn", "$(touch pwn)", "| touch pwn", "> pwn", "`touch pwn`", "*", "& touch pwn", "\ntouch pwn"} {
		out, err := w.exec(t, "ls", inert)
		require.NoError(t, err)
		assert.Equal(t, 2, out.ExitCode, "a name and nothing else")
		assert.NoFileExists(t, filepath.Join(w.Root.Name(), "pwn"))
	}
	_, err = w.exec(t, "cat", "a\x00b")
	assert.Equal(t, "args[0]", fault.From(err).Field)
}

// S4-055: the text form.
func TestShellExecText(t *testing.T) {
	t.Parallel()
	text, ok := shellExec(t).(tools.Texter)
	require.True(t, ok)
	assert.Equal(t, "exit_code: 2\nstdout:\nout\n\nstderr:\nerr", text.Text(json.RawMessage(`{"exit_code":2,"stdout":"out\n","stderr":"err"}`)))
	assert.Equal(t, "exit_code: 0\nstdout:\n\nstderr:\n", text.Text(json.RawMessage(`{}`)))
}

// S4-057, A-98: the error for a command that is not installed.
func TestShellExecNotInstalled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var err error
	w.Exec, err = proc.New(proc.Config{Path: []string{"/nowhere"}})
	require.NoError(t, err)
	_, err = w.run(t, "rg alpha")
	assert.Equal(t, fault.ExecFailed, fault.CodeOf(err))
	assert.Contains(t, err.Error(), "not installed")
}

// S4-058: a command that blocks is stopped at the time limit of the call.
func TestShellExecEndsInTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, syscall.Mkfifo(filepath.Join(w.Root.Name(), "pipe"), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := shellExec(t).Call(ctx, w.Env, json.RawMessage(`{"command":"tail","args":["pipe"]}`))
	assert.Equal(t, fault.Timeout, fault.CodeOf(err))
}

// Links in a directory are checked only if a command would follow them.
func TestShellExecFollowsLinksInside(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out, err := w.run(t, "grep -R alpha dir")
	require.NoError(t, err)
	assert.Contains(t, out.Stdout, "dir/up/deep/d.x:alpha")
	require.NoError(t, os.Symlink("../../outside", filepath.Join(w.Root.Name(), "sub", "out")))
	_, err = w.run(t, "grep -R alpha dir")
	assert.Equal(t, fault.OutsideRoot, fault.CodeOf(err), "dir/up leads to sub, sub/out leads out")
	assert.Equal(t, "OutsideRoot", fault.From(err).Reason)
	_, err = w.run(t, "grep -r alpha dir")
	assert.NoError(t, err)
}

// Random scripts that the policy accepts only print.
func TestShellExecRandomScripts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.tree(t)
	random := rand.New(rand.NewPCG(3, 4))
	for command, fragments := range map[string][]string{
		"sed": {
			"w pwn", "W pwn", "e touch pwn", "r ../outside/secret", "R ../outside/secret", "s/a/b/", "s/a/b/w pwn", "s/a/touch pwn/e", "p", "b", "b x", ":x", "t", "T",
			"{", "}", ";", "\n", " ", "!", "1", "$", "/a/", "/[/]/", "\\,a,", "a\\", "a x", "i\\\n", "c", "#", "y/a/b/", "s,[,],x,", "/", "\\", ",", "I", "M",
			"q", "n", "N", "=", "l", "x", "s/[/", "]/", "g", "2", "\t", "\r", "\v", "\f", "s\n", "sxaxbx", "w", "0~2", "+1", "-",
		},
		"awk": {
			"system(\"touch pwn\")", "print > \"pwn\"", "print | \"touch pwn\"", "getline x < \"../outside/secret\"", "print x", "print", "BEGIN", "END", "{", "}", "(", ")",
			"/", "\"", "#", "\n", ";", " ", "[", "]", "\\", "/a/", "/[/]/", "/[\"]/", "\"/\"", "x=", "$1", "~", "!", ">", ">>", "|", "||", "&&", ",", "1", "if(1)", "else", "return",
			"printf", "\"pwn\"", "/[]/\"]/", "/[^/]/", "in", "++", "-", "ARGV[1]=\"../outside/secret\"", "ARGC=2", "while(0)", "function f(a)", "next", "\r", "[[:alpha:]/]", "/\"/",
		},
	} {
		ran := 0
		for range 4000 {
			var script strings.Builder
			for range 1 + random.IntN(7) {
				script.WriteString(fragments[random.IntN(len(fragments))])
			}
			if _, err := classify.ReadOnlyArgs(command, []string{script.String(), "a.txt"}); err != nil || ran == randomScripts {
				continue
			}
			ran++
			out, err := w.exec(t, command, script.String(), "a.txt")
			if err != nil {
				continue // ended by the clock
			}
			require.NotContains(t, out.Stdout+out.Stderr, secret, "%s %q", command, script.String())
			if ran%50 == 0 {
				require.Equal(t, before, w.tree(t), "one of the last 50 before %s %q", command, script.String())
			}
		}
		require.Equal(t, before, w.tree(t))
		assert.Greater(t, ran, 50, command)
	}
}

// randomScripts limits the scripts that are run for each command.
const randomScripts = 300

// A command can read only the part of the root that the client of the task permits, even if no argument is a path
// (S2-050).
func TestCommandsStayInTheRootsOfTheClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Client = &events.Client{Roots: []string{filepath.Join(w.Root.Name(), "sub")}}
	out, err := w.run(t, "grep -rh . ROOT/sub")
	require.NoError(t, err)
	assert.Equal(t, 3, strings.Count(out.Stdout, "\n"), out.Stdout)
	out, err = w.run(t, "grep -rh .")
	require.NoError(t, err)
	assert.NotContains(t, out.Stdout, "gamma")
	out, err = w.run(t, "cat a.txt")
	require.NoError(t, err)
	assert.Empty(t, out.Stdout)
}

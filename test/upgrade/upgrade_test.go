package upgrade_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/test/need"
)

// previous builds the program of the previous release. It skips the test if the history of the repository does not reach back to it.
func previous(t *testing.T) string {
	t.Helper()
	need.Long(t)
	need.Program(t, "go", "git")
	text, err := os.ReadFile("previous")
	require.NoError(t, err)
	commit, dir := strings.TrimSpace(string(text)), t.TempDir()
	if err := exec.Command("git", "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		t.Skipf("the history of this repository is shallow: it has no commit %s", commit)
	}
	archive := exec.Command("git", "archive", "--format=tar", "-o", filepath.Join(dir, "source.tar"), commit)
	archive.Dir = filepath.Join("..", "..")
	for _, c := range []*exec.Cmd{archive, exec.Command("tar", "-xf", "source.tar"), exec.Command("go", "build", "-o", "orch", "./cmd/orch")} {
		if c.Dir == "" {
			c.Dir = dir
		}
		output, err := c.CombinedOutput()
		require.NoError(t, err, "%s: %s", c, output)
	}
	return filepath.Join(dir, "orch")
}

// world is a data directory on which programs of several versions run, one after the other.
type world struct {
	root, data string
	node       *exec.Cmd
	// known are the hashes of the commits that some program has shown, by task.
	known map[string][]string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{root: t.TempDir(), data: filepath.Join(t.TempDir(), "data"), known: map[string][]string{}}
	require.NoError(t, os.WriteFile(filepath.Join(w.root, "text"), []byte("what the worker reads"), 0o600))
	for name, steps := range map[string]string{
		"done": "{id: a, set: {n: 1}}", "signal": "{id: a, wait: {signal: go}}", "timer": "{id: a, wait: {for: 87600h}}",
		"approval": `{id: ok, approve: {description: "May it go on?", timeout: 87600h}}`,
		"read":     `{id: a, tool: FILE_READ, with: {file_path: ` + filepath.Join(w.root, "text") + `}}`,
	} {
		text := "orch: v1\nname: " + name + "\nsteps: [" + steps + "]\n"
		require.NoError(t, os.WriteFile(filepath.Join(w.root, name+".yaml"), []byte(text), 0o600))
	}
	return w
}

func (w *world) command(program string, args ...string) *exec.Cmd {
	c := exec.Command(program, args...)
	c.Dir, c.Env = w.root, append(os.Environ(), "HOME="+w.root, "ORCH_DATA_DIR="+w.data)
	return c
}

// run runs a command that must succeed, and returns what it prints.
func (w *world) run(t *testing.T, program string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c := w.command(program, args...)
	c.Stdout, c.Stderr = &stdout, &stderr
	require.NoError(t, c.Run(), "%v: %s", args, stderr.String())
	return stdout.String()
}

// submit submits a plan that stays open, and returns the id of the task.
func (w *world) submit(t *testing.T, program, plan string) string {
	t.Helper()
	return strings.TrimSpace(w.run(t, program, "submit", plan+".yaml", "--detach"))
}

// start starts a node.
func (w *world) start(t *testing.T, program string, flags ...string) {
	t.Helper()
	w.node = w.command(program, append([]string{"serve", "--http", "off"}, flags...)...)
	require.NoError(t, w.node.Start())
	pid := `"pid":` + strconv.Itoa(w.node.Process.Pid)
	require.Eventually(t, func() bool {
		data, err := os.ReadFile(filepath.Join(w.data, "node.json"))
		return err == nil && strings.Contains(string(data), pid)
	}, time.Minute, 10*time.Millisecond, "the node is ready")
}

// stop ends the node with a signal.
func (w *world) stop(t *testing.T, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, w.node.Process.Signal(sig))
	err := w.node.Wait()
	if sig != syscall.SIGKILL {
		require.NoError(t, err)
	}
}

// look checks that a program shows each commit that any program has shown before, and remembers the new ones.
func (w *world) look(t *testing.T, program string) {
	t.Helper()
	var list struct {
		Tasks []struct{ ID string }
	}
	require.NoError(t, json.Unmarshal([]byte(w.run(t, program, "list", "--limit", "1000", "-o", "json")), &list))
	found := map[string]bool{}
	for _, task := range list.Tasks {
		found[task.ID] = true
		var commits []struct{ Hash string }
		require.NoError(t, json.Unmarshal([]byte(w.run(t, program, "history", task.ID, "-o", "json")), &commits))
		hashes := []string{}
		for _, c := range commits {
			hashes = append(hashes, c.Hash)
		}
		before := w.known[task.ID]
		require.GreaterOrEqual(t, len(hashes), len(before), task.ID)
		require.True(t, slices.Equal(before, hashes[:len(before)]), "the history of %s goes on", task.ID)
		w.known[task.ID] = hashes
	}
	for id := range w.known {
		require.True(t, found[id], "%s is there", id)
	}
	w.run(t, program, "verify")
}

// The previous release and this program on one data directory, and a worker of the one at a node of the other.
func TestPreviousRelease(t *testing.T) {
	t.Parallel()
	old := previous(t)
	current, err := need.Orch(t.TempDir())
	require.NoError(t, err)
	for name, test := range map[string]func(t *testing.T, old, current string){
		"there and back": thereAndBack, "refuses": refuses, "worker": oldWorker, "node": oldNode,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, old, current)
		})
	}
}

// On one data directory the previous release and this program take turns, and nothing is lost: whatever one of them has acknowledged,
// the other goes on with, also after a kill.
func thereAndBack(t *testing.T, old, current string) {
	t.Helper()
	w := newWorld(t)
	waiting := map[string]string{} // by the program that has submitted it
	for i, program := range []string{old, current, old, current, old, current} {
		w.start(t, program)
		for _, id := range waiting {
			w.run(t, program, "signal", id, "go", "x:=1")
			w.run(t, program, "watch", id)
		}
		w.run(t, program, "submit", "done.yaml")
		w.submit(t, program, "timer")
		w.submit(t, program, "approval")
		w.known[w.submit(t, program, "signal")] = nil
		clear(waiting)
		waiting[program] = w.submit(t, program, "signal")
		if i%2 == 1 {
			w.run(t, program, "archive", "--age", "0s", "--wait")
		}
		w.look(t, program)
		w.stop(t, []syscall.Signal{syscall.SIGINT, syscall.SIGKILL, syscall.SIGKILL}[i%3])
	}
}

// The previous release refuses a store whose version it does not know, and changes nothing in it.
func refuses(t *testing.T, old, current string) {
	t.Helper()
	for name, reason := range map[string][]string{
		"held": {"hold", "@last", "--reason", "case 4711"}, "finalized": {"upgrade", "finalize"}, "finalized by a node": {"upgrade", "finalize"},
	} {
		w := newWorld(t)
		w.run(t, old, "submit", "done.yaml")
		if name == "finalized by a node" {
			w.start(t, current)
		}
		w.run(t, current, reason...)
		if w.node != nil {
			w.stop(t, syscall.SIGINT)
		}
		for _, args := range [][]string{{"serve", "--http", "off"}, {"submit", "done.yaml"}, {"doctor", "--salvage"}} {
			output, err := w.command(old, args...).CombinedOutput()
			require.Error(t, err, "%v: %s", args, name)
			assert.Contains(t, string(output), "NEWER_STORE", "%v: %s", args, name)
		}
		output, err := w.command(old, "list").CombinedOutput()
		if name == "held" {
			require.NoError(t, err, "%s: it reads what it knows", output)
		} else {
			require.ErrorContains(t, err, "exit status 11", "%s: it cannot read commits that are compressed", output)
		}
		w.look(t, current)
		w.run(t, current, "submit", "done.yaml")
	}
}

// A worker of the previous release works for a node of this one, and its command line is answered.
func oldWorker(t *testing.T, old, current string) {
	t.Helper()
	w := newWorld(t)
	w.start(t, current, "--concurrency", "0")
	worker := w.command(old, "worker")
	require.NoError(t, worker.Start())
	id := w.submit(t, old, "read")
	w.run(t, old, "watch", id)
	assert.Contains(t, w.run(t, current, "history", id, "-o", "json"), "what the worker reads")
	require.NoError(t, worker.Process.Signal(os.Interrupt))
	require.NoError(t, worker.Wait())
	w.stop(t, syscall.SIGINT)
}

// A command line of this version works with a node of the previous release as far as that has the commands. What it has not is refused
// by name, and a worker of this version ends.
func oldNode(t *testing.T, old, current string) {
	t.Helper()
	w := newWorld(t)
	w.start(t, old, "--concurrency", "0")
	id := w.submit(t, current, "signal")
	w.run(t, current, "signal", id, "go", "x:=1")
	w.run(t, current, "watch", id)
	w.look(t, current)
	for code, args := range map[int][]string{2: {"schedule", "list"}, 11: {"worker"}} {
		output, err := w.command(current, args...).CombinedOutput()
		var ended *exec.ExitError
		require.ErrorAs(t, err, &ended, "%v: %s", args, output)
		assert.Equal(t, code, ended.ExitCode(), "%v: %s", args, output)
		assert.Contains(t, string(output), "version of orch", "%v says what to do", args)
	}
	w.stop(t, syscall.SIGINT)
}

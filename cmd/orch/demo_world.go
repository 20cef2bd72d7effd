package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
)

//go:embed demo
var demoFiles embed.FS

// demoWorld is the folder of a demonstration, in which its programs run. The folder work is the root of the node. It
// contains the repository project, its remote origin.git, and the files of the agent.
type demoWorld struct {
	*env

	dir, work, project string
	node               *demoNode
}

// newDemoWorld makes the folder, without its contents.
func newDemoWorld(e *env) (*demoWorld, error) {
	dir, err := os.MkdirTemp("", "orch-demo-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir) // tools are given real paths
	}
	if err != nil {
		return nil, fault.Wrap(fault.Forbidden, err, "the folder of the demonstration cannot be made").WithHint("set TMPDIR to a folder that you may write")
	}
	work := filepath.Join(dir, "work")
	return &demoWorld{env: e, dir: dir, work: work, project: filepath.Join(work, "project")}, nil
}

// remove stops the node, and removes the folder unless it is kept.
func (w *demoWorld) remove(keep bool) error {
	if w.node != nil {
		w.node.stop()
	}
	if keep {
		return nil
	}
	if err := os.RemoveAll(w.dir); err != nil {
		return fault.New(fault.Internal, "%s cannot be removed: %w", w.dir, err).WithHint("remove it yourself")
	}
	return nil
}

// fill writes the files and makes the repository and its remote.
func (w *demoWorld) fill(ctx context.Context) error {
	files := map[string]string{
		"add.sh":     "work/project/add.sh",
		"test.sh":    "work/project/test.sh",
		"agent.yaml": "work/.orch/agents/repair.yaml",
		"model.yaml": "work/.orch/models/repair.yaml",
	}
	for name, place := range files {
		if err := w.writeFile(name, filepath.Join(w.dir, place)); err != nil {
			return fault.Wrap(fault.Internal, err, "the demonstration cannot be set up")
		}
	}
	if err := os.MkdirAll(filepath.Join(w.dir, "home"), 0o700); err != nil {
		return fault.Wrap(fault.Internal, err, "the demonstration cannot be set up")
	}
	return w.makeRepository(ctx)
}

// writeFile writes an embedded file to a place, with the path of the project in it.
func (w *demoWorld) writeFile(name, place string) error {
	text, err := demoFiles.ReadFile("demo/" + name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
		return err
	}
	return os.WriteFile(place, bytes.ReplaceAll(text, []byte("PROJECT"), []byte(w.project)), 0o600)
}

// makeRepository makes the repository of the project, with one commit that is pushed to a bare one.
func (w *demoWorld) makeRepository(ctx context.Context) error {
	for _, args := range [][]string{
		{"init", "-q", "--bare", "-b", "main", "origin.git"},
		{"init", "-q", "-b", "main", "project"},
		{"-C", "project", "config", "user.name", "Demo"},
		{"-C", "project", "config", "user.email", "demo@example.com"},
		{"-C", "project", "remote", "add", "origin", filepath.Join(w.work, "origin.git")},
		{"-C", "project", "add", "."},
		{"-C", "project", "commit", "-q", "-m", "feat: add two numbers"},
		{"-C", "project", "push", "-q", "-u", "origin", "main"},
	} {
		if _, err := w.output(ctx, "git", args...); err != nil {
			return err
		}
	}
	return nil
}

// command returns a program that runs in the folder work. orch stands for this program.
func (w *demoWorld) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	const patience = 10 * time.Second
	if program == "orch" {
		program = w.exe
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = w.work, demoEnviron(os.Environ(), w.dir)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = patience
	return cmd
}

// demoEnviron returns an environment without the settings of orch and git and with a home and data of the demonstration.
func demoEnviron(environ []string, dir string) []string {
	var kept []string
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if name != "HOME" && !strings.HasPrefix(name, "ORCH_") && !strings.HasPrefix(name, "GIT_") && !strings.HasPrefix(name, "XDG_") {
			kept = append(kept, pair)
		}
	}
	return append(kept, "HOME="+filepath.Join(dir, "home"), "ORCH_DATA_DIR="+filepath.Join(dir, "data"), "GIT_CONFIG_NOSYSTEM=1")
}

// output runs a program and returns what it writes to stdout.
func (w *demoWorld) output(ctx context.Context, program string, args ...string) (string, error) {
	out, err := w.command(ctx, program, args...).Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return "", fault.New(fault.ExecFailed, "%s failed: %w", commandLine(program, args), err).WithHint("orch doctor looks for the cause")
	}
	return string(out), nil
}

// show prints a command line and runs it. Its output, of both streams, follows, if keep returns true for the line.
func (w *demoWorld) show(ctx context.Context, keep func(line string) bool, program string, args ...string) error {
	w.say("$ %s", commandLine(program, args))
	cmd := w.command(ctx, program, args...)
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if keep == nil || keep(line) {
			w.say("%s", strings.TrimRight(line, "\n"))
		}
	}
	if err != nil {
		return fault.New(fault.ExecFailed, "%s failed: %w", commandLine(program, args), err).WithHint("orch doctor looks for the cause")
	}
	return nil
}

// commandLine returns a command as one types it.
func commandLine(program string, args []string) string {
	words := []string{program}
	for _, arg := range args {
		if strings.Contains(arg, " ") {
			arg = `"` + arg + `"`
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}

// say prints a line.
func (w *demoWorld) say(format string, args ...any) {
	_, _ = io.WriteString(w.out, screen.EscapeLines(fmt.Sprintf(format, args...))+"\n") // if stdout is closed, nobody reads the line
}

// chapter prints the heading of a part.
func (w *demoWorld) chapter(heading string) {
	w.say("")
	_, _ = io.WriteString(w.out, w.style(w.outTTY).Bold("== "+heading)+"\n") // as say
}

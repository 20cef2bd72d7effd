package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/internal/pause"
)

//go:embed demo
var demoFiles embed.FS

// demoWorld is the folder of a demonstration, in which its programs run. The folder work is the root of the node. It
// contains the repository project, its remote origin.git, and the files of the agent. The folder bin has orch with the
// settings and the data of the demonstration.
type demoWorld struct {
	*env

	model                   demoModel
	dir, work, project, bin string
	node                    *demoNode
	// fast makes no pauses for reading. calm makes them also while a task is followed, when nothing is to be done in time any more.
	fast, calm bool
}

// newDemoWorld makes the folder, without its contents.
func newDemoWorld(e *env, model demoModel) (*demoWorld, error) {
	dir, err := os.MkdirTemp("", "orch-demo-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir) // tools are given real paths
	}
	if err != nil {
		return nil, fault.Wrap(fault.Forbidden, err, "the folder of the demonstration cannot be made").WithHint("set TMPDIR to a folder that you may write")
	}
	work := filepath.Join(dir, "work")
	return &demoWorld{env: e, model: model, dir: dir, work: work, project: filepath.Join(work, "project"), bin: filepath.Join(dir, "bin")}, nil
}

// close stops the node, and removes the folder unless it is kept.
func (w *demoWorld) close(keep bool) error {
	if w.node != nil {
		w.node.stop()
	}
	if keep {
		w.say("")
		w.say("%s is kept; rm -r removes it. Its commands work after this one:", w.dir)
		w.prompt(w.entry())
		return w.keepProgram()
	}
	if err := os.RemoveAll(w.dir); err != nil {
		return fault.New(fault.Internal, "%s cannot be removed: %w", w.dir, err).WithHint("remove it yourself")
	}
	return nil
}

// fill writes the files and makes the repository and its remote.
func (w *demoWorld) fill(ctx context.Context) error {
	files := map[string]string{
		"add.sh":      "work/project/add.sh",
		"test.sh":     "work/project/test.sh",
		"agent.yaml":  "work/.orch/agents/repair.yaml",
		"second.yaml": "work/.orch/models/second.yaml",
	}
	var errs []error
	for name, place := range files {
		text, err := demoFiles.ReadFile("demo/" + name)
		errs = append(errs, err, w.writeFile(place, w.model.fill(string(text), w.project), 0o600))
	}
	errs = append(errs, w.writeModel(time.Minute), w.writeFile("home/"+config.FileName, w.model.settings, 0o600), w.writeProgram())
	if err := errors.Join(errs...); err != nil {
		return fault.Wrap(fault.Internal, err, "the demonstration cannot be set up")
	}
	return w.makeRepository(ctx)
}

// writeModel writes the script of the model. It thinks about turn 3 for some time, in which its node can be killed.
func (w *demoWorld) writeModel(thinks time.Duration) error {
	text, err := demoFiles.ReadFile("demo/first.yaml")
	if err != nil {
		return err
	}
	script := strings.ReplaceAll(w.model.fill(string(text), w.project), "THINKS", thinks.String())
	return w.writeFile("work/.orch/models/repair.yaml", script, 0o600)
}

// writeFile writes a file below the folder.
func (w *demoWorld) writeFile(place, text string, mode os.FileMode) error {
	path := filepath.Join(w.dir, place)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), mode)
}

// writeProgram makes bin/orch: this program, with the settings and the data of the demonstration, so that people can use the
// commands that are printed.
func (w *demoWorld) writeProgram() error {
	var names []string
	for _, k := range config.Keys() {
		names = append(names, k.Env())
	}
	text := fmt.Sprintf("#!/bin/sh\nunset %s\nHOME=%s ORCH_DATA_DIR=%s exec %s \"$@\"\n", strings.Join(names, " "),
		shellWord(filepath.Join(w.dir, "home")), shellWord(filepath.Join(w.dir, "data")), shellWord(w.program()))
	return errors.Join(w.writeFile("bin/orch", text, 0o700), os.Mkdir(filepath.Dir(w.program()), 0o700), os.Symlink(w.exe, w.program()))
}

// program is the path of this program in the folder.
func (w *demoWorld) program() string { return filepath.Join(w.dir, "program", "orch") }

// entry returns the command after which the others work in another terminal.
func (w *demoWorld) entry() string {
	return "cd " + shellWord(w.work) + " && PATH=" + shellWord(w.bin) + ":$PATH"
}

// keepProgram copies this program into a folder that is kept: that of `go run` is removed.
func (w *demoWorld) keepProgram() error {
	data, err := os.ReadFile(w.exe)
	if err == nil {
		err = errors.Join(os.Remove(w.program()), os.WriteFile(w.program(), data, 0o700)) //nolint:gosec // a program has to be executable
	}
	if err != nil {
		return fault.New(fault.Internal, "orch cannot be copied to %s: %w", w.program(), err)
	}
	return nil
}

// makeRepository makes the repository of the project, with one commit that is pushed to a bare one, and has the tag start.
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
		{"-C", "project", "tag", "start"},
	} {
		if _, err := w.output(ctx, "git", args...); err != nil {
			return err
		}
	}
	return nil
}

// say prints a line.
func (w *demoWorld) say(format string, args ...any) {
	_, _ = io.WriteString(w.out, screen.EscapeLines(fmt.Sprintf(format, args...))+"\n") // if stdout is closed, nobody reads the line
}

// print prints a line with a style.
func (w *demoWorld) print(style func(screen.Style, string) string, text string) {
	_, _ = io.WriteString(w.out, style(w.style(w.outTTY), screen.EscapeLines(text))+"\n") // as say
}

// explain prints what a person should see in the lines above, and gives time to read both.
func (w *demoWorld) explain(ctx context.Context, text string) {
	w.print(screen.Style.Good, "-> "+text)
	w.rest(ctx, 5)
}

// chapter prints the heading of a part.
func (w *demoWorld) chapter(ctx context.Context, heading string) {
	w.say("")
	w.print(screen.Style.Bold, "== "+heading)
	w.rest(ctx, 1)
}

// rest gives a person time to read a number of lines.
func (w *demoWorld) rest(ctx context.Context, lines int) {
	const start, line, longest = 600 * time.Millisecond, 400 * time.Millisecond, 5 * time.Second
	if !w.fast {
		_ = pause.For(ctx, min(start+time.Duration(lines)*line, longest)) // what follows fails if ctx has ended
	}
}

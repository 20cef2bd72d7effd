package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
)

// command returns a program that runs in the folder work. orch stands for this program.
func (w *demoWorld) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	const patience = 10 * time.Second
	if program == "orch" {
		program = w.exe
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = w.work, demoEnviron(os.Environ(), w.dir, w.model.variables)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = patience
	return cmd
}

// demoEnviron returns an environment without the settings of orch and git, except the variables kept, and with a home and data of
// the demonstration.
func demoEnviron(environ []string, dir string, kept []string) []string {
	var pairs []string
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		foreign := name == "HOME" || strings.HasPrefix(name, "ORCH_") || strings.HasPrefix(name, "GIT_") || strings.HasPrefix(name, "XDG_")
		if !foreign || slices.Contains(kept, name) {
			pairs = append(pairs, pair)
		}
	}
	return append(pairs, "HOME="+filepath.Join(dir, "home"), "ORCH_DATA_DIR="+filepath.Join(dir, "data"), "GIT_CONFIG_NOSYSTEM=1")
}

// output runs a program and returns what it writes to stdout.
func (w *demoWorld) output(ctx context.Context, program string, args ...string) (string, error) {
	out, err := w.command(ctx, program, args...).Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return "", commandFailed(program, args, err)
	}
	return string(out), nil
}

func commandFailed(program string, args []string, err error) error {
	return fault.New(fault.ExecFailed, "%s failed: %w", commandLine(program, args), err).WithHint("orch doctor looks for the cause")
}

// show prints a command line and runs it. Its output follows.
func (w *demoWorld) show(ctx context.Context, program string, args ...string) error {
	return w.showLines(ctx, demoLines{}, program, args...)
}

// showLines is like show, for some lines.
func (w *demoWorld) showLines(ctx context.Context, some demoLines, program string, args ...string) error {
	if ok, err := w.try(ctx, some, program, args...); err != nil || ok {
		return err
	}
	return commandFailed(program, args, errors.New("the output above says why"))
}

// try is like showLines, and reports whether the program has succeeded.
func (w *demoWorld) try(ctx context.Context, some demoLines, program string, args ...string) (ok bool, err error) {
	w.prompt(commandLine(program, args) + some.filter())
	w.rest(ctx, 0)
	out, err := w.command(ctx, program, args...).CombinedOutput()
	lines := some.of(string(out))
	for _, line := range lines {
		w.say("%s", line)
	}
	w.rest(ctx, len(lines))
	if _, exited := errors.AsType[*exec.ExitError](err); exited && ctx.Err() == nil {
		return false, nil
	}
	if err != nil {
		return false, commandFailed(program, args, err)
	}
	return true, nil
}

// demoLines selects lines as grep does: those that match a pattern, and a number of lines after each. The zero value selects all.
type demoLines struct {
	pattern string
	after   int
}

// filter returns what selects the lines in a command line.
func (l demoLines) filter() string {
	switch {
	case l.pattern == "":
		return ""
	case l.after == 0:
		return " | grep -E " + shellWord(l.pattern)
	default:
		return fmt.Sprintf(" | grep -E -A%d %s", l.after, shellWord(l.pattern))
	}
}

// of returns the selected lines of a text.
func (l demoLines) of(text string) []string {
	pattern := regexp.MustCompile(l.pattern)
	var lines []string
	left, gap := 0, false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if pattern.MatchString(line) {
			if gap && l.after > 0 {
				lines = append(lines, "--")
			}
			left, gap = l.after+1, false
		}
		if left > 0 {
			lines = append(lines, line)
			left--
		} else {
			gap = len(lines) > 0
		}
	}
	return lines
}

// prompt prints a command line.
func (w *demoWorld) prompt(line string) { w.print(screen.Style.Active, "$ "+line) }

// commandLine returns a command as one types it.
func commandLine(program string, args []string) string {
	words := []string{program}
	for _, arg := range args {
		words = append(words, shellWord(arg))
	}
	return strings.Join(words, " ")
}

// shellWord quotes a word for a shell, if it needs quotes.
func shellWord(word string) string {
	if regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`).MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

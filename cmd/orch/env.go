package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/internal/config"
)

// env is the environment of commands: streams, settings, files and the clock. Tests replace its parts.
type env struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	// dir is the working directory, home the home directory of the user.
	dir, home string
	// exe is the path of this program; empty if the system does not know it.
	exe string
	now func() time.Time
	// inTTY, outTTY and errTTY report whether the streams are terminals. size returns the size of the terminal.
	inTTY, outTTY, errTTY bool
	size                  func() (width, height int)
	// redraw is the interval at which a tree on a terminal is redrawn, even if it has not changed.
	redraw time.Duration

	// cfg is set before a command runs.
	cfg config.Config
	// json is set by the shorthand --json.
	json bool
}

// newEnv returns the environment of this process.
func newEnv() *env {
	dir, _ := os.Getwd()        // "" makes relative paths fail where they are used
	home, _ := os.UserHomeDir() // "" makes ~ fail where it is used
	exe, _ := os.Executable()
	return &env{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv, dir: dir, home: home, exe: exe, now: time.Now,
		inTTY: isTerminal(os.Stdin), outTTY: isTerminal(os.Stdout), errTTY: isTerminal(os.Stderr),
		size: terminalSize, redraw: time.Second / 4,
	}
}

func isTerminal(f *os.File) bool {
	return term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// terminalSize returns the size of the terminal behind stderr or stdout, 80 by 24 if it is unknown.
func terminalSize() (width, height int) {
	for _, f := range []*os.File{os.Stderr, os.Stdout} {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w, h
		}
	}
	return 80, 24
}

// style returns the colours for a stream that may be a terminal, none if NO_COLOR is set.
func (e *env) style(tty bool) screen.Style {
	return screen.Style{Color: tty && e.getenv("NO_COLOR") == ""}
}

// width returns the width of tables on stdout: that of the terminal, or 0 for unlimited.
func (e *env) width() int {
	if !e.outTTY {
		return 0
	}
	w, _ := e.size()
	return w
}

// note writes a line for people to stderr. It escapes the arguments.
func (e *env) note(format string, args ...any) {
	_, _ = fmt.Fprintln(e.err, screen.EscapeLines(fmt.Sprintf(format, args...))) // if stderr is closed, nobody reads the note
}

func (e *env) logger() *slog.Logger { return newLogger(e.err, e.cfg.LogLevel) }

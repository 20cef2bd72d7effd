package main

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/user"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
)

// app is what a command may use of the world outside. Tests replace its parts.
type app struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	// user is the user of the operating system who runs the command, identity whom the node takes them for, once it was asked.
	user, identity string
	// dir is the working directory, home that of the user.
	dir, home string
	// exe is the path of this program; empty when the system does not tell.
	exe string
	now func() time.Time
	// inTTY, outTTY and errTTY tell whether the streams are terminals; size is that of the terminal.
	inTTY, outTTY, errTTY bool
	size                  func() (width, height int)
	// redraw is how often a tree on a terminal is drawn again while nothing happens.
	redraw time.Duration
	nodes  nodes

	// cfg is set before a command runs.
	cfg config.Config
	// json is the shorthand --json.
	json bool
	// refused says why calls of tools of outside servers are refused, nil for those that are not. The map is nil before
	// the node was asked.
	refused map[string]*fault.Error
	// met is true when nobody has to connect to servers that were never seen: it was done, or a node does.
	met bool
	// project is the flag --project of the commands about MCP servers.
	project bool
}

// newApp returns the app of this process.
func newApp() *app {
	dir, _ := os.Getwd()        // "" makes relative paths fail where they are used
	home, _ := os.UserHomeDir() // "" makes ~ fail where it is used
	exe, _ := os.Executable()
	a := &app{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv, user: osUser(), dir: dir, home: home, exe: exe, now: time.Now,
		inTTY: isTerminal(os.Stdin), outTTY: isTerminal(os.Stdout), errTTY: isTerminal(os.Stderr),
		size: terminalSize, redraw: time.Second / 4,
	}
	a.nodes = newProcessNodes(os.Stderr)
	return a
}

func isTerminal(f *os.File) bool {
	return term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// terminalSize returns the size of the terminal behind stderr or stdout, 80 by 24 when it is unknown.
func terminalSize() (width, height int) {
	for _, f := range []*os.File{os.Stderr, os.Stdout} {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w, h
		}
	}
	return 80, 24
}

// run executes a command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil && fault.Has(err, fault.Cancelled) {
		a.note("interrupted")
		return exitDetached
	}
	return a.report(err, args)
}

// configure reads the settings for a command.
func (a *app) configure(cmd *cobra.Command) error {
	flags := map[string]string{}
	keys := map[string]string{}
	for _, k := range config.Keys() {
		keys[k.Flag()] = k.Name
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if name, ok := keys[f.Name]; ok && f.Annotations[settingMark] != nil {
			flags[name] = f.Value.String()
		}
	})
	if a.json {
		flags["output"] = "json"
	}
	cfg, err := config.Load(config.Sources{Flags: flags, Getenv: a.getenv, Dir: a.dir, Home: a.home})
	if err != nil {
		return err
	}
	cfg.Command = cmd.CommandPath()
	a.cfg = cfg
	return nil
}

// settingMark annotates flags that are settings, because a command may have another flag of the name.
const settingMark = "orch_setting"

// addSettings adds the flags of settings: those of nodes, or those of every command.
func addSettings(flags *pflag.FlagSet, node, hidden bool) {
	addSome(flags, hidden, func(k config.Key) bool { return k.Node == node })
}

// addSome adds the flags of those settings that are wanted.
func addSome(flags *pflag.FlagSet, hidden bool, wanted func(config.Key) bool) {
	for _, k := range config.Keys() {
		if !wanted(k) || flags.Lookup(k.Flag()) != nil {
			continue
		}
		short := ""
		if k.Name == "output" {
			short = "o"
		}
		usage := k.Usage
		if k.Choices != nil {
			usage += choices(k.Named())
		}
		flag := flags.VarPF(&setting{text: k.Default, typ: "string"}, k.Flag(), short, usage)
		if k.Switch() {
			flag.NoOptDefVal = "true"
			flag.Value = &setting{text: k.Default, typ: "bool"}
		}
		flag.Hidden = hidden
		flag.Annotations = map[string][]string{settingMark: {k.Name}}
	}
}

// setting is the value of a flag whose text the configuration checks.
type setting struct{ text, typ string }

// String, Set and Type make a setting a flag.
func (s *setting) String() string        { return s.text }
func (s *setting) Set(text string) error { s.text = text; return nil }
func (s *setting) Type() string          { return s.typ }

// actor is who asks, for the log: whom the node takes them for.
func (a *app) actor() string {
	return cmp.Or(a.identity, "user:"+a.user)
}

// osUser returns the name of the user of the process. The operating system says it, not a variable that
// anybody can set.
func osUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}

// style colours text for a stream that may be a terminal, unless NO_COLOR is set.
func (a *app) style(tty bool) screen.Style {
	return screen.Style{Color: tty && a.getenv("NO_COLOR") == ""}
}

// width is that of tables on stdout: the terminal's, or 0 for whole lines.
func (a *app) width() int {
	if !a.outTTY {
		return 0
	}
	w, _ := a.size()
	return w
}

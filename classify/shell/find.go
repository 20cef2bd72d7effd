package shell

import (
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Found contains the simple commands that a call runs, as far as the text shows them.
type Found struct {
	// List contains the commands and variants of them: without the folder of the program, without leading options,
	// without a wrapper such as env.
	List []Command
	// Unknown is true when the call may run commands that are not in List.
	Unknown bool
	// Steered is true when the call sets variables for which SteersPrograms returns true.
	Steered bool
}

// Command is a command with its words joined by single spaces.
type Command struct {
	// Text is the command.
	Text string
	// Open is true when Text is only the beginning of the command; the rest is computed at run time.
	Open bool
	// Written is true for a command as it is written in the script, not a variant. Only the folder of a system program
	// is removed.
	Written bool
}

// The bounds of the search. If one is exceeded, Found.Unknown is set.
const (
	maxFound   = 256 << 10 // bytes of all texts
	maxScripts = 64
	maxWords   = 32 // words of a wrapper that are tried as the beginning of a command
)

// Commands returns the simple commands that a script runs. env are the names of the variables that the caller sets.
func Commands(script string, env []string) Found {
	f := newFinder(env)
	f.script(script, true)
	return f.Found
}

// Started returns the command of a program that is started without a shell, and the commands that the program starts.
// It returns none for an empty program.
func Started(program string, args, env []string) Found {
	f := newFinder(env)
	if program == "" {
		return f.Found
	}
	words := []arg{{text: program, fixed: true}}
	for _, text := range args {
		words = append(words, arg{text: text, fixed: true})
	}
	f.words(words, true)
	return f.Found
}

func newFinder(env []string) *finder {
	f := &finder{remaining: maxFound, scripts: maxScripts}
	f.Steered = slices.ContainsFunc(env, SteersPrograms)
	return f
}

// finder collects the simple commands of a script.
type finder struct {
	Found

	reader                    checker
	remaining, scripts, depth int
}

// script collects the commands of a script, in all its constructs.
func (f *finder) script(text string, written bool) {
	if f.scripts--; f.scripts < 0 || f.remaining < 0 || f.depth >= nesting {
		f.Unknown = true
		return
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		f.Unknown = true
		return
	}
	f.depth++
	syntax.Walk(file, func(node syntax.Node) bool {
		if assign, ok := node.(*syntax.Assign); ok && assign.Name != nil && SteersPrograms(assign.Name.Value) {
			f.Steered = true
		}
		if call, ok := node.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			words := make([]arg, len(call.Args))
			for i, w := range call.Args {
				words[i] = f.word(w)
			}
			f.words(words, written)
		}
		return true
	})
	f.depth--
}

// word evaluates a word. A file name pattern is treated as computed at run time.
func (f *finder) word(w *syntax.Word) arg {
	a := f.reader.arg(w)
	if a.fixed && f.reader.pattern(w) {
		if at := strings.IndexAny(a.text, "*?[+@!"); at >= 0 {
			a.text = a.text[:at]
		}
		a.fixed = false
	}
	return a
}

// words adds the command that consists of words, and the commands that it starts.
func (f *finder) words(words []arg, written bool) {
	if f.remaining -= len(words); f.remaining < 0 {
		f.Unknown = true
		return
	}
	if !words[0].fixed || strings.ContainsAny(words[0].text, " \t\n") {
		f.Unknown = true
	}
	f.add(Program(words[0].text), words, written)
	if f.command(words); !slices.Contains(wrappers(), base(words[0])) {
		return
	}
	f.Unknown = f.Unknown || len(words) > maxWords || computed(words)
	if base(words[0]) == "xargs" {
		words = xargsWords(words)
	}
	inShell := slices.Contains([]string{"command", "builtin"}, words[0].text)
	for i := 1; i < min(len(words), maxWords); i++ {
		if !words[i].fixed {
			continue
		}
		if inShell || words[i].text != "." && words[i].text != "source" { // . and source are builtins of the shell
			f.command(words[i:])
		}
	}
}

// base is the name of a program without its folder.
func base(a arg) string {
	if a.text == "" {
		return ""
	}
	return filepath.Base(a.text)
}

// command adds the variants of one command, and the commands that its program runs.
func (f *finder) command(words []arg) {
	f.variants(words[0].text, words)
	if name := base(words[0]); name != words[0].text {
		f.variants(name, words)
	}
	f.starts(words)
}

// wrappers lists programs that start the program in their arguments.
func wrappers() []string {
	return strings.Fields(`builtin busybox bwrap catchsegv chroot chrt command doas env exec fakeroot faketime firejail flock ionice
		linux32 linux64 ltrace nice nohup nsenter numactl parallel proot runuser setarch setpriv setsid sg ssh stdbuf strace su sudo
		systemd-run taskset time timeout torsocks toybox unbuffer unshare watch xargs`)
}

// computed reports whether the name of the program that a wrapper starts may be computed at run time. That is so if a
// word is computed and no earlier word is certainly the program.
func computed(words []arg) bool {
	operand := slices.Contains(strings.Fields("chroot chrt faketime flock nsenter runuser sg ssh su taskset"), base(words[0]))
	for i, a := range words[1:] {
		switch {
		case !a.fixed:
			return true
		case operand || a.option() || words[i].option() || strings.Contains(a.text, "=") || strings.Trim(a.text, "0123456789.smhd") == "":
		default:
			return false
		}
	}
	return false
}

// variants adds a command with the name of its program, and again without its leading options, which may have a value.
// So git -C dir push is also added as git push.
func (f *finder) variants(name string, words []arg) {
	f.add(name, words, false)
	for i := 1; i < len(words) && i < maxWords; {
		if !words[i].option() {
			return
		}
		f.add(name, words[i:], false)
		i++
		if i < len(words) && !words[i].option() {
			f.add(name, words[i:], false)
			i++
		}
	}
}

// add adds the command that consists of name and of words without the first one.
func (f *finder) add(name string, words []arg, written bool) {
	var b strings.Builder
	b.WriteString(name)
	open := !words[0].fixed
	for _, w := range words[1:] {
		if open || b.Len() > f.remaining {
			break
		}
		b.WriteString(" " + w.text)
		open = !w.fixed
	}
	if f.remaining -= b.Len(); f.remaining < 0 {
		f.Unknown = true
		return
	}
	f.List = append(f.List, Command{b.String(), open, written})
}

// starts collects the commands that a program runs because they are in its arguments.
func (f *finder) starts(words []arg) {
	args := words[1:]
	switch base(words[0]) {
	case "sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "rbash":
		f.shell(args)
	case "eval":
		f.eval(args)
	case "trap":
		f.text(args[:min(len(args), 1)])
	case "find":
		f.find(args)
	case "env":
		f.env(args)
	case "flock", "parallel", "runuser", "script", "sg", "ssh", "su", "watch":
		f.text(slices.DeleteFunc(slices.Clone(args), func(a arg) bool { return a.fixed && !strings.ContainsAny(a.text, " \t\n;") }))
	default: // source runs a file
		f.Unknown = f.Unknown || words[0].text == "." || words[0].text == "source"
	}
}

// find collects the commands in the actions of find.
func (f *finder) find(args []arg) {
	for i, a := range args {
		if f.remaining < 0 {
			return
		}
		if !slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir"}, a.text) {
			continue
		}
		if words := execWords(args[i+1:]); len(words) > 0 {
			f.nested(words)
		}
	}
}

// env collects the command of env -S, which splits a word into a command.
func (f *finder) env(args []arg) {
	for i, a := range args {
		text, long := strings.CutPrefix(a.text, "--split-string")
		_, behind, short := strings.Cut(a.text, "S")
		switch {
		case long:
			f.text([]arg{{text: strings.TrimPrefix(text, "="), fixed: a.fixed}})
		case short && a.option() && !strings.HasPrefix(a.text, "--"):
			f.text([]arg{{text: behind, fixed: a.fixed}})
		default:
			continue
		}
		f.text(args[i+1 : min(len(args), i+2)])
	}
}

// nested adds a command that another command starts.
func (f *finder) nested(words []arg) {
	if f.depth++; f.depth > nesting {
		f.Unknown = true
	} else {
		f.words(words, false)
	}
	f.depth--
}

// shell collects the commands of sh -c.
func (f *finder) shell(args []arg) {
	for i, a := range args {
		if a.text == "--version" {
			return
		}
		if a.option() && !strings.HasPrefix(a.text, "--") && strings.Contains(a.text, "c") {
			f.text(slices.DeleteFunc(slices.Clone(args[i+1:]), func(a arg) bool { return a.option() && a.fixed }))
			return
		}
	}
	f.Unknown = true // the script is in a file or the input
}

func (f *finder) eval(args []arg) {
	words := make([]string, len(args))
	for i, a := range args {
		f.Unknown = f.Unknown || !a.fixed
		words[i] = a.text
	}
	f.script(strings.Join(words, " "), false)
}

// text collects the commands of words if each word is a script.
func (f *finder) text(words []arg) {
	for _, a := range words {
		if !a.fixed {
			f.Unknown = true
			continue
		}
		f.script(a.text, false)
	}
}

// xargsWords returns the words of an xargs command. Words that its input replaces or adds are unknown.
func xargsWords(words []arg) []arg {
	replaced := "{}"
	for i, a := range words {
		if rest, ok := strings.CutPrefix(a.text, "-I"); ok && rest != "" {
			replaced = rest
		} else if ok && i+1 < len(words) {
			replaced = words[i+1].text
		}
	}
	out := slices.Clone(words)
	for i, a := range out {
		before, _, ok := strings.Cut(a.text, replaced)
		if ok && i > 0 && replaced != "" && !strings.HasPrefix(a.text, "-I") {
			out[i] = arg{text: before}
		}
	}
	return append(out, arg{})
}

package shell

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// Operand is a file or directory that a read-only command reads.
type Operand struct {
	// Arg is the index of the argument with the path. It is -1 for the working directory, if the command reads it by
	// default.
	Arg int
	// Path is absolute, or relative to the working directory.
	Path string
	// Follow is true when the command traverses directories and follows links in them.
	Follow bool
}

// ReadOnlyCommands returns the commands that ReadOnlyArgs accepts, in the order of the specification (S4-051).
func ReadOnlyCommands() []string {
	return strings.Fields("grep sed awk find cat head tail wc sort uniq cut tr diff file stat ls du rg")
}

// ReadOnlyArgs checks that a command with these arguments only reads files (S4-059, S4-060, A-99), and returns the
// files that it reads. It refuses every option that is not in its tables. The tables omit options that write, run
// programs, wait for a file to grow or read file names from a file. Scripts of sed and programs of awk are parsed; they
// may only print.
//
// A pattern, a script or a separator is never treated as a path. Any other option value that looks like a path is
// treated as a path.
//
// Errors: COMMAND_NOT_ALLOWED for a command that ReadOnlyCommands does not return; VALIDATION_ERROR with the reason
// ARGUMENT_NOT_ALLOWED and the field args[i] for an argument.
func ReadOnlyArgs(command string, args []string) ([]Operand, error) {
	g, ok := grammars()[command]
	if !ok {
		return nil, fault.New(fault.CommandNotAllowed, "the command %q is not permitted; permitted are %s", command, strings.Join(ReadOnlyCommands(), ", ")).
			WithReason("CommandNotAllowed").WithField("command")
	}
	for i, arg := range args {
		if strings.ContainsRune(arg, 0) {
			return nil, refuse(i, "it contains a NUL byte")
		}
	}
	a := &argv{command: command, args: args, grammar: g}
	if err := g.parse(a); err != nil {
		return nil, err
	}
	if a.follow {
		for i := range a.files {
			a.files[i].Follow = true
		}
	}
	return a.files, nil
}

// refuse returns the error for the argument with index i.
func refuse(i int, format string, args ...any) *fault.Error {
	return fault.New(fault.ValidationError, format, args...).WithReason("ARGUMENT_NOT_ALLOWED").
		WithField("args[" + strconv.Itoa(i) + "]")
}

// grammar describes the arguments that a command may have.
type grammar struct {
	// flags and follows are the letters of options without a value. The options in follows make the command follow
	// links.
	flags, follows string
	// texts, numbers, words and files are the letters of options with a value. The value of an option in texts is not a
	// path. In numbers it is a number, in files the path of a file to read. In words it is a path if it looks like one.
	texts, numbers, words, files string
	// long are the names of the long options. A suffix is the kind of the value: none for a flag, : for a text, # for a
	// number, % for a word, @ for a file, ? for an optional text after =, ! for a flag that makes the command follow
	// links.
	long string
	// count allows a number as an option, as in head -5.
	count bool
	// script is true when the first operand is a pattern or script. It is not if one of the options in scripts is
	// present: their value is then the pattern or script.
	script  bool
	scripts string
	// check reports whether a script is allowed.
	check func(script string) bool
	// parse parses the arguments.
	parse func(a *argv) error
	// operands checks the operands, given as indices of args. If it is nil, all operands are files to read.
	operands func(a *argv, operands []int) error
}

// argv is the state of parsing arguments with a grammar.
type argv struct {
	command string
	args    []string
	grammar grammar
	files   []Operand
	// scriptSet is true when an option set the pattern or script. follow is true when the command follows links.
	scriptSet, follow bool
	// seen are the long names and letters of the options so far.
	seen []string
}

// file adds an operand. For most commands - is the standard input, which is empty, so it is not added.
func (a *argv) file(i int, path string) {
	if path != "-" || a.command == "ls" || a.command == "du" {
		a.files = append(a.files, Operand{Arg: i, Path: path})
	}
}

// used reports whether one of the options was used.
func (a *argv) used(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(a.seen, n) })
}

// addWorkingDir adds the working directory if there is no operand yet.
func (a *argv) addWorkingDir() {
	if len(a.files) == 0 {
		a.files = append(a.files, Operand{Arg: -1, Path: "."})
	}
}

// getopt parses arguments like getopt_long: options and operands are mixed, and everything after -- is an operand. Long
// names must not be abbreviated.
func getopt(a *argv) error {
	var operands []int
	for i := 0; i < len(a.args); i++ {
		arg := a.args[i]
		var err error
		switch {
		case arg == "--":
			for i++; i < len(a.args); i++ {
				operands = append(operands, i)
			}
		case strings.HasPrefix(arg, "--"):
			i, err = a.long(i)
		case len(arg) > 1 && arg[0] == '-':
			i, err = a.letters(i)
		default:
			operands = append(operands, i)
		}
		if err != nil {
			return err
		}
	}
	return a.finish(operands)
}

// finish checks the operands after all options were parsed.
func (a *argv) finish(operands []int) error {
	if a.grammar.script && !a.scriptSet && len(operands) > 0 {
		if err := a.script(operands[0], a.args[operands[0]]); err != nil {
			return err
		}
		operands = operands[1:]
	}
	if a.grammar.operands != nil {
		return a.grammar.operands(a, operands)
	}
	return a.allFiles(operands)
}

func (a *argv) allFiles(operands []int) error {
	for _, i := range operands {
		a.file(i, a.args[i])
	}
	return nil
}

// script checks a script in the argument with index i.
func (a *argv) script(i int, text string) error {
	if a.grammar.check != nil && !a.grammar.check(text) {
		return refuse(i, "the script of %s may write files, run programs or read files that no argument names", a.command).
			WithHint("use a script that only prints")
	}
	return nil
}

// letters parses an argument of single-letter options. It returns the index of the last argument that it consumed.
func (a *argv) letters(i int) (int, error) {
	arg := a.args[i]
	if a.grammar.count && strings.Trim(arg[1:], "0123456789") == "" {
		return i, nil
	}
	for at := 1; at < len(arg); at++ {
		kind, known := a.grammar.letter(arg[at])
		if !known {
			return i, a.unknown(i, "-"+arg[at:at+1])
		}
		name := arg[at : at+1]
		if kind == 0 || kind == '!' {
			a.flag(name, kind)
			continue
		}
		if at+1 < len(arg) {
			return i, a.value(i, name, kind, arg[at+1:])
		}
		return a.next(i, name, kind)
	}
	return i, nil
}

// letter returns the kind of a single-letter option: a suffix as in grammar.long, or 0 for a flag.
func (g grammar) letter(c byte) (kind byte, known bool) {
	for _, set := range []struct {
		letters string
		kind    byte
	}{{g.follows, '!'}, {g.flags, 0}, {g.texts, ':'}, {g.numbers, '#'}, {g.words, '%'}, {g.files, '@'}} {
		if strings.IndexByte(set.letters, c) >= 0 {
			return set.kind, true
		}
	}
	return 0, false
}

// long parses a long option. It returns the index of the last argument that it consumed.
func (a *argv) long(i int) (int, error) {
	name, value, joined := strings.Cut(a.args[i][2:], "=")
	kind, known := a.grammar.longNames()[name]
	switch {
	case !known, joined && (kind == 0 || kind == '!'):
		return i, a.unknown(i, "--"+name)
	case kind == 0 || kind == '!' || kind == '?' && !joined:
		a.flag(name, kind)
		return i, nil
	case joined:
		return i, a.value(i, name, kind, value)
	}
	return a.next(i, name, kind)
}

// longNames returns the long options with their kinds. Every command has --version and --help.
func (g grammar) longNames() map[string]byte {
	names := map[string]byte{"help": 0, "version": 0}
	for word := range strings.FieldsSeq(g.long) {
		kind := word[len(word)-1]
		if !strings.ContainsRune(":#%@?!", rune(kind)) {
			names[word] = 0
			continue
		}
		names[word[:len(word)-1]] = kind
	}
	return names
}

// unknown returns the error for an option that is not in the grammar.
func (a *argv) unknown(i int, option string) error {
	known := slices.Sorted(maps.Keys(a.grammar.longNames()))
	g := a.grammar
	return refuse(i, "the option %s of %s is not permitted: it is unknown, writes, runs programs or waits", option, a.command).
		WithHint("permitted are -%s and --%s", g.flags+g.follows+g.texts+g.numbers+g.words+g.files, strings.Join(known, ", --"))
}

// flag records an option without a value.
func (a *argv) flag(name string, kind byte) {
	a.seen = append(a.seen, name)
	a.follow = a.follow || kind == '!'
	a.scriptSet = a.scriptSet || a.setsScript(name)
}

// next uses the next argument as the value of an option.
func (a *argv) next(i int, name string, kind byte) (int, error) {
	if i+1 >= len(a.args) {
		return i, refuse(i, "the option %s of %s needs a value", a.args[i], a.command)
	}
	return i + 1, a.value(i+1, name, kind, a.args[i+1])
}

// value checks the value of an option. The value is in args[i].
func (a *argv) value(i int, name string, kind byte, value string) error {
	a.seen = append(a.seen, name)
	a.scriptSet = a.scriptSet || a.setsScript(name)
	if a.command == "rg" {
		value = strings.TrimPrefix(value, "=") // rg treats -f=x like -fx
	}
	switch {
	case kind == '@':
		a.file(i, value)
	case kind == '#' && !isCount(value):
		return refuse(i, "%q is not a number", value)
	case kind != ':' && looksLikePath(value):
		a.file(i, value)
	case a.setsScript(name):
		return a.script(i, value)
	}
	return nil
}

// setsScript reports whether an option sets the pattern or script.
func (a *argv) setsScript(name string) bool {
	return slices.Contains(strings.Fields(a.grammar.scripts), name)
}

// isCount reports whether a word is a number as in head -n: an optional sign, digits and an optional unit.
func isCount(s string) bool {
	rest := strings.TrimLeft(strings.TrimPrefix(strings.TrimPrefix(s, "+"), "-"), "0123456789")
	return strings.ContainsAny(s, "0123456789") && len(rest) <= 3 && strings.Trim(rest, "bkKmMBGTPEZYiw") == ""
}

// looksLikePath reports whether a value must be treated as a path (S4-054).
func looksLikePath(s string) bool { return strings.HasPrefix(s, "/") || strings.Contains(s, "..") }

package shell

import (
	"slices"
	"strings"
)

// asksPerson marks the command as interactive if a program waits for a person, and reports whether it does. Such
// programs are editors, pagers, monitors, remote shells, and interpreters without a script.
func (k *checker) asksPerson(c call) bool {
	switch c.name {
	case "crontab":
		if slices.ContainsFunc(c.args, func(a arg) bool { return a.option() && strings.Contains(a.text, "e") }) {
			k.interactive("crontab -e opens an editor")
			return true
		}
	case "vi", "vim", "nvim", "view", "nano", "pico", "emacs", "ed", "joe", "micro", "hx", "helix", "most", "info",
		"top", "htop", "btop", "atop", "watch", "ssh", "sftp", "ftp", "telnet", "screen", "tmux", "mc", "su", "passwd", "login",
		"dialog", "whiptail", "fzf", "gdb", "lldb", "visudo":
		if editsByScript(c) {
			return false
		}
		k.interactive(c.name + " waits for a person")
		return true
	case "python", "python3", "node", "nodejs", "ruby", "irb", "ipython", "perl", "lua", "php", "ghci", "scala", "bash", "sh", "zsh", "dash",
		"ksh", "fish", "psql", "mysql", "sqlite3", "redis-cli", "mongosh", "bc", "dc":
		bare := !slices.ContainsFunc(c.args, func(a arg) bool {
			return !a.option() || slices.Contains([]string{"--version", "--help", "--test", "-V", "-v"}, a.text)
		})
		if bare && !c.fed || len(c.args) > 0 && c.args[0].text == "-i" {
			k.interactive(c.name + " without a script waits for a person")
			return true
		}
	}
	return false
}

// editsByScript reports whether an editor is called in its non-interactive mode.
func editsByScript(c call) bool {
	var options []string
	switch c.name {
	case "emacs":
		options = []string{"--batch", "-batch", "--script"}
	case "vi", "vim", "ex":
		options = []string{"-es", "-Es", "-sc"}
	case "nvim":
		options = []string{"-es", "-Es", "--headless", "-l"}
	case "ed":
		return c.fed
	}
	return slices.ContainsFunc(c.args, func(a arg) bool { return a.fixed && slices.Contains(options, a.text) })
}

// run classifies a command that a wrapper starts. fed is true if the command has an input.
func (k *checker) run(words []arg, fed bool) {
	if *k.runs++; *k.runs > maxRuns {
		k.destructive("too many commands start each other")
		return
	}
	if len(words) > 0 {
		if slices.Contains([]string{"cd", "pushd", "popd", "eval", "trap", "set", "exec", "read", "mapfile", "readarray", "getopts", "unset", "wait", "."}, words[0].text) {
			k.destructive(words[0].text + " changes the shell behind a wrapper")
		}
		k.call(words, fed, 0) // functions are not visible to programs
	}
}

// wrapperOptions returns the harmless options of a wrapper: options with a value in the next word, and options without
// one.
func wrapperOptions(name string) (withValue, withoutValue []string) {
	switch name {
	case "nice":
		return []string{"-n"}, nil
	case "ionice":
		return []string{"-c", "-n"}, []string{"-c1", "-c2", "-c3", "-t"}
	case "timeout":
		return []string{"-k", "-s"}, []string{"-v", "--verbose", "--foreground", "--preserve-status"}
	case "env":
		return []string{"-u"}, []string{"-i", "-0", "--ignore-environment", "--null"}
	case "stdbuf":
		return []string{"-o", "-e", "-i"}, []string{"-oL", "-eL", "-iL", "-o0", "-e0", "-i0"}
	case "command":
		return nil, []string{"-p"}
	}
	return nil, nil
}

// wrapper skips the options of a wrapper and classifies the command that it starts.
func wrapper(k *checker, c call) {
	withValue, withoutValue := wrapperOptions(c.name)
	args := c.args
	for len(args) > 0 && (args[0].option() || !args[0].fixed && !args[0].safe) {
		text := args[0].text
		switch {
		case c.name == "command" && args[0].fixed && (text == "-v" || text == "-V"):
			return
		case args[0].fixed && slices.Contains(withValue, text) && len(args) > 1 && args[1].fixed:
			k.variable(args[1].text)
			args = args[1:]
		case !args[0].fixed || text != "--" && !slices.Contains(withoutValue, text):
			k.destructive("the option " + args[0].shown() + " of " + c.name)
			return
		}
		args = args[1:]
		if text == "--" {
			break
		}
	}
	if c.name == "timeout" && len(args) > 0 {
		args = args[1:] // the duration
	}
	for c.name == "env" && len(args) > 0 && strings.Contains(args[0].text, "=") {
		name, _, _ := strings.Cut(args[0].text, "=")
		k.variable(name)
		args = args[1:]
	}
	k.run(args, c.fed)
}

// xargs classifies the command of xargs. Words from the input are unknown.
func xargs(k *checker, c call) {
	args, replaced := c.args, ""
	for len(args) > 0 && args[0].option() {
		text := args[0].text
		switch {
		case !args[0].fixed:
			k.destructive("an option of xargs is computed at run time")
			return
		case slices.Contains([]string{"-n", "-P", "-d", "-L", "-s", "-E", "-a", "-I"}, text) && len(args) > 1 && args[1].fixed:
			if text == "-I" {
				replaced = args[1].text
			}
			args = args[1:]
		case strings.HasPrefix(text, "-I") && len(text) > 2:
			replaced = text[2:]
		case !slices.Contains([]string{"-0", "-r", "-t", "--null", "--no-run-if-empty"}, text) && strings.Trim(text[2:], "0123456789") != "",
			!strings.ContainsRune("0rtnPLs-", rune(text[1])):
			k.destructive("the option " + text + " of xargs")
			return
		}
		args = args[1:]
	}
	var words []arg
	for _, a := range args {
		if replaced != "" && strings.Contains(a.text, replaced) {
			a = arg{}
		}
		words = append(words, a)
	}
	if len(words) > 0 {
		k.run(append(words, arg{}), true)
	}
}

// find checks the actions in the expression of find.
func find(k *checker, c call) {
	for i, a := range c.args {
		if *k.runs > maxRuns {
			return // the command is destructive already
		}
		if !a.fixed && !a.safe {
			k.destructive("an argument of find is computed at run time and might be an action")
			return
		}
		switch a.text {
		case "-delete", "-ok", "-okdir", "-fprint", "-fprint0", "-fprintf", "-fls":
			k.destructive("the action " + a.text + " of find")
		case "-exec", "-execdir":
			k.run(execWords(c.args[i+1:]), true)
		}
	}
}

// execWords returns the words of the command of an -exec action. Words with {} are unknown.
func execWords(args []arg) []arg {
	var words []arg
	for i, a := range args {
		if a.text == ";" || a.text == "+" && i > 0 && args[i-1].text == "{}" {
			break
		}
		if strings.Contains(a.text, "{}") {
			a = arg{}
		}
		words = append(words, a)
	}
	return words
}

// shell classifies the script of sh -c.
func shell(k *checker, c call) {
	for i, a := range c.args {
		switch {
		case a.text == "--version":
			return
		case a.text == "--noprofile" || a.text == "--norc" || a.fixed && a.option() && strings.Trim(a.text, "-eux") == "":
			continue
		case a.fixed && a.option() && strings.Trim(a.text, "-euxc") == "" && strings.HasSuffix(a.text, "c") && i+1 < len(c.args) && c.args[i+1].fixed:
			k.script(c.args[i+1].text)
			return
		}
		break
	}
	k.destructive(c.name + " runs a script that is not in the command")
}

// evaluate classifies the words of eval as a script.
func evaluate(k *checker, c call) {
	words := make([]string, len(c.args))
	for i, a := range c.args {
		if !a.fixed {
			k.destructive("eval runs what is computed at run time")
			return
		}
		words[i] = a.text
	}
	k.inner(strings.Join(words, " "))
}

// trap classifies the command that a signal would run.
func trap(k *checker, c call) {
	args := c.args
	if len(args) > 0 && args[0].text == "--" {
		args = args[1:]
	}
	switch {
	case len(args) == 0 || args[0].text == "-" || args[0].text == "-l" || args[0].text == "-p":
	case !args[0].fixed:
		k.destructive("trap runs what is computed at run time")
	default:
		k.inner(args[0].text)
	}
}

// inner classifies a script that may run in this shell at any time, as with eval and trap.
func (k *checker) inner(text string) {
	before := k.within
	k.within = true
	k.script(text)
	k.within = before
}

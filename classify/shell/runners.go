package shell

import (
	"slices"
	"strings"
)

// golang accepts the subcommands of go that build, test, inspect or format, and those that change the module if it is
// in the workspace.
func golang(k *checker, c call) {
	sub, rest := subcommand(c.args)
	switch sub {
	case "build", "test", "vet", "list", "version", "doc", "help":
	case "fmt":
		k.writes(arg{text: ".", fixed: true})
	case "env":
		denyOptions("wu")(k, call{name: "go env", args: rest})
	case "mod":
		if len(rest) == 0 || !slices.Contains([]string{"graph", "verify", "why", "tidy", "download", "edit", "init"}, rest[0].text) {
			k.destructive("go mod is used in a way that is not known")
			return
		}
		if !slices.Contains([]string{"graph", "verify", "why"}, rest[0].text) {
			k.writes(arg{text: ".", fixed: true})
		}
	case "run":
		operand, ok := firstOperand(rest)
		local := strings.HasPrefix(operand.text, ".") || strings.HasSuffix(operand.text, ".go")
		if !ok || !operand.fixed || !local || strings.Contains(operand.text, "@") {
			k.destructive("go run starts a program that is not of this module")
		}
	default:
		k.destructive("go " + sub + " changes more than the build")
	}
	for i, a := range rest {
		if a.text == "-mod=mod" || a.text == "--mod=mod" {
			k.writes(arg{text: ".", fixed: true})
		}
		name, value, joined := strings.Cut(strings.TrimPrefix(strings.TrimLeft(a.text, "-"), "test."), "=")
		if a.option() && slices.Contains([]string{"exec", "toolexec", "overlay", "modfile", "ldflags", "gccgoflags", "compiler", "vettool", "C", "pkgdir", "gocoverdir", "fuzzcachedir", "http"}, name) {
			k.destructive("the option -" + name + " of go")
		}
		if a.option() && slices.Contains([]string{"o", "coverprofile", "cpuprofile", "memprofile", "blockprofile", "mutexprofile", "trace", "outputdir"}, name) {
			target := arg{text: value, fixed: a.fixed}
			if !joined && i+1 < len(rest) {
				target = rest[i+1]
			}
			if target.text != "/dev/null" {
				k.writes(target)
			}
		}
	}
}

// subcommand returns the first word and the arguments after it. If the first word is computed, it returns "" and all
// arguments.
func subcommand(args []arg) (string, []arg) {
	if len(args) == 0 || !args[0].fixed {
		return "", args
	}
	return args[0].text, args[1:]
}

// firstOperand returns the first argument that is not an option.
func firstOperand(args []arg) (arg, bool) {
	i := slices.IndexFunc(args, func(a arg) bool { return !a.option() })
	if i < 0 {
		return arg{}, false
	}
	return args[i], true
}

// gofmt checks that gofmt does not write, or writes only in the workspace.
func gofmt(k *checker, c call) {
	allowOptions("ldsew")(k, c)
	if slices.ContainsFunc(c.args, func(a arg) bool { return a.option() && strings.Contains(a.text, "w") }) {
		writesAll(k, c)
	}
}

// makes accepts targets of the Makefile in the working directory, except those that install, publish or remove.
func makes(k *checker, c call) {
	for _, a := range c.args {
		name, _, assigned := strings.Cut(a.text, "=")
		switch {
		case !a.fixed:
			k.destructive("an argument of make is computed at run time")
		case a.option() && strings.Trim(a.text, "-skBnij0123456789") != "" && !slices.Contains([]string{"--silent", "--keep-going", "--no-print-directory", "--version"}, a.text):
			k.destructive("the option " + a.text + " of make")
		case assigned:
			k.variable(name)
			if !isName(name) || strings.ContainsAny(a.text, "$`;|&<>() \t\n") {
				k.destructive("a variable of make holds a command")
			}
		case slices.ContainsFunc([]string{"clean", "install", "deploy", "publish", "release", "push", "purge", "reset", "drop", "destroy", "migrate"},
			func(word string) bool { return strings.Contains(a.text, word) }):
			k.destructive("the target " + a.text + " of make")
		}
	}
}

// npm accepts npm test and scripts of package.json with the usual names for builds and checks.
func npm(k *checker, c call) {
	sub, rest := subcommand(c.args)
	switch sub {
	case "test", "t", "tst":
		k.npmOptions(rest)
		return
	case "run", "run-script":
		script, _ := firstOperand(rest)
		name, _, _ := strings.Cut(script.text, ":")
		if script.fixed && slices.Contains([]string{"test", "build", "lint", "check", "typecheck", "coverage"}, name) {
			k.npmOptions(rest)
			return
		}
	}
	k.destructive(c.name + " " + sub + " may install or run anything")
}

// npmOptions accepts only a few options of npm itself. Arguments after -- are for the script.
func (k *checker) npmOptions(args []arg) {
	for _, a := range args {
		name, _, _ := strings.Cut(a.text, "=")
		switch {
		case a.fixed && a.text == "--":
			return
		case !a.fixed && !a.safe:
			k.destructive("an argument of npm is computed at run time and might be an option")
		case a.option() && !slices.Contains([]string{"-s", "--silent", "--if-present", "-w", "--workspace", "--workspaces", "-ws"}, name):
			k.destructive("the option " + a.shown() + " of npm")
		}
	}
}

// cargo accepts building and testing.
func cargo(k *checker, c call) {
	sub, rest := subcommand(c.args)
	if !slices.Contains([]string{"build", "test", "check", "clippy", "doc", "tree", "metadata", "--version", "-V", "version", "bench"}, sub) {
		k.destructive("cargo " + sub + " changes more than the build")
	}
	denyOptions("", "config", "target-dir", "fix")(k, call{name: "cargo", args: rest})
}

// pytest rejects options that change the location of its files or load plug-ins.
func pytest(k *checker, c call) {
	denyOptions("cp", "rootdir", "basetemp", "override-ini", "config-file")(k, c)
}

// python accepts test runners and checkers of the standard library.
func python(k *checker, c call) {
	words := make([]string, 0, 2)
	for _, a := range c.args[:min(2, len(c.args))] {
		words = append(words, a.text)
	}
	switch strings.Join(words, " ") {
	case "-m pip":
		if !k.reads(call{name: "pip", args: c.args[2:]}) {
			k.destructive("pip may install or run anything")
		}
		return
	case "--version", "-V", "-m unittest", "-m json.tool", "-m py_compile", "-m compileall":
		if len(c.args) > 3 && words[1] == "json.tool" {
			k.destructive("json.tool writes its second operand")
		}
		return
	case "-m pytest":
		pytest(k, call{name: "pytest", args: c.args[2:]})
		return
	}
	k.destructive(c.name + " runs a program that is not looked into")
}

// node accepts the test runner and the syntax check.
func node(k *checker, c call) {
	if len(c.args) > 0 && slices.Contains([]string{"--test", "--check", "-c", "--version", "-v"}, c.args[0].text) {
		denyOptions("erp", "print", "eval", "require", "import", "loader", "experimental-loader", "test-reporter-destination")(k, call{name: "node", args: c.args[1:]})
		return
	}
	k.destructive("node runs a program that is not looked into")
}

package shell

import (
	"slices"
	"strings"
)

// git accepts read-only subcommands, and subcommands that only add to a repository in the workspace.
func git(k *checker, c call) {
	args, ok := globalOptions(k, c.args)
	if !ok {
		return
	}
	sub, rest := subcommand(args)
	if k.reads(call{name: "git", args: args}) {
		return
	}
	inner := call{name: "git " + sub, args: rest, fed: c.fed}
	switch sub {
	case "status", "log", "diff", "show", "rev-parse", "ls-files", "ls-tree", "shortlog", "describe", "blame", "cat-file", "rev-list",
		"merge-base", "name-rev", "for-each-ref", "show-ref", "count-objects", "whatchanged", "version", "check-ignore", "diff-tree",
		"diff-index", "diff-files", "grep", "--version", "var", "cherry", "range-diff", "check-attr":
		denyOptions("O", "output", "ext-diff", "textconv", "open-files-in-pager", "filters", "exec")(k, inner)
	case "add", "commit", "init", "switch", "checkout":
		adds(k, inner, sub)
	case "rebase", "mergetool", "difftool", "citool", "gui":
		if sub != "rebase" || slices.ContainsFunc(rest, func(a arg) bool { return a.text == "-i" || a.text == "--interactive" }) {
			k.interactive("git " + sub + " waits for a person")
		}
		k.destructive("git " + sub)
	default:
		k.destructive("git " + sub + " is not known to be harmless")
	}
}

// globalOptions returns the arguments from the subcommand on. It rejects global options that can make git run programs,
// such as -c, and then returns false.
func globalOptions(k *checker, args []arg) ([]arg, bool) {
	for len(args) > 0 && args[0].option() {
		switch text := args[0].text; {
		case text == "--version":
			return args, true
		case text == "-C" && len(args) > 1 && args[1].fixed:
			k.changesDir(args[1:2])
			if k.lost {
				k.destructive("git works in another directory")
			}
			args = args[2:]
		case text == "--no-pager" || text == "-P" || text == "--no-optional-locks" || text == "--literal-pathspecs":
			args = args[1:]
		default:
			k.destructive("the option " + args[0].shown() + " of git")
			return nil, false
		}
	}
	return args, true
}

// adds accepts git add, commit and init, and the creation of branches, in a repository in the workspace.
func adds(k *checker, c call, sub string) {
	k.writes(arg{text: ".", fixed: true})
	has := func(options ...string) bool {
		return slices.ContainsFunc(c.args, func(a arg) bool {
			name, _, _ := strings.Cut(a.text, "=")
			return a.option() && slices.Contains(options, name)
		})
	}
	switch sub {
	case "init":
		allowOptions("q", "quiet")(k, c)
		writesAll(k, c)
	case "add":
		if has("-i", "--interactive", "-p", "--patch", "-e", "--edit") {
			k.interactive("git add waits for a person")
		}
		denyOptions("f", "force")(k, c)
	case "commit":
		message := slices.ContainsFunc(c.args, func(a arg) bool {
			return strings.HasPrefix(a.text, "-m") || strings.HasPrefix(a.text, "-am") || strings.HasPrefix(a.text, "-F") || strings.HasPrefix(a.text, "--message") || strings.HasPrefix(a.text, "--file")
		})
		if !message || has("-p", "--patch", "--interactive", "-e", "--edit") {
			k.interactive("git commit without -m opens an editor")
		}
		if has("--amend") {
			k.destructive("git commit --amend replaces a commit")
		}
	default: // switch, checkout
		if len(c.args) != 2 || !slices.Contains([]string{"-b", "-c"}, c.args[0].text) || !c.args[1].fixed || c.args[1].option() {
			k.destructive("git " + sub + " may overwrite files")
		}
	}
}

package policy

import (
	"slices"
	"strings"
)

// git accepts the subcommands that look, and those that add to a repository in the workspace.
func git(k *checker, c call) {
	args, ok := globalOptions(k, c.args)
	if !ok {
		return
	}
	sub, rest := subcommand(args)
	inner := call{name: "git " + sub, args: rest, fed: c.fed}
	switch sub {
	case "status", "log", "diff", "show", "rev-parse", "ls-files", "ls-tree", "shortlog", "describe", "blame", "cat-file", "rev-list",
		"merge-base", "name-rev", "for-each-ref", "show-ref", "count-objects", "whatchanged", "version", "check-ignore", "diff-tree",
		"diff-index", "diff-files", "grep", "--version", "var", "cherry", "range-diff", "check-attr":
		options("O", "output", "ext-diff", "textconv", "open-files-in-pager", "filters", "exec")(k, inner)
	case "branch":
		lists(k, inner, "-a", "-r", "-v", "-vv", "--list", "-l", "--all", "--remotes", "--show-current", "--contains", "--merged", "--no-merged")
	case "tag":
		lists(k, inner, "-l", "--list", "-n", "--contains", "--points-at")
	case "remote":
		only("nv", "verbose", "all", "push")(k, inner)
		if len(rest) > 0 && !slices.Contains([]string{"show", "get-url"}, rest[0].text) && (len(rest) > 1 || rest[0].text != "-v" && rest[0].text != "--verbose") {
			k.destructive("git remote changes the repository")
		}
	case "stash", "worktree", "submodule", "reflog", "notes":
		first := arg{}
		if len(rest) > 0 {
			first = rest[0]
		}
		only("p", "stat", "porcelain")(k, inner)
		if sub == "notes" && len(rest) > 1 {
			k.destructive("git notes may change the repository")
		}
		if !slices.Contains([]string{"list", "show", "status"}, first.text) && (sub != "reflog" || len(rest) > 0) {
			k.destructive("git " + sub + " " + first.text)
		}
	case "config":
		lists(k, inner, "--get", "--get-all", "--list", "-l")
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

// globalOptions skips the options before the subcommand. -c and the like can make git run programs.
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

// lists accepts a subcommand without arguments, or that begins with an option that makes it list.
func lists(k *checker, c call, listing ...string) {
	dynamic := slices.ContainsFunc(c.args, func(a arg) bool { return !a.fixed && !a.safe })
	if len(c.args) == 0 && c.name != "git config" {
		return
	}
	if dynamic || len(c.args) == 0 || !slices.Contains(listing, c.args[0].text) {
		k.destructive(c.name + " changes the repository")
		return
	}
	for _, a := range c.args[1:] {
		if a.option() && !slices.Contains(listing, a.text) && !strings.HasPrefix(a.text, "--sort") && !strings.HasPrefix(a.text, "--format") && a.text != "--show-origin" {
			k.destructive("the option " + a.text + " of " + c.name)
		}
	}
}

// adds accepts what only adds to a repository in the workspace: add, commit, init and new branches.
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
		only("q", "quiet")(k, c)
		writesAll(k, c)
	case "add":
		if has("-i", "--interactive", "-p", "--patch", "-e", "--edit") {
			k.interactive("git add waits for a person")
		}
		options("f", "force")(k, c)
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

package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// OnlyGit reports whether a script consists of git calls that may change a repository but neither run nor configure
// other programs. The script may also contain echo, true and pwd, and begin with a cd. OnlyGit returns the folder of
// the cd, or "". No other script may write to the .git folder of a repository, because files there can make git run
// programs.
func OnlyGit(script string) (folder string, ok bool) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil || len(file.Stmts) == 0 {
		return "", false
	}
	g := gitScript{}
	for _, stmt := range file.Stmts {
		if !g.only(stmt) {
			return "", false
		}
	}
	return g.folder, g.calls > 0
}

// gitScript is the state of checking a script for OnlyGit.
type gitScript struct {
	// folder is the folder of the cd. calls counts the calls of git, commands all commands.
	folder          string
	calls, commands int
}

// only reports whether a statement consists of allowed calls, joined with && and ||.
func (g *gitScript) only(stmt *syntax.Stmt) bool {
	if stmt.Background || stmt.Coprocess || stmt.Disown || slices.ContainsFunc(stmt.Redirs, func(r *syntax.Redirect) bool { return !quiets(r) }) {
		return false
	}
	switch cmd := stmt.Cmd.(type) {
	case *syntax.BinaryCmd:
		return (cmd.Op == syntax.AndStmt || cmd.Op == syntax.OrStmt) && g.only(cmd.X) && g.only(cmd.Y)
	case *syntax.CallExpr:
		return len(cmd.Assigns) == 0 && len(cmd.Args) > 0 && g.call(cmd.Args)
	default:
		return false
	}
}

// quiets reports whether a redirection only merges the two output streams of a command or discards one of them.
func quiets(r *syntax.Redirect) bool {
	target := r.Word.Lit()
	return r.Op == syntax.DplOut && (target == "1" || target == "2") || (r.Op == syntax.RdrOut || r.Op == syntax.RdrAll) && target == "/dev/null"
}

// call reports whether a call is an allowed call of git, a command without effects, or the leading cd.
func (g *gitScript) call(args []*syntax.Word) bool {
	g.commands++
	words := make([]string, len(args))
	for i, w := range args {
		text, ok := plainWord(w)
		if !ok || text == "" {
			if i < 2 || !isHereDocument(w) {
				return false
			}
			text = "text"
		}
		words[i] = text
	}
	switch {
	case slices.Contains([]string{"echo", "true", "pwd"}, words[0]):
		return true
	case words[0] == "cd" && len(words) == 2 && g.commands == 1 && !strings.HasPrefix(words[1], "-"):
		g.folder = words[1]
		return true
	case words[0] != "git" || len(words) < 2:
		return false
	}
	g.calls++
	return slices.Contains(strings.Fields(gitWrites), words[1]) && !slices.ContainsFunc(words[2:], steersGit)
}

// gitWrites are the allowed subcommands. They change a repository and its working tree, or only read them.
const gitWrites = `add am apply branch checkout cherry-pick commit diff fetch init log merge mv pull push rebase reset restore rev-parse
	revert rm show stash status switch tag`

// steering are the long options that make git run a program, write an arbitrary file or read settings from elsewhere.
const steering = `--exec --interactive --patch --edit --output --upload-pack --receive-pack --template --separate-git-dir --ext-diff
	--textconv --config --recurse-submodules --build-fake-ancestor`

// steersGit reports whether a word is one of the steering options, possibly abbreviated, or a short option with the
// same effect.
func steersGit(word string) bool {
	name, _, _ := strings.Cut(word, "=")
	if strings.HasPrefix(name, "--") && len(name) > 2 {
		return slices.ContainsFunc(strings.Fields(steering), func(option string) bool { return strings.HasPrefix(option, name) })
	}
	return strings.HasPrefix(word, "-x") || word == "-i" || word == "-p" || word == "-e"
}

// isHereDocument reports whether a word is the text of a here-document without expansions, as in "$(cat <<'EOF' … )".
func isHereDocument(w *syntax.Word) bool {
	parts := w.Parts
	if len(parts) == 1 {
		if quoted, ok := parts[0].(*syntax.DblQuoted); ok && !quoted.Dollar {
			parts = quoted.Parts
		}
	}
	if len(parts) != 1 {
		return false
	}
	inner, ok := parts[0].(*syntax.CmdSubst)
	if !ok || len(inner.Stmts) != 1 {
		return false
	}
	stmt := inner.Stmts[0]
	call, ok := stmt.Cmd.(*syntax.CallExpr)
	if !ok || stmt.Background || len(call.Assigns) > 0 || len(call.Args) != 1 || call.Args[0].Lit() != "cat" || len(stmt.Redirs) != 1 {
		return false
	}
	r := stmt.Redirs[0]
	return r.Op == syntax.Hdoc && r.Word.Lit() == "" // the delimiter is quoted, so the text is not expanded
}

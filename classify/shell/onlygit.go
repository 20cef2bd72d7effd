package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// OnlyGit reports whether a script calls nothing but git, in ways that change a repository and run or configure no other program, beside
// echo and a cd before all else, whose folder it returns. Only such a script may write in the folder .git of its repository: what else is
// there makes git run something.
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

// gitScript is what is known of a script up to a place in it.
type gitScript struct {
	// folder is that of its cd, calls counts its calls of git, commands all of them.
	folder          string
	calls, commands int
}

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

// quiets reports whether a redirection only joins the outputs of a command or drops one.
func quiets(r *syntax.Redirect) bool {
	target := r.Word.Lit()
	return r.Op == syntax.DplOut && (target == "1" || target == "2") || (r.Op == syntax.RdrOut || r.Op == syntax.RdrAll) && target == "/dev/null"
}

// call reports whether a call is one of git that may write in a repository, one without effects, or the cd at the beginning.
func (g *gitScript) call(args []*syntax.Word) bool {
	g.commands++
	words := make([]string, len(args))
	for i, w := range args {
		text, ok := plainWord(w)
		if !ok || text == "" {
			if i < 2 || !document(w) {
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

// gitWrites are the subcommands of git that change a repository and what is checked out, and some that go with them.
const gitWrites = `add am apply branch checkout cherry-pick commit diff fetch init log merge mv pull push rebase reset restore rev-parse
	revert rm show stash status switch tag`

// steering are the long options by which git runs a program, writes a file anywhere or takes settings from somewhere.
const steering = `--exec --interactive --patch --edit --output --upload-pack --receive-pack --template --separate-git-dir --ext-diff
	--textconv --config --recurse-submodules --build-fake-ancestor`

// steersGit reports whether a word is such an option, which git takes also when it is cut short, or a short one of that kind.
func steersGit(word string) bool {
	name, _, _ := strings.Cut(word, "=")
	if strings.HasPrefix(name, "--") && len(name) > 2 {
		return slices.ContainsFunc(strings.Fields(steering), func(option string) bool { return strings.HasPrefix(option, name) })
	}
	return strings.HasPrefix(word, "-x") || word == "-i" || word == "-p" || word == "-e"
}

// document reports whether a word is the text of a here document, as in "$(cat <<'EOF' … )".
func document(w *syntax.Word) bool {
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
	return r.Op == syntax.Hdoc && r.Word.Lit() == "" // quoted: nothing in it is computed
}

package policy

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/tools"
)

// This file holds the programs of the user's own that a plan names (`allow.programs`). One is known by its real path and the digest
// of its content: a call that runs exactly that, and nothing else, is not asked about for being unknown.

// OwnProgram returns the absolute path of the file that the command of a call runs, as it is written there, links not followed.
// It reports false unless the command is one plain call of that file: no other command, no redirection, no assignment, nothing
// that the shell computes but variables in double quotes, and no variable of the call that steers programs. An interpreter with
// the file as its first argument counts as a call of the file.
func OwnProgram(c Call) (string, bool) {
	command, ok := c.command()
	if !ok || c.Spec.Approval != tools.IfDestructive || slices.ContainsFunc(c.environment(), steersPrograms) {
		return "", false
	}
	words, ok := plainCall(command)
	if !ok {
		return "", false
	}
	name := words[0]
	if interprets(program(name)) {
		if len(words) < 2 || strings.HasPrefix(words[1], "-") {
			return "", false
		}
		name = words[1]
	} else if !strings.Contains(name, "/") {
		return "", false
	}
	return c.absolute(name)
}

// interprets reports whether a program runs the file that its first argument names.
func interprets(name string) bool {
	return slices.Contains(strings.Fields("sh bash dash zsh ksh python python3 node ruby perl"), name)
}

// absolute returns the path of a file that a command names. One that is relative to the workspace is nobody's own program.
func (c Call) absolute(name string) (string, bool) {
	if filepath.IsAbs(name) {
		return filepath.Clean(name), true
	}
	dir := cmp.Or(c.Paths["working_directory"], c.Start)
	return filepath.Join(dir, name), dir != "" && name != ""
}

// plainCall returns the words of a script that is one simple command; those that hold variables are empty.
func plainCall(text string) ([]string, bool) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil || len(file.Stmts) != 1 {
		return nil, false
	}
	stmt := file.Stmts[0]
	call, ok := stmt.Cmd.(*syntax.CallExpr)
	if !ok || stmt.Negated || stmt.Background || stmt.Coprocess || stmt.Disown || len(stmt.Redirs) > 0 || len(call.Assigns) > 0 || len(call.Args) == 0 {
		return nil, false
	}
	words := make([]string, len(call.Args))
	for i, w := range call.Args {
		if words[i], ok = plainWord(w); !ok {
			return nil, false
		}
	}
	return words, words[0] != ""
}

// plainWord returns a word that the shell hands over as it is written, or "" for one with a variable in double quotes.
func plainWord(w *syntax.Word) (string, bool) {
	k := &checker{}
	if a := k.arg(w); a.fixed {
		bare := w.Lit()
		return a.text, !k.pattern(w) && !strings.HasPrefix(bare, "~") && !strings.ContainsAny(bare, "{}")
	}
	for _, part := range w.Parts {
		quoted, ok := part.(*syntax.DblQuoted)
		if !ok || quoted.Dollar || !plainQuoted(quoted) {
			return "", false
		}
	}
	return "", true
}

// plainQuoted reports whether a text in double quotes holds nothing but letters and the values of variables.
func plainQuoted(q *syntax.DblQuoted) bool {
	for _, part := range q.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
		case *syntax.ParamExp:
			plain := p.Param != nil && !p.Excl && !p.Length && !p.Width && p.Index == nil && p.Slice == nil && p.Repl == nil && p.Names == 0 && p.Exp == nil
			if !plain {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// scopeProgram begins a scope that lets a program of the user's own be run: its real path and the digest of its content follow.
const scopeProgram = "program "

// programScope is the scope of a program with its content.
func programScope(p events.Program) string { return programScopes(p.Path) + p.SHA256 }

// programScopes begins the scopes of a program, whatever its content.
func programScopes(path string) string { return scopeProgram + path + " sha256:" }

// pinned reports whether the call runs a program that somebody has granted to its session, or that its plan, and the plan of every
// task above, names with this content. One that the calls of the session may change is never pinned: another call could do so
// between the look at it and its start.
func (c Call) pinned() bool {
	if c.Program.Path == "" || c.owns(c.Program.Path) {
		return false
	}
	return slices.Contains(c.Scopes, programScope(c.Program)) || c.allowed(func(a Allow) bool { return slices.Contains(a.Programs, c.Program) })
}

// programOffer is what a grant may open for the session of a call beside the call: its program, as it is now.
func (c Call) programOffer() []string {
	if len(c.Project) == 0 || c.Program.Path == "" || c.owns(c.Program.Path) {
		return nil
	}
	return []string{programScope(c.Program)}
}

// changed says that the program of the call was allowed with other content; "" when it was not.
func (c Call) changed() string {
	switch path := c.Program.Path; {
	case path == "" || c.pinned():
	case slices.ContainsFunc(c.Allow.Programs, func(p events.Program) bool { return p.Path == path && p != c.Program }):
		return "; " + path + " has changed since its plan was submitted with it under allow.programs"
	case slices.ContainsFunc(c.Scopes, func(s string) bool { return strings.HasPrefix(s, programScopes(path)) && s != programScope(c.Program) }):
		return "; " + path + " has changed since it was granted to the session"
	}
	return ""
}

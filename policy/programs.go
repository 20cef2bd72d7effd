package policy

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orch-dev/orch/classify/shell"
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
	if !ok || c.Spec.Approval != tools.IfDestructive || slices.ContainsFunc(c.environment(), shell.SteersPrograms) {
		return "", false
	}
	words, ok := shell.PlainCall(command)
	if !ok {
		return "", false
	}
	name := words[0]
	if shell.Interprets(shell.Program(name)) {
		if len(words) < 2 || strings.HasPrefix(words[1], "-") {
			return "", false
		}
		name = words[1]
	} else if !strings.Contains(name, "/") {
		return "", false
	}
	return c.absolute(name)
}

// absolute returns the path of a file that a command names. One that is relative to the workspace is nobody's own program.
func (c Call) absolute(name string) (string, bool) {
	if filepath.IsAbs(name) {
		return filepath.Clean(name), true
	}
	dir := cmp.Or(c.Paths["working_directory"], c.Start)
	return filepath.Join(dir, name), dir != "" && name != ""
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

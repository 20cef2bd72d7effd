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

// This file handles the user's programs that a plan allows (`allow.programs`). A program is identified by its real path
// and the digest of its content. A call that runs exactly such a program needs no approval for being unknown.

// OwnProgram returns the absolute path of the file that the command of a call runs. It does not resolve symbolic links.
// It returns false unless the command is a single simple call of that file: no other command, no redirection, no
// assignment, no expansion except variables in double quotes, and no environment variable that changes how programs
// run. An interpreter with the file as its first argument counts as a call of the file.
func OwnProgram(c *Call) (string, bool) {
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

// absolute returns the absolute path of a file that a command names. It returns false if the directory of a relative
// path is unknown.
func (c *Call) absolute(name string) (string, bool) {
	if filepath.IsAbs(name) {
		return filepath.Clean(name), true
	}
	dir := cmp.Or(c.Paths["working_directory"], c.Start)
	return filepath.Join(dir, name), dir != "" && name != ""
}

// scopeProgram is the prefix of a scope that allows running a program. The real path and the digest of its content
// follow.
const scopeProgram = "program "

// programScope returns the scope of a program with its content.
func programScope(p events.Program) string { return programScopes(p.Path) + p.SHA256 }

// programScopes returns the prefix of all scopes of a program, whatever its content.
func programScopes(path string) string { return scopeProgram + path + " sha256:" }

// programAllowed reports whether the call runs a program that was granted to its session, or that its plan and the plan
// of every ancestor allow with this content. A program that calls of the session may write is never allowed: another
// call could change it between the check and its start.
func (c *Call) programAllowed() bool {
	if c.Program.Path == "" || c.mayWrite(c.Program.Path) {
		return false
	}
	return slices.Contains(c.Scopes, programScope(c.Program)) || c.allowed(func(a Allow) bool { return slices.Contains(a.Programs, c.Program) })
}

// programOffer returns the scopes that the approver may open for the session in addition to the call: the scope of the
// call's program with its current content, or none.
func (c *Call) programOffer() []string {
	if len(c.Project) == 0 || c.Program.Path == "" || c.mayWrite(c.Program.Path) {
		return nil
	}
	return []string{programScope(c.Program)}
}

// programChanged returns a remark if the program of the call was allowed with other content, or "".
func (c *Call) programChanged() string {
	switch path := c.Program.Path; {
	case path == "" || c.programAllowed():
	case slices.ContainsFunc(c.Allow.Programs, func(p events.Program) bool { return p.Path == path && p != c.Program }):
		return "; " + path + " has changed since its plan was submitted with it under allow.programs"
	case slices.ContainsFunc(c.Scopes, func(s string) bool { return strings.HasPrefix(s, programScopes(path)) && s != programScope(c.Program) }):
		return "; " + path + " has changed since it was granted to the session"
	}
	return ""
}

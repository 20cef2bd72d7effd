package policy

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/orch-dev/orch/classify/shell"
)

// The modes in which a session writes in its project, outside of its workspace and inside of the root.
const (
	// WritesAsk asks for each call.
	WritesAsk = "ask"
	// WritesSession asks once: the grant permits writing in the project for the whole session.
	WritesSession = "session"
	// WritesAllow does not ask.
	WritesAllow = "allow"
)

// scopePath is the prefix of a scope that allows writing at a path and below it.
const scopePath = "path "

// Writable returns the paths outside of the workspace below which the call may write: those granted to its session, and
// its project if Writes is WritesAllow.
func (c *Call) Writable() []string {
	var paths []string
	if c.Writes == WritesAllow {
		paths = append(paths, c.Project...)
	}
	for _, scope := range c.Scopes {
		if place, ok := strings.CutPrefix(scope, scopePath); ok {
			paths = append(paths, place)
		}
	}
	return paths
}

// mayWrite reports whether a call may write at a clean path without an approval.
func (c *Call) mayWrite(path string) bool {
	return shell.Within(path, c.Workspace) || slices.ContainsFunc(c.Writable(), func(place string) bool { return shell.Within(path, place) })
}

// inProject returns the folder of the project that contains a path, or "".
func (c *Call) inProject(path string) string {
	for _, folder := range c.Project {
		if shell.Within(path, folder) {
			return folder
		}
	}
	return ""
}

// onlyInProject reports whether a command is destructive only because it writes in the project of its session.
func (p *Policy) onlyInProject(c *Call) bool {
	if len(c.Project) == 0 || c.Writes == WritesAllow {
		return false
	}
	allowed := *c
	allowed.Writes = WritesAllow
	class, ok := p.class(&allowed)
	return ok && !class.Destructive
}

// newOutsideAsk returns the request for a call that writes at a path outside of its workspace. With WritesSession the
// grant opens the project for the session; with WritesAsk the approver may choose that.
func (p *Policy) newOutsideAsk(c *Call, field, path, reason string) *Ask {
	ask := &Ask{
		Rule: "outside_workspace", Field: field, Type: Checkpoint, Risk: "medium", Reason: reason,
		Instead: "write inside task.workspace (" + c.Workspace + ")",
	}
	folder := c.inProject(path)
	switch {
	case folder == "":
	case c.Writes == WritesSession:
		ask.Scopes = []string{scopePath + folder}
		ask.Reason += "; the grant lets the session write in " + folder
	default:
		ask.Offers = slices.Compact([]string{scopePath + filepath.Clean(path), scopePath + folder})
	}
	return ask
}

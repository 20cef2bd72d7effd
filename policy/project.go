package policy

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/orch-dev/orch/classify/shell"
)

// How a session writes in its project, that is outside of its workspace and inside of the root.
const (
	// WritesAsk asks for each call.
	WritesAsk = "ask"
	// WritesSession asks once: the grant opens the project for the session.
	WritesSession = "session"
	// WritesAllow does not ask.
	WritesAllow = "allow"
)

// scopePath begins a scope that opens a path, and all below it, to be written.
const scopePath = "path "

// Writable are the places outside of the workspace in which the call may write: what was granted to its session, and its project
// where that is open.
func (c Call) Writable() []string {
	var places []string
	if c.Writes == WritesAllow {
		places = append(places, c.Project...)
	}
	for _, scope := range c.Scopes {
		if place, ok := strings.CutPrefix(scope, scopePath); ok {
			places = append(places, place)
		}
	}
	return places
}

// owns reports whether a call may write at a clean path without a question.
func (c Call) owns(path string) bool {
	return shell.Within(path, c.Workspace) || slices.ContainsFunc(c.Writable(), func(place string) bool { return shell.Within(path, place) })
}

// inProject returns the folder of the project that a path lies in, "" for none.
func (c Call) inProject(path string) string {
	for _, folder := range c.Project {
		if shell.Within(path, folder) {
			return folder
		}
	}
	return ""
}

// onlyInProject reports whether nothing speaks against a command but that it writes in the project of its session.
func (p *Policy) onlyInProject(c Call) bool {
	if len(c.Project) == 0 || c.Writes == WritesAllow {
		return false
	}
	c.Writes = WritesAllow
	class, ok := p.class(c)
	return ok && !class.Destructive
}

// outsideAsk asks for a call that writes at a path outside of its workspace. In a session whose project is written after one
// question, that question is for the session; else it offers to be.
func (p *Policy) outsideAsk(c Call, field, path, reason string) *Ask {
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

package server

import (
	"context"
	"path"
	"slices"
	"time"

	"github.com/orch-dev/orch/tools"
)

// Role says what an identity may do.
type Role string

// The roles.
const (
	// Operator sees every task, submits, cancels and decides.
	Operator Role = "operator"
	// Submitter submits and sees its own tasks, and decides about approvals by elicitation.
	Submitter Role = "submitter"
	// Agent submits and sees its own tasks, and never decides about an approval.
	Agent Role = "agent"
	// Viewer sees every task and changes nothing.
	Viewer Role = "viewer"
)

// Roles returns all roles, the one with the most rights first.
func Roles() []Role { return []Role{Operator, Submitter, Agent, Viewer} }

func (r Role) seesAll() bool { return r == Operator || r == Viewer }
func (r Role) submits() bool { return r != Viewer && slices.Contains(Roles(), r) }
func (r Role) decides() bool { return r == Operator || r == Submitter }

// Identity is who speaks to the server.
type Identity struct {
	// Name is the actor in the log, such as "user:ada" or "agent:builder".
	Name string
	Role Role
	// Show narrows the tools that the identity sees and may call.
	Show Selection
	// Agent is the id of the registered agent whose credential was shown; empty for everybody else.
	Agent string
}

// sees reports whether a tool is there for the identity. A registered agent always has those by which it speaks for itself.
func (i Identity) sees(t tools.Tool) bool {
	return i.Agent != "" && t.Spec().Direct || i.Show.shows(t)
}

// Selection says which tools a client sees; zero fields do not filter.
type Selection struct {
	// Tools lists names or globs, such as FILE_* or github.*.
	Tools []string `json:"tools,omitempty"`
	// ReadOnly leaves only tools that change nothing.
	ReadOnly bool `json:"read_only,omitempty"`
}

// shows reports whether a tool is among the selected ones.
func (s Selection) shows(t tools.Tool) bool {
	spec := t.Spec()
	if spec.Internal || s.ReadOnly && spec.Effect != tools.Read && !spec.LogOnly {
		return false
	}
	return s.names(spec.Name)
}

// showsOwn reports whether a tool of the face itself is selected.
func (s Selection) showsOwn(name string) bool {
	changes := name == toolSubmit || name == toolCancel
	return s.names(name) && (!s.ReadOnly || !changes)
}

// all reports whether nothing is left out.
func (s Selection) all() bool { return len(s.Tools) == 0 && !s.ReadOnly }

// names reports whether a name is selected.
func (s Selection) names(name string) bool {
	return len(s.Tools) == 0 || slices.ContainsFunc(s.Tools, func(pattern string) bool {
		ok, _ := path.Match(pattern, name)
		return ok
	})
}

// Tokens knows the bearer tokens of a node.
type Tokens interface {
	// Verify returns whose token it is and when it expires; UNAUTHORIZED for an unknown one, TOKEN_EXPIRED.
	Verify(ctx context.Context, token string) (Identity, time.Time, error)
}

// identityKey is where the verifier leaves the identity among the facts about a token.
const identityKey = "orch"

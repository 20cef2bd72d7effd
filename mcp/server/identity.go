package server

import (
	"context"
	"path"
	"slices"
	"time"

	"github.com/orch-dev/orch/tools"
)

// Role is the set of permissions of an identity.
type Role string

// The roles.
const (
	// Operator sees every task, submits and cancels tasks, and decides approvals.
	Operator Role = "operator"
	// Submitter submits tasks, sees only its own, and decides approvals by elicitation.
	Submitter Role = "submitter"
	// Agent submits tasks, sees only its own, and never decides an approval.
	Agent Role = "agent"
	// Viewer sees every task and changes nothing.
	Viewer Role = "viewer"
)

// Roles returns all roles, the most powerful first.
func Roles() []Role { return []Role{Operator, Submitter, Agent, Viewer} }

func (r Role) seesAll() bool { return r == Operator || r == Viewer }
func (r Role) submits() bool { return r != Viewer && slices.Contains(Roles(), r) }
func (r Role) decides() bool { return r == Operator || r == Submitter }

// Identity is the authenticated sender of a request.
type Identity struct {
	// Name is the actor in the log, such as "user:ada" or "agent:builder".
	Name string
	Role Role
	// Show narrows the tools that the identity sees and may call.
	Show Selection
	// Agent is the id of the registered agent that was authenticated; empty for other identities.
	Agent string
}

// sees reports whether a tool is visible to the identity. A registered agent always sees the tools with Spec.Direct.
func (i Identity) sees(t tools.Tool) bool {
	return i.Agent != "" && t.Spec().Direct || i.Show.shows(t)
}

// Selection selects the tools that a client sees; zero fields do not filter.
type Selection struct {
	// Tools lists names or globs, such as FILE_* or github.*.
	Tools []string `json:"tools,omitempty"`
	// ReadOnly selects only tools that change nothing.
	ReadOnly bool `json:"read_only,omitempty"`
}

// shows reports whether a tool is selected.
func (s Selection) shows(t tools.Tool) bool {
	spec := t.Spec()
	if spec.Internal || s.ReadOnly && spec.Effect != tools.Read && !spec.LogOnly {
		return false
	}
	return s.names(spec.Name)
}

// showsOwn reports whether one of the server's own tools is selected.
func (s Selection) showsOwn(name string) bool {
	changes := name == toolSubmit || name == toolCancel
	return s.names(name) && (!s.ReadOnly || !changes)
}

// all reports whether the selection is unrestricted.
func (s Selection) all() bool { return len(s.Tools) == 0 && !s.ReadOnly }

// names reports whether a name is selected.
func (s Selection) names(name string) bool {
	return len(s.Tools) == 0 || slices.ContainsFunc(s.Tools, func(pattern string) bool {
		ok, _ := path.Match(pattern, name)
		return ok
	})
}

// Tokens verifies the bearer tokens of a node.
type Tokens interface {
	// Verify returns the identity of a token, and when the token expires; a zero time is never. It returns UNAUTHORIZED for an
	// unknown token and TOKEN_EXPIRED for an expired one.
	Verify(ctx context.Context, token string) (Identity, time.Time, error)
}

// identityKey is the key of the identity in the extra data of a verified token.
const identityKey = "orch"

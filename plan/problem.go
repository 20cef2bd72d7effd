package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// Problem is one fault of a plan at its place in the file.
type Problem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line"` // from 1
	Col     int    `json:"col"`  // from 1, in characters
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Hints that name commands of a shell. Faces without one have other words for them.
const (
	HintNew     = "`orch plan new` writes one to start from"
	HintTools   = "`orch tools list` shows them"
	HintServers = "configure the server on the node: `orch mcp install`"
)

// Code names the kind of the problem: INVALID_FORMAT for what is no YAML, METHOD_NOT_FOUND for a tool that there is not, REQUIRED_FIELD for
// what is missing, else VALIDATION_ERROR.
func (p Problem) Code() fault.Code {
	missing := func(words string) bool {
		return strings.HasSuffix(p.Message, words) || strings.Contains(p.Message, words+" ")
	}
	switch {
	case strings.HasPrefix(p.Message, "this is no valid YAML"), p.Message == "the plan is empty":
		return fault.InvalidFormat
	case strings.HasPrefix(p.Message, "there is no tool "):
		return fault.MethodNotFound
	case missing("is missing"), missing("is required"), strings.HasPrefix(p.Message, "the step has no "):
		return fault.RequiredField
	default:
		return fault.ValidationError
	}
}

// String returns file:line:col: path: message (hint).
func (p Problem) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: ", p.File, p.Line, p.Col)
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// Problems are all faults of a plan, sorted by position.
type Problems []Problem //nolint:errname // the list is what callers range over

// Error returns one line a problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// fault returns the problems as the coded error that leaves the package, nil when there are none.
func (ps Problems) fault() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col),
			cmp.Compare(a.Message, b.Message))
	})
	ps = slices.Compact(ps)
	message := ps[0].String()
	if len(ps) > 1 {
		message = fmt.Sprintf("%s, and %d more", message, len(ps)-1)
	}
	return fault.Wrap(fault.InvalidPlan, ps, message)
}

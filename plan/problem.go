package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// Problem is one error in a plan with its position in the file.
type Problem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line"` // from 1
	Col     int    `json:"col"`  // from 1, in characters
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Hints that name shell commands. The interfaces for clients without a shell (MCP, HTTP) replace these hints.
const (
	HintNew     = "`orch plan new` writes one to start from"
	HintTools   = "`orch tools list` shows them"
	HintServers = "configure the server on the node: `orch mcp install`"
)

// Code returns the error code of the problem: INVALID_FORMAT for invalid YAML, METHOD_NOT_FOUND for an unknown tool,
// REQUIRED_FIELD for a missing field, else VALIDATION_ERROR.
func (p Problem) Code() fault.Code {
	missing := func(words string) bool {
		return strings.HasSuffix(p.Message, words) || strings.Contains(p.Message, words+" ")
	}
	switch {
	case strings.HasPrefix(p.Message, "this is not valid YAML"), p.Message == "the plan is empty":
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

// Problems are all problems of a plan, sorted by position.
type Problems []Problem //nolint:errname // a list of problems, which callers range over

// Error returns one line per problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// fault returns the problems as a coded error, or nil if there are none.
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

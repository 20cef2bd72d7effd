package plan

import (
	"encoding/json"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"

	"github.com/orch-dev/orch/fault"
)

// This file evaluates the expressions about the outcome of an attempt: `expect` and `retry.when`.

// reasonUnexpected is the reason of the error for a result that does not satisfy `expect`.
const reasonUnexpected = "UNEXPECTED_RESULT"

// Expected checks the output of the step's tool against `expect`. If the expression is false, it returns TOOL_FAILED
// with the reason UNEXPECTED_RESULT and the values that the expression used. If the expression fails, it returns a
// different error. Without `expect` it accepts every output.
func (n *Node) Expected(output json.RawMessage) error {
	if n.expected == nil {
		return nil
	}
	v, err := decodePart(output, "the output of "+n.Tool)
	if err != nil {
		return err
	}
	yes, err := n.evalBool(n.expected, "expect", Scope{}, map[string]any{rootOutput: v})
	if err != nil || yes {
		return err
	}
	message := "the result is not as expected: " + shorten(n.Expect)
	if seen := observed(n.Expect, v); seen != "" {
		message += ", but " + seen
	}
	if tail := outputTail(v, n.Expect); tail != "" {
		message += "; " + tail
	}
	return fault.New(fault.ToolFailed, "%s", message).WithReason(reasonUnexpected)
}

// outputTail returns the end of a program's standard error, or else of its standard output, for the error message. It
// skips a stream that the expression uses. Logs and lists have only the message.
func outputTail(output any, expression string) string {
	const limit = 400
	object, _ := output.(map[string]any)
	for _, name := range []string{"stderr", "stdout"} {
		text, _ := object[name].(string)
		if text = strings.TrimSpace(text); text == "" || strings.Contains(expression, name) {
			continue
		}
		if len(text) > limit {
			text = "…" + strings.ToValidUTF8(text[len(text)-limit:], "")
		}
		return name + " ends: " + strings.Join(strings.Fields(text), " ")
	}
	return ""
}

// Unexpected reports whether err means that a result does not satisfy `expect` or `until`.
func Unexpected(err error) bool {
	reason := fault.From(err).Reason
	return reason == reasonUnexpected || reason == reasonRounds
}

// Attempt is a failed attempt as `retry.when` sees it.
type Attempt struct {
	Number  int    // from 1
	Class   string // of the failure, such as tool_error
	Code    string
	Message string
	// Output is the result that did not satisfy `expect`; nil for any other failure.
	Output json.RawMessage
}

// RetryWhen reports whether `retry.when` allows another attempt. Without an expression it returns true; when the
// expression fails it returns false.
func (n *Node) RetryWhen(a Attempt) bool {
	if n.retryWhen == nil {
		return true
	}
	output, err := decodePart(a.Output, "the output of "+n.Tool)
	if err != nil {
		return false
	}
	yes, err := n.evalBool(n.retryWhen, "retry.when", Scope{}, map[string]any{
		rootAttempt: a.Number, rootOutput: output,
		rootError: map[string]any{"class": a.Class, "code": a.Code, "message": a.Message},
	})
	return err == nil && yes
}

// observed describes up to three scalars of the output that an expression refers to, shortened.
func observed(source string, output any) string {
	tree, err := parser.Parse(source)
	if err != nil {
		return ""
	}
	var seen []string
	ast.Walk(&tree.Node, visitor(func(node *ast.Node) {
		path, ok := pathOf(*node)
		if value, there := valueAt(output, path); ok && there {
			seen = append(seen, (*node).String()+" is "+value)
		}
	}))
	const limit = 3
	return strings.Join(seen[:min(len(seen), limit)], ", ")
}

// pathOf returns the path from the output to the member that a node refers to.
func pathOf(node ast.Node) (path []string, ok bool) {
	member, ok := node.(*ast.MemberNode)
	if !ok {
		root, ok := node.(*ast.IdentifierNode)
		return nil, ok && root.Value == rootOutput
	}
	name, ok := member.Property.(*ast.StringNode)
	if !ok {
		return nil, false
	}
	if path, ok = pathOf(member.Node); ok {
		path = append(path, name.Value)
	}
	return path, ok
}

// valueAt returns the scalar at a path as JSON, shortened. It returns false for objects and lists.
func valueAt(v any, path []string) (text string, ok bool) {
	for _, name := range path {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	switch v.(type) {
	case map[string]any, []any:
		return "", false
	}
	raw, err := encode(v)
	return shorten(string(raw)), err == nil && len(path) > 0
}

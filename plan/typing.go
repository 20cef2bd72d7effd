package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// typer infers the shapes of the values in an expression, and reports contradictions.
type typer struct {
	refs *references
	vars map[string]*shape
	item *shape // the item that a predicate sees
}

// shapeOf returns the shape of a node's value.
func (t typer) shapeOf(node ast.Node) *shape {
	switch n := node.(type) {
	case *ast.IdentifierNode:
		return t.vars[n.Value]
	case *ast.PointerNode:
		if n.Name == "" {
			return t.item
		}
	case *ast.StringNode:
		return oneOfWords(n.Value)
	case *ast.ChainNode:
		return t.shapeOf(n.Node)
	case *ast.MemberNode:
		return t.member(n)
	case *ast.BinaryNode:
		return t.binary(n)
	case *ast.ConditionalNode:
		t.shapeOf(n.Cond)
		return either(t.shapeOf(n.Exp1), t.shapeOf(n.Exp2))
	case *ast.BuiltinNode:
		return t.builtin(n)
	case *ast.PredicateNode:
		return t.shapeOf(n.Node)
	case *ast.VariableDeclaratorNode:
		return t.declared(n)
	default:
		t.visitParts(n)
	}
	return nil
}

// visitParts visits the parts of a node that has no known shape itself.
func (t typer) visitParts(node ast.Node) {
	var parts []ast.Node
	switch n := node.(type) {
	case *ast.UnaryNode:
		parts = []ast.Node{n.Node}
	case *ast.SliceNode:
		parts = []ast.Node{n.Node, n.From, n.To}
	case *ast.CallNode:
		parts = n.Arguments
	case *ast.ArrayNode:
		parts = n.Nodes
	case *ast.SequenceNode:
		parts = n.Nodes
	case *ast.MapNode:
		parts = n.Pairs
	case *ast.PairNode:
		parts = []ast.Node{n.Key, n.Value}
	}
	for _, part := range parts {
		if part != nil {
			t.shapeOf(part)
		}
	}
}

func (t typer) declared(n *ast.VariableDeclaratorNode) *shape {
	value := t.shapeOf(n.Value)
	t.vars = maps.Clone(t.vars)
	t.vars[n.Name] = value
	return t.shapeOf(n.Expr)
}

// member returns the shape of a field or an item.
func (t typer) member(n *ast.MemberNode) *shape {
	name, fixed := n.Property.(*ast.StringNode)
	if root, ok := n.Node.(*ast.IdentifierNode); ok && fixed && root.Value == rootSteps && slices.Contains(t.refs.scope.names, rootSteps) {
		return t.step(name.Value)
	}
	base := t.shapeOf(n.Node)
	if !fixed {
		if index := t.shapeOf(n.Property); index != nil && index.words != nil {
			return nil
		}
		return base.item()
	}
	field, known := base.field(name.Value)
	if !known {
		t.refs.reportField(n, name.Value, base)
	}
	return field
}

func (t typer) step(id string) *shape {
	if s := t.refs.scope.stepNamed(id); s != nil {
		return t.refs.scope.linker.resultOf(s)
	}
	return nil
}

func (t typer) binary(n *ast.BinaryNode) *shape {
	left, right := t.shapeOf(n.Left), t.shapeOf(n.Right)
	switch n.Operator {
	case "==", "!=":
		t.compare(n.Left, n.Right, left)
		t.compare(n.Right, n.Left, right)
	case "in":
		if list, ok := n.Right.(*ast.ArrayNode); ok {
			for _, item := range list.Nodes {
				t.compare(n.Left, item, left)
			}
		}
	case "??":
		return either(left, right)
	}
	return nil
}

// compare reports a comparison with a string that the value can never equal. The empty string is accepted, because
// people use it as a guard.
func (t typer) compare(value, constant ast.Node, s *shape) {
	text, ok := constant.(*ast.StringNode)
	if !ok {
		return
	}
	s = s.resolve()
	if _, both := value.(*ast.StringNode); both || s == nil || text.Value == "" {
		return
	}
	source := "`" + shorten(value.String()) + "`"
	switch {
	case !s.allows("string"):
		t.refs.report(constant, fmt.Sprintf("%s is never the text %s: it is %s", source, quote(text.Value), kindsNamed(s.kinds)), "")
	case s.words != nil && !slices.Contains(s.words, text.Value):
		t.refs.report(constant, source+" is never "+quote(text.Value), t.refs.at.suggestWord(text.Value, s.words))
	}
}

// builtin returns the shape of a function's result. The first argument of most functions is a list, and predicates see
// its items.
func (t typer) builtin(n *ast.BuiltinNode) *shape {
	if len(n.Arguments) == 0 {
		return nil
	}
	list := t.shapeOf(n.Arguments[0])
	inner := t
	inner.item = list.item()
	var last *shape
	for _, argument := range n.Arguments[1:] {
		if n.Name == "reduce" {
			inner.item = nil // #acc is visible, too
		}
		last = inner.shapeOf(argument)
	}
	switch n.Name {
	case "filter", "sort", "sortBy", "reverse", "uniq", "take":
		return list
	case "find", "findLast", "first", "last":
		return list.item()
	case "map":
		return arrayOf(last)
	default:
		return nil
	}
}

// either returns the shape of a value that has shape a or b.
func either(a, b *shape) *shape {
	if a == nil || b == nil || a.words == nil || b.words == nil {
		return nil
	}
	return oneOfWords(slices.Concat(a.words, b.words)...)
}

// kindsNamed formats JSON types for messages.
func kindsNamed(kinds []string) string {
	names := map[string]string{"object": "an object", "array": "a list", "integer": "a number", "number": "a number", "boolean": "true or false"}
	var all []string
	for _, kind := range kinds {
		if name := names[kind]; name != "" {
			all = append(all, name)
		}
	}
	if all == nil {
		return "null"
	}
	return strings.Join(all, " or ")
}

// reportField reports an access to a missing field.
func (r *references) reportField(n *ast.MemberNode, name string, owner *shape) {
	source := "`" + shorten(n.Node.String()) + "`"
	owner = owner.resolve()
	if len(owner.fields) == 0 {
		r.report(n.Property, source+" has no fields, so no "+quote(name), "")
		return
	}
	fields := sortedKeys(owner.fields)
	r.report(n.Property, source+" has no field "+quote(name), r.at.suggest(name, fields, "it has "+strings.Join(fields, ", ")))
}

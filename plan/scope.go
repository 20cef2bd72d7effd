package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// The root names of expressions.
const (
	rootInputs = "inputs"
	rootSteps  = "steps"
	rootTask   = "task"
	// rootSchedule is the schedule that has started the task.
	rootSchedule = "schedule"
	// rootHook is the delivery of a hook that has started the task.
	rootHook   = "hook"
	rootIndex  = "index"
	rootArgs   = "args"
	rootOutput = "output"
	// rootError and rootAttempt describe a failed attempt.
	rootError   = "error"
	rootAttempt = "attempt"
	rootRound   = "round"
)

// scope is the compile-time environment of an expression: the names that it may use, and the names that it uses.
type scope struct {
	linker *linker
	owner  string   // for messages
	names  []string // visible names
	// stepProblem returns why the expression cannot refer to a step; "" if it can.
	stepProblem func(id string) (problem, hint string)
	// members are the fields of a name; nil for any.
	members map[string][]string
	// siblings are the steps of the enclosing `do`; vars are the shapes of names.
	siblings []*Step
	vars     map[string]*shape
	known    *shape          // shape of the last compiled expression
	steps    map[string]bool // referenced step ids
	uses     map[string]bool // referenced names
	inputs   map[string]bool // referenced inputs, anyInput for all
}

// field compiles a template value.
func (s *scope) field(v any, at location) *field {
	fresh := *s
	fresh.steps, fresh.uses, fresh.inputs = map[string]bool{}, map[string]bool{}, map[string]bool{}
	t := fresh.template(v, at)
	return s.newField(&fresh, t)
}

// expressionField compiles a field that is always an expression.
func (s *scope) expressionField(source string, at location) *field {
	fresh := *s
	fresh.steps, fresh.uses, fresh.inputs = map[string]bool{}, map[string]bool{}, map[string]bool{}
	if source == "" {
		return &field{template: literal{}} // reported when it was parsed
	}
	t := fresh.expression(source, at)
	return s.newField(&fresh, t)
}

// newField returns the field of a template that was compiled in the scope fresh. It adds the references of fresh to s.
func (s *scope) newField(fresh *scope, t template) *field {
	s.known = fresh.known
	maps.Copy(s.steps, fresh.steps)
	maps.Copy(s.inputs, fresh.inputs)
	f := &field{template: t, steps: sortedKeys(fresh.steps), uses: fresh.uses}
	if plain, ok := t.(literal); ok {
		f.fixed, _ = encode(plain.value) // a value that cannot be encoded was reported when it was parsed
	}
	return f
}

// expression compiles one expression and reports its errors at their locations.
func (s *scope) expression(source string, at location) template {
	if strings.TrimSpace(source) == "" {
		at.report("the expression is empty", "")
		return literal{}
	}
	if len(source) > MaxExpression {
		at.report(fmt.Sprintf("an expression has at most %d bytes, this has %d", MaxExpression, len(source)), "compute parts of it in a `set` step")
		return literal{}
	}
	refs := references{scope: s, source: source, at: at, unresolved: map[*ast.IdentifierNode]bool{}, whole: map[*ast.IdentifierNode]bool{}}
	code, err := compileExpression(source, s.linker.languages.with(s.names), refs.read)
	refs.reportUnresolved()
	if err != nil {
		at.reportIn(source, err.From, "the expression `"+shorten(strings.TrimSpace(source))+"` is wrong: "+err.Message, s.hint(err.Message, at))
		s.known = nil
		return literal{}
	}
	s.known = refs.known
	return &expression{owner: s.owner, source: strings.TrimSpace(source), code: code}
}

// hint returns a suggestion for an unknown name.
func (s *scope) hint(message string, at location) string {
	if field, unknown := strings.CutPrefix(message, "unknown field "); unknown {
		return at.suggest(field, resultFields(), "a step has output, state, error, attempts; a task id, name, workspace, root, attempt")
	}
	name, unknown := strings.CutPrefix(message, "unknown name ")
	config := s.linker.languages.with(s.names)
	known := slices.Concat(s.names, sortedKeys(config.Builtins), sortedKeys(config.Functions))
	switch {
	case message == `unexpected token Operator("=")`:
		return "compare with =="
	case message == `unexpected token Bracket("{")`:
		return "write ${{ EXPRESSION }}, with two braces"
	case !unknown:
		return ""
	case nameAdvice(name) != "":
		return nameAdvice(name)
	default:
		return at.suggest(name, known, "texts need quotes; names here are "+strings.Join(s.names, ", "))
	}
}

func resultFields() []string {
	return []string{"output", "state", "error", "attempts", "code", "message", "class", "id", "name", "workspace", "root", "attempt", "created", "time", "delivery", "subject", "headers", "body"}
}

// references collects the names and the steps that an expression refers to. It visits the children of a node before the
// node.
type references struct {
	scope      *scope
	source     string
	at         location
	unresolved map[*ast.IdentifierNode]bool // uses of `steps` for which no id was found yet
	whole      map[*ast.IdentifierNode]bool // uses of `inputs` for which no name was found yet
	known      *shape                       // the shape of the value
}

// read visits the whole expression.
func (r *references) read(tree *ast.Node) {
	ast.Walk(tree, visitor(r.visit))
	if len(r.whole) > 0 {
		r.scope.inputs[anyInput] = true
	}
	if r.scope.linker.opt.Accepted {
		return
	}
	t := typer{refs: r, vars: map[string]*shape{rootInputs: r.scope.linker.inputsShape()}}
	maps.Copy(t.vars, r.scope.vars)
	r.known = t.shapeOf(*tree)
}

func (r *references) visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		r.identifier(n)
	case *ast.MemberNode:
		r.member(n)
	case *ast.BinaryNode:
		r.comparison(n)
	}
}

func (r *references) identifier(n *ast.IdentifierNode) {
	switch {
	case n.Value == "$env":
		r.report(n, "$env is not available", "name what is needed")
	case n.Value == rootSteps && slices.Contains(r.scope.names, rootSteps):
		r.unresolved[n] = true
	default:
		r.scope.uses[n.Value] = true
		if n.Value == rootInputs {
			r.whole[n] = true
		}
	}
}

func (r *references) member(n *ast.MemberNode) {
	root, ok := n.Node.(*ast.IdentifierNode)
	name, fixed := n.Property.(*ast.StringNode)
	switch {
	case !ok || !slices.Contains(r.scope.names, root.Value):
	case root.Value == rootSteps && fixed:
		delete(r.unresolved, root)
		r.step(n, name.Value)
	case root.Value == rootInputs && fixed:
		delete(r.whole, root)
		r.scope.inputs[name.Value] = true
		r.input(n, name.Value)
	case fixed:
		r.field(n, root.Value, name.Value)
	}
}

// field checks a field of a name with a known set of fields.
func (r *references) field(n ast.Node, of, name string) {
	if known := r.scope.members[of]; known != nil && !slices.Contains(known, name) {
		r.report(n, of+" has no "+quote(name), r.at.suggest(name, known, "it has "+strings.Join(known, ", ")))
	}
}

func (r *references) step(n ast.Node, id string) {
	r.scope.steps[id] = true
	if problem, hint := r.scope.stepProblem(id); problem != "" {
		delete(r.scope.steps, id)
		r.report(n, problem, hint)
	}
}

func (r *references) input(n ast.Node, name string) {
	if in := r.scope.linker.inputs; !in.knows(name) {
		r.report(n, "there is no input "+quote(name), r.at.suggest(name, in.names(), "declare it below inputs.properties"))
	}
}

// comparison reports a comparison of an error with null: an error is always an object.
func (r *references) comparison(n *ast.BinaryNode) {
	if n.Operator != "==" && n.Operator != "!=" {
		return
	}
	for _, pair := range [][2]ast.Node{{n.Left, n.Right}, {n.Right, n.Left}} {
		m, member := pair[0].(*ast.MemberNode)
		_, null := pair[1].(*ast.NilNode)
		if member && null && strings.HasPrefix(m.String(), rootSteps+".") && isName(m.Property, "error") {
			r.report(n, "the error of a step is never null", `compare its state: steps.x.state == "failed"`)
		}
	}
}

func isName(n ast.Node, name string) bool {
	s, ok := n.(*ast.StringNode)
	return ok && s.Value == name
}

// reportUnresolved reports uses of `steps` without a step id.
func (r *references) reportUnresolved() {
	for n := range r.unresolved {
		r.report(n, "`steps` alone cannot be used", "name a step: steps.<id>.output")
	}
}

func (r *references) report(n ast.Node, message, hint string) {
	from := n.Location().From
	if m, ok := n.(*ast.MemberNode); ok {
		from = m.Node.Location().From
	}
	r.at.reportIn(r.source, from, message, hint)
}

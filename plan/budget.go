package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/vm/runtime"
)

// The budgets of one evaluation. The expression language bounds the lists that an expression creates. It does not bound
// growing strings, nested lists and nested loops.
const (
	maxText  = 4 << 20   // bytes of one string that an expression creates
	maxValue = 16 << 20  // size of one value: a string counts its bytes, anything else 16
	maxTicks = 1_000_000 // iterations of all loops
	// maxTime bounds loops with slow iterations, such as those that encode a large value each time. It is long enough
	// for fast iterations on any machine: a plan must not fail because a machine is busy.
	maxTime   = 30 * time.Second
	timeEvery = 16 // iterations between two reads of the clock
)

// The names of the functions that enforce the budgets; expressions are rewritten to call them.
const (
	nameTick  = "__tick"
	nameAdd   = "__add"
	nameEqual = "__equal"
	nameIn    = "__in"
	nameMatch = "__matches"
)

var (
	errTooLong = errors.New("a text of more than 4 MiB")
	errTooBig  = errors.New("a value of more than 16 MiB")
	errTooSlow = errors.New("more than 1,000,000 rounds of its loops")
	errTooLate = errors.New("it took longer than 30s")
	errRegexp  = errors.New("a regular expression that is too large for the length of its text")
)

// ticker returns a function that counts the loop iterations of one evaluation. It panics when a budget is exceeded.
func ticker() func() bool {
	left := maxTicks
	var end time.Time
	return func() bool {
		if left--; left < 0 {
			panic(errTooSlow)
		}
		if left%timeEvery != 0 {
			return true
		}
		now := time.Now()
		if end.IsZero() {
			end = now.Add(maxTime)
		}
		if now.After(end) {
			panic(errTooLate)
		}
		return true
	}
}

// insertBudgets rewrites a node of a checked expression so that each loop iteration calls the ticker, and
// concatenations and comparisons call functions that enforce the budgets.
func insertBudgets(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.PredicateNode:
		tick := &ast.CallNode{Callee: &ast.IdentifierNode{Value: nameTick}}
		n.Node = &ast.SequenceNode{Nodes: []ast.Node{tick, n.Node}}
	case *ast.BinaryNode:
		if t := n.Type(); n.Operator == "+" && (t.Kind() == reflect.String || t.Kind() == reflect.Interface) {
			ast.Patch(node, calls(nameAdd, n))
			return
		}
		switch {
		case n.Operator == "matches":
			n.Right = compiledOnce(n.Right)
			ast.Patch(node, calls(nameMatch, n))
		case n.Operator == "in" && (!flat(n.Left) || !flat(n.Right)):
			ast.Patch(node, calls(nameIn, n))
		case n.Operator == "==" && !flat(n.Left) && !flat(n.Right):
			ast.Patch(node, calls(nameEqual, n))
		case n.Operator == "!=" && !flat(n.Left) && !flat(n.Right):
			ast.Patch(node, &ast.UnaryNode{Operator: "not", Node: calls(nameEqual, n)})
		}
	}
}

func calls(name string, n *ast.BinaryNode) *ast.CallNode {
	return &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: []ast.Node{n.Left, n.Right}}
}

// flat reports whether a node is a scalar constant, so that a comparison with it is cheap.
func flat(n ast.Node) bool {
	if _, ok := n.(*ast.NilNode); ok {
		return true
	}
	switch t := n.Type(); t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64, reflect.String:
		return true
	default:
		return false
	}
}

// boundedFunctions replaces the built-in functions whose result can be much larger than their arguments, and uniq,
// whose time is quadratic in the length of its list.
func boundedFunctions() []expr.Option {
	return []expr.Option{
		expr.Function(nameAdd, add, new(func(any, any) any)),
		expr.Function(nameEqual, equal, new(func(any, any) bool)),
		expr.Function(nameIn, in, new(func(any, any) bool)),
		expr.Function(nameMatch, matches, new(func(any, any) bool)),
		measured("flatten"), measured("min"), measured("max"), measured("mean"), measured("median"),
		function("replace", replaceAll, new(func(string, string, string) string), new(func(string, string, string, int) string)),
		function("join", join, new(func([]any) string), new(func([]any, string) string), new(func([]string) string), new(func([]string, string) string)),
		function("string", func(args ...any) (any, error) { return asText(args[0]) }, new(func(any) string)),
		function("uniq", uniq, new(func(any) []any)),
		function("toJSON", toJSON, new(func(any) string)),
	}
}

// measured wraps a built-in function that traverses its arguments, and bounds their size. A list that contains the same
// list many times is small in memory, but takes very long to traverse.
func measured(name string) expr.Option {
	original := builtin.Builtins[builtin.Index[name]]
	return function(name, func(args ...any) (any, error) {
		small := make([]any, len(args))
		for i, arg := range args {
			var err error
			if small[i], err = jsonValue(arg); err != nil {
				return nil, err
			}
		}
		if original.Safe != nil {
			v, _, err := original.Safe(small...)
			return v, err
		}
		return original.Func(small...)
	})
}

func equal(args ...any) (any, error) {
	a, err := jsonValue(args[0])
	if err != nil {
		return nil, err
	}
	b, err := jsonValue(args[1])
	if err != nil {
		return nil, err
	}
	return runtime.Equal(a, b), nil
}

func in(args ...any) (any, error) {
	a, err := jsonValue(args[0])
	if err != nil {
		return nil, err
	}
	b, err := jsonValue(args[1])
	if err != nil {
		return nil, err
	}
	return runtime.In(a, b), nil
}

const (
	// maxMatch bounds the work of a regular expression: its instructions times the bytes of the text. 1e8 take about a second.
	maxMatch = 100_000_000
	// maxPattern bounds a regular expression that is not a constant, in bytes.
	maxPattern = 4096
)

// pattern is a compiled regular expression.
type pattern struct {
	*regexp.Regexp

	// size is the number of its instructions.
	size int
}

func compilePattern(text string) (*pattern, error) {
	if len(text) > maxPattern {
		return nil, errRegexp
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(text)
	return &pattern{re, len(program.Inst)}, err
}

// compiledOnce replaces a constant pattern by the compiled one. A wrong one stays, and is reported when it is used.
func compiledOnce(n ast.Node) ast.Node {
	if constant, ok := n.(*ast.StringNode); ok {
		if p, err := compilePattern(constant.Value); err == nil {
			return &ast.ConstantNode{Value: p}
		}
	}
	return n
}

// matches implements the operator of the same name. nil matches nothing.
func matches(args ...any) (any, error) {
	text, isText := args[0].(string)
	p, isPattern := args[1].(*pattern)
	source, isSource := args[1].(string)
	switch {
	case args[0] == nil || args[1] == nil:
		return false, nil
	case !isText || !isPattern && !isSource:
		return nil, fmt.Errorf("matches takes texts, not %s and %s", typeName(args[0]), typeName(args[1]))
	case isSource:
		var err error
		if p, err = compilePattern(source); err != nil {
			return nil, err
		}
	}
	if p.size*len(text) > maxMatch {
		return nil, errRegexp
	}
	return p.MatchString(text), nil
}

func add(args ...any) (any, error) {
	a, aText := args[0].(string)
	b, bText := args[1].(string)
	if aText && bText {
		if len(a)+len(b) > maxText {
			return nil, errTooLong
		}
		return a + b, nil
	}
	return runtime.Add(args[0], args[1]), nil
}

func replaceAll(args ...any) (any, error) {
	s, old, next, times := "", "", "", -1
	for i, to := range []*string{&s, &old, &next} {
		text, ok := args[i].(string)
		if !ok {
			return nil, fmt.Errorf("replace takes texts, not %s", typeName(args[i]))
		}
		*to = text
	}
	if len(args) == 4 {
		times = runtime.ToInt(args[3])
	}
	count := strings.Count(s, old)
	if times >= 0 {
		count = min(count, times)
	}
	if len(s)+count*(len(next)-len(old)) > maxText {
		return nil, errTooLong
	}
	return strings.Replace(s, old, next, times), nil
}

func join(args ...any) (any, error) {
	v, err := jsonValue(args[0])
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	glue := ""
	if len(args) == 2 {
		glue, _ = args[1].(string)
	}
	if !ok {
		return nil, fmt.Errorf("join takes a list of texts, not %s", typeName(v))
	}
	texts, length := make([]string, len(list)), 0
	for i, item := range list {
		text, ok := item.(string)
		if !ok {
			return nil, fmt.Errorf("join takes a list of texts, but one of the items is %s", typeName(item))
		}
		texts[i] = text
		if length += len(text) + len(glue); length > maxText {
			return nil, errTooLong
		}
	}
	return strings.Join(texts, glue), nil
}

func uniq(args ...any) (any, error) {
	v, err := jsonValue(args[0])
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("uniq takes a list, not %s", typeName(v))
	}
	seen, unique := make(map[string]bool, len(list)), []any{}
	for _, item := range list {
		raw, err := encode(item)
		if err != nil {
			return nil, err
		}
		if !seen[string(raw)] {
			seen[string(raw)] = true
			unique = append(unique, item)
		}
	}
	return unique, nil
}

// asText implements `string`: a scalar as text, anything else as JSON.
func asText(v any) (any, error) {
	v, err := jsonValue(v)
	if err != nil {
		return nil, err
	}
	switch v.(type) {
	case nil, []any, map[string]any:
		return toJSON(v)
	default:
		return toText(v)
	}
}

func toJSON(args ...any) (any, error) {
	v, err := jsonValue(args[0])
	if err != nil {
		return nil, err
	}
	raw, err := encode(v)
	if len(raw) > maxText {
		return nil, errTooLong
	}
	return string(raw), err
}

// jsonValue converts the result of an expression to a JSON value.
func jsonValue(v any) (any, error) {
	c := converter{left: maxValue}
	return c.value(v)
}

// converter copies a value and fails when the copy becomes too large, because lists may be nested.
type converter struct{ left int }

func (c *converter) value(v any) (any, error) {
	if c.left -= 16; c.left < 0 {
		return nil, errTooBig
	}
	switch v := v.(type) {
	case string:
		if c.left -= len(v); c.left < 0 {
			return nil, errTooBig
		}
		return v, nil
	case nil, bool, int, json.Number:
		return v, nil
	case float64:
		return finite(v)
	case time.Time:
		return v.Format(time.RFC3339Nano), nil
	case time.Duration:
		return v.String(), nil
	case []any:
		return c.list(len(v), func(i int) any { return v[i] })
	case map[string]any:
		object := make(map[string]any, len(v))
		for key := range v {
			if err := c.entry(object, key, v[key]); err != nil {
				return nil, err
			}
		}
		return object, nil
	default:
		return c.reflected(v)
	}
}

func (c *converter) list(n int, at func(int) any) (any, error) {
	list := make([]any, 0, min(n, maxItemsAtOnce))
	for i := range n {
		item, err := c.value(at(i))
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

// maxItemsAtOnce bounds the initial allocation for a list.
const maxItemsAtOnce = 10_000

func (c *converter) entry(object map[string]any, key string, v any) error {
	item, err := c.value(v)
	object[key] = item
	c.left -= len(key)
	return err
}

// reflected converts the types that only functions of the language return, such as []string and map[any][]any.
func (c *converter) reflected(v any) (any, error) {
	r := reflect.ValueOf(v)
	switch {
	case r.CanInt():
		return int(r.Int()), nil
	case r.CanUint():
		return json.Number(strconv.FormatUint(r.Uint(), 10)), nil
	case r.CanFloat():
		return finite(r.Float())
	case r.Kind() == reflect.Slice || r.Kind() == reflect.Array:
		return c.list(r.Len(), func(i int) any { return r.Index(i).Interface() })
	case r.Kind() == reflect.Map:
		object := make(map[string]any, r.Len())
		for _, key := range r.MapKeys() {
			if err := c.entry(object, fmt.Sprint(key.Interface()), r.MapIndex(key).Interface()); err != nil {
				return nil, err
			}
		}
		return object, nil
	default:
		return nil, fmt.Errorf("a %s has no form in JSON", r.Kind())
	}
}

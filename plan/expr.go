package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/optimizer"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"github.com/orch-dev/orch/fault"
)

// The budgets of one expression.
const (
	exprNodes  = 1000             // nodes of its syntax tree
	exprMemory = MaxItems + 1_000 // elements that one evaluation may create
)

// expression is a compiled expression.
type expression struct {
	owner  string // for messages: step "x"
	source string
	code   *vm.Program
}

// eval evaluates the expression and returns a JSON value.
func (e *expression) eval(env map[string]any) (any, error) {
	machine := vm.VM{MemoryBudget: exprMemory}
	v, err := machine.Run(e.code, env)
	if err == nil {
		v, err = jsonValue(v)
	}
	if err != nil {
		return nil, e.failed(err)
	}
	return v, nil
}

// failed adds the step and the expression to an error.
func (e *expression) failed(err error) error {
	if authored, ok := errors.AsType[failure](err); ok {
		return fault.New(fault.ValidationError, "%s", string(authored))
	}
	message := err.Error()
	if e, ok := errors.AsType[*file.Error](err); ok {
		message = e.Message
	}
	return fault.Wrap(fault.ValidationError, err, fmt.Sprintf("%s: the expression `%s` failed: %s", e.owner, shorten(e.source), message))
}

// languages caches the configured language for each set of visible names, because configuring a language takes longer
// than compiling an expression.
type languages map[string]*conf.Config

// Languages is a cache of configured languages. The zero value is empty. It is safe for concurrent use.
type Languages struct{ spare sync.Pool }

func (l *Languages) get() languages {
	if l != nil {
		if ls, ok := l.spare.Get().(*languages); ok {
			return *ls
		}
	}
	return languages{}
}

func (l *Languages) put(ls languages) {
	if l != nil && len(ls) < maxLanguages {
		l.spare.Put(&ls)
	}
}

// maxLanguages bounds the cached sets of names; the set of a for_each depends on the names that its author chose.
const maxLanguages = 64

// resultType is the type of steps.<id> in an expression.
func resultType() types.Map {
	return types.Map{
		"output":   types.Any,
		"state":    types.String,
		"attempts": types.Int,
		"error":    types.Map{"code": types.String, "message": types.String},
	}
}

// rootType returns the type of a visible name. hasOutput is true in expressions about the outcome of an attempt, where
// `output` is visible.
func rootType(name string, hasOutput bool) any {
	switch {
	case hasOutput && name == rootError:
		return types.Map{"class": types.String, "code": types.String, "message": types.String}
	case hasOutput && name == rootAttempt:
		return 0
	}
	switch name {
	case rootInputs:
		return types.Map{types.Extra: types.Any}
	case rootSteps:
		return types.Map{types.Extra: resultType()}
	case rootTask:
		return types.Map{
			"id": types.String, "name": types.String, "workspace": types.String, "root": types.String, "attempt": types.Int, "created": types.String,
		}
	case rootSchedule:
		return types.Map{"name": types.String, "time": types.String}
	case rootHook:
		return types.Map{"name": types.String, "delivery": types.String, "subject": types.String, "headers": types.Map{types.Extra: types.Any}, "body": types.Any}
	case rootIndex:
		return 0
	default:
		return types.Any
	}
}

// with returns the language of expressions in which only names are visible.
func (ls languages) with(names []string) *conf.Config {
	key := strings.Join(names, " ")
	if c, made := ls[key]; made {
		return c
	}
	c := conf.CreateNew()
	env, hasOutput := types.Map{}, slices.Contains(names, rootOutput)
	for _, name := range names {
		if t, ok := rootType(name, hasOutput).(types.Type); ok {
			env[name] = t
		} else {
			env[name] = types.Int
		}
	}
	env[nameTick] = types.TypeOf(ticker())
	c.WithEnv(env)
	c.MaxNodes = exprNodes
	for _, option := range slices.Concat(functions(), boundedFunctions()) {
		option(c)
	}
	for name := range c.Disabled {
		delete(c.Builtins, name)
	}
	ls[key] = c
	return c
}

// words returns the names that the language itself defines.
func (ls languages) words() []string {
	c := ls.with(nil)
	words := append(sortedKeys(c.Builtins), sortedKeys(c.Functions)...)
	return append(words, "let", "if", "else", "in", "not", "and", "or", "true", "false", "nil", "null",
		"matches", "contains", "startsWith", "endsWith", rootInputs, rootSteps, rootTask, rootSchedule, rootHook, rootIndex, rootArgs, rootOutput)
}

// compileExpression returns the compiled code, or an error with its position in the source.
func compileExpression(source string, config *conf.Config, read func(tree *ast.Node)) (code *vm.Program, err *file.Error) {
	defer func() {
		if r := recover(); r != nil {
			err = &file.Error{Message: fmt.Sprint("cannot be compiled: ", r)}
		}
	}()
	tree, failed := parser.ParseWithConfig(source, config)
	if failed != nil {
		return nil, located(failed)
	}
	read(&tree.Node)
	if _, failed = new(checker.Checker).PatchAndCheck(tree, config); failed != nil {
		return nil, located(failed)
	}
	ast.Walk(&tree.Node, visitor(insertBudgets))
	if _, failed = new(checker.Checker).Check(tree, config); failed != nil {
		return nil, located(failed)
	}
	if failed = optimizer.Optimize(&tree.Node, config); failed != nil {
		return nil, located(failed)
	}
	code, failed = compiler.Compile(tree, config)
	if failed != nil {
		return nil, located(failed)
	}
	return code, nil
}

type visitor func(*ast.Node)

// Visit implements ast.Visitor.
func (v visitor) Visit(n *ast.Node) { v(n) }

func located(err error) *file.Error {
	if e, ok := errors.AsType[*file.Error](err); ok {
		return e
	}
	message, _, _ := strings.Cut(err.Error(), "\n")
	return &file.Error{Message: message}
}

// functions returns the changes to the built-in functions. Functions that depend on the clock or the machine are
// removed, those that depend on map order are sorted, and functions for JSON and paths are added.
func functions() []expr.Option {
	return []expr.Option{
		expr.DisableBuiltin("now"), expr.DisableBuiltin("timezone"),
		entries("keys", func(key string, value any) any { return key }),
		entries("values", func(key string, value any) any { return value }),
		entries("toPairs", func(key string, value any) any { return []any{key, value} }),
		unary("fromJSON", func(s string) (any, error) {
			v, err := decodeValue([]byte(s))
			return exact(v), err
		}),
		unary("basename", func(s string) (any, error) { return baseName(s), nil }),
		unary("dirname", func(s string) (any, error) { return dirName(s), nil }),
		function("date", date, new(func(any) time.Time), new(func(any, string) string), new(func(any, string, string) string)),
		function(shellFunction, shellQuote, new(func(any) any)),
		unary("fail", func(message string) (any, error) { return nil, failure(message) }),
	}
}

// failure is the error of fail(message), with the message of the plan's author.
type failure string

func (f failure) Error() string { return string(f) }

// unary defines a function of one argument; it replaces a built-in function of that name.
func unary[In any](name string, f func(In) (any, error)) expr.Option {
	call := func(args ...any) (any, error) {
		if len(args) != 1 {
			return nil, fmt.Errorf("%s takes one argument, not %d", name, len(args))
		}
		in, ok := args[0].(In)
		if !ok {
			return nil, fmt.Errorf("%s does not take %T", name, args[0])
		}
		return f(in)
	}
	return function(name, call, new(func(In) any))
}

// function defines a function with signatures; it replaces a built-in function of that name.
func function(name string, call func(...any) (any, error), signatures ...any) expr.Option {
	return func(c *conf.Config) {
		expr.DisableBuiltin(name)(c)
		expr.Function(name, call, signatures...)(c)
	}
}

// entries defines a function that returns f of each entry of an object, sorted by key.
func entries(name string, f func(key string, value any) any) expr.Option {
	return unary(name, func(in any) (any, error) {
		v, err := jsonValue(in)
		if err != nil {
			return nil, err
		}
		object, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s takes an object, not %s", name, typeName(v))
		}
		list := make([]any, 0, len(object))
		for _, key := range sortedKeys(object) {
			list = append(list, f(key, object[key]))
		}
		return list, nil
	})
}

func baseName(s string) string {
	s = strings.TrimRight(s, "/")
	return s[strings.LastIndexByte(s, '/')+1:]
}

func dirName(s string) string {
	s = strings.TrimRight(s, "/")
	switch i := strings.LastIndexByte(s, '/'); i {
	case -1:
		return "."
	case 0:
		return "/"
	default:
		return s[:i]
	}
}

// exact converts the numbers of a decoded JSON value to int and float64. An integer beyond 64 bits and a number beyond
// float64 stay json.Number, so that they keep their digits when they are copied to a result.
func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return int(n)
		}
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") {
			return f
		}
		return v
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = exact(v[key])
		}
	}
	return v
}

func finite(f float64) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("%v has no form in JSON", f)
	}
	return f, nil
}

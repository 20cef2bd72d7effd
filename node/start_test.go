package node

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// parts are the types that a node is made of.
func parts() []any {
	return []any{Node{}, host{}, credentials{}, mailroom{}, agentDesk{}, databaseHost{}, journal{}, chores{}, face{}}
}

// effects are the fields of a node that a function reads and writes, and the functions that it calls.
type effects struct{ reads, writes, calls map[string]bool }

func noEffects() *effects {
	return &effects{reads: map[string]bool{}, writes: map[string]bool{}, calls: map[string]bool{}}
}

// stateOf returns the fields of a node that steps set. Fields that may be accessed at any time are atomic and excluded.
func stateOf() map[string]bool {
	state := map[string]bool{}
	for _, part := range parts() {
		t := reflect.TypeOf(part)
		for f := range t.Fields() {
			if !f.Anonymous && !strings.HasPrefix(f.Type.String(), "atomic.") {
				state[f.Name] = true
			}
		}
	}
	return state
}

// functions returns what each method of the parts of a node does with its state.
func functions(t *testing.T, state map[string]bool) map[string]*effects {
	t.Helper()
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	all := map[string]*effects{}
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, 0)
		require.NoError(t, err)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && isPart(fn.Recv.List[0].Type) {
				all[fn.Name.Name] = effectsOf(fn.Body, fn.Recv.List[0].Names[0].Name, state)
			}
		}
	}
	return all
}

func isPart(receiver ast.Expr) bool {
	star, ok := receiver.(*ast.StarExpr)
	return ok && slices.ContainsFunc(parts(), func(p any) bool {
		name, ok := star.X.(*ast.Ident)
		return ok && reflect.TypeOf(p).Name() == name.Name
	})
}

// ofPart reports whether an expression is the receiver, or one of its parts.
func ofPart(x ast.Expr, receiver string) bool {
	if s, ok := x.(*ast.SelectorExpr); ok && slices.ContainsFunc(parts(), func(p any) bool { return reflect.TypeOf(p).Name() == s.Sel.Name }) {
		x = s.X
	}
	id, ok := x.(*ast.Ident)
	return ok && id.Name == receiver
}

func effectsOf(body ast.Node, receiver string, state map[string]bool) *effects {
	u := noEffects()
	written := map[ast.Expr]bool{}
	ast.Inspect(body, func(x ast.Node) bool {
		switch x := x.(type) {
		case *ast.AssignStmt:
			for _, to := range x.Lhs {
				if s, ok := to.(*ast.SelectorExpr); ok && state[s.Sel.Name] && ofPart(s.X, receiver) {
					u.writes[s.Sel.Name], written[s] = true, true
				}
			}
		case *ast.SelectorExpr:
			if !ofPart(x.X, receiver) {
				return true
			}
			if state[x.Sel.Name] && !written[x] {
				u.reads[x.Sel.Name] = true
			}
			u.calls[x.Sel.Name] = true
		}
		return true
	})
	return u
}

// withCalls adds the effects of called functions.
func withCalls(name string, all map[string]*effects, seen map[string]bool, into *effects) *effects {
	u := all[name]
	if u == nil || seen[name] {
		return into
	}
	seen[name] = true
	maps.Copy(into.reads, u.reads)
	maps.Copy(into.writes, u.writes)
	for called := range u.calls {
		withCalls(called, all, seen, into)
	}
	return into
}

// methodOf returns the name of the method of a step.
func methodOf(s startStep) string {
	full := runtime.FuncForPC(reflect.ValueOf(s.run).Pointer()).Name()
	return strings.TrimSuffix(full[strings.LastIndexByte(full, '.')+1:], "-fm")
}

// Each step comes after those whose results it uses, and declares them.
func TestStepsComeAfterWhatTheyNeed(t *testing.T) {
	t.Parallel()
	all := functions(t, stateOf())
	before := map[string]map[string]bool{} // step → everything that it needs, also indirectly
	setBy := map[string][]string{}
	for _, s := range startSteps() {
		require.NotContains(t, before, s.name, "two steps have one name")
		require.NotNil(t, all[methodOf(s)], s.name)
		before[s.name] = map[string]bool{}
		for _, name := range s.needs {
			require.Contains(t, before, name, "%s needs a step that does not come before it", s.name)
			before[s.name][name] = true
			maps.Copy(before[s.name], before[name])
		}
		for f := range withCalls(methodOf(s), all, map[string]bool{}, noEffects()).writes {
			setBy[f] = append(setBy[f], s.name)
		}
	}
	require.NotEmpty(t, setBy["orch"])
	for _, s := range startSteps() {
		later := map[string]bool{}
		for f := range withCalls(methodOf(s), all, map[string]bool{}, noEffects()).reads {
			for _, by := range setBy[f] {
				later[by] = true
				assert.True(t, by == s.name || before[s.name][by] || slices.Contains(s.later, by), "%s uses %s, which %s sets, and does not say so", s.name, f, by)
			}
		}
		for _, name := range s.later {
			assert.False(t, before[s.name][name], "%s is done before %s", name, s.name)
			assert.True(t, later[name], "%s uses nothing of %s", s.name, name)
		}
	}
}

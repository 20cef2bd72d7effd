package tools_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

func named(name string) tools.Tool {
	return tools.Define(tools.Spec{Name: name}, func(context.Context, *tools.Env, struct{}) (struct{}, error) { return struct{}{}, nil })
}

func TestCatalogue(t *testing.T) {
	t.Parallel()
	c, err := tools.New(named("FILE_WRITE"), named("firebase.read"), named("FILE_READ"))
	require.NoError(t, err)
	assert.Equal(t, []string{"FILE_READ", "FILE_WRITE", "firebase.read"}, c.Names())
	tool, ok := c.Get("FILE_READ")
	require.True(t, ok)
	assert.Equal(t, "FILE_READ", tool.Spec().Name)
	_, ok = c.Get("file_read")
	assert.False(t, ok, "names are case-sensitive")
	for wrong, want := range map[string]string{"file_read": "FILE_READ", "FILE_WRTE": "FILE_WRITE", "firebase_read": "firebase.read", "x": "", "": "", strings.Repeat("x", 300): ""} {
		assert.Equal(t, want, c.Suggest(wrong), wrong)
	}
}

// S2-021.
func TestCatalogueRefusesNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a b", "ä", "a/b", "a\n", strings.Repeat("x", 129)} {
		_, err := tools.New(named(name))
		assert.Equal(t, fault.ValidationError, fault.CodeOf(err), name)
	}
	_, err := tools.New(named("A.b-c_9"), named(strings.Repeat("x", 128)))
	require.NoError(t, err)
	_, err = tools.New(named("A"), named("A"))
	assert.Equal(t, fault.Conflict, fault.CodeOf(err))
}

// Tools of outside servers can be replaced. Built-in ones stay, and cannot be shadowed (S1-090).
func TestOffer(t *testing.T) {
	t.Parallel()
	c, err := tools.New(named("FILE_READ"), named("github.readFile"))
	require.NoError(t, err)
	before := c.Replaced()
	off := tools.Define(tools.Spec{Name: "wiki__old", Unlisted: true}, func(context.Context, *tools.Env, struct{}) (struct{}, error) { return struct{}{}, nil })
	require.NoError(t, c.Offer([]tools.Tool{named("github__readFile"), named("wiki__find.all"), off}))
	<-before
	assert.Equal(t, []string{"FILE_READ", "github.readFile", "github__readFile", "wiki__find.all"}, c.Names())
	for name, want := range map[string]string{
		"github.readFile": "github.readFile", "github__readFile": "github__readFile", "wiki.find.all": "wiki__find.all", "wiki.old": "wiki__old",
		"wiki.none": "", "nowhere.x": "", ".": "",
	} {
		tool, ok := c.Get(name)
		require.Equal(t, want != "", ok, name)
		if ok {
			assert.Equal(t, want, tool.Spec().Name, name)
		}
	}

	after := c.Replaced()
	assert.Equal(t, fault.Conflict, fault.CodeOf(c.Offer([]tools.Tool{named("new"), named("FILE_READ")})))
	assert.Equal(t, fault.ValidationError, fault.CodeOf(c.Offer([]tools.Tool{named("new"), named("a b")})))
	_, ok := c.Get("new")
	assert.False(t, ok, "a refused offer changes nothing")
	select {
	case <-after:
		t.Error("a refused offer tells nobody")
	default:
	}
	require.NoError(t, c.Offer(nil))
	assert.Equal(t, []string{"FILE_READ", "github.readFile"}, c.Names())
}

// S0-002: the gates of the S0 rules.
func TestGates(t *testing.T) {
	t.Parallel()
	for gate, want := range map[tools.Gate][]statemachine.State{
		tools.AnyState:         statemachine.States(),
		tools.InProgress:       {statemachine.InProgress},
		tools.AwaitingApproval: {statemachine.AwaitingApproval},
		tools.BlockedOrActive:  {statemachine.InProgress, statemachine.Blocked},
	} {
		assert.Equal(t, want, gate.States(), gate)
	}
}

// S0-010, S0-011.
func TestDescribe(t *testing.T) {
	t.Parallel()
	tool := tools.Define(tools.Spec{
		Name: "T", Title: "Do it", Purpose: "Purpose", Effect: tools.Write, Gate: tools.BlockedOrActive,
		Approval: tools.IfDestructive, OpenWorld: true, Errors: []string{"NOT_FOUND"},
	}, func(context.Context, *tools.Env, nested) (struct{}, error) { return struct{}{}, nil })
	d := tools.Describe(tool)
	assert.Equal(t, []statemachine.State{statemachine.InProgress, statemachine.Blocked}, d.States)
	assert.Equal(t, tools.Annotations{Title: "Do it", DestructiveHint: true, OpenWorldHint: true}, d.Annotations)
	text, err := json.Marshal(d)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"inputs":{"type":"object"`)

	for _, tc := range []struct {
		spec                         tools.Spec
		readOnly, destructive, again bool
	}{
		{tools.Spec{Effect: tools.Read}, true, false, true},
		{tools.Spec{Effect: tools.Idempotent, Approval: tools.OutsideWorkspace}, false, false, true},
		{tools.Spec{Effect: tools.Write}, false, false, false},
		{tools.Spec{Effect: tools.Write, Approval: tools.Always}, false, true, false},
		{tools.Spec{Effect: tools.Write, Approval: tools.ByIntent}, false, false, false},
		{tools.Spec{Effect: tools.Write, Approval: tools.ByIntent, MayDestroy: true}, false, true, false},
		{tools.Spec{Effect: tools.Destructive}, false, true, false},
	} {
		a := tools.Annotate(tc.spec)
		assert.Equal(t, []bool{tc.readOnly, tc.destructive, tc.again}, []bool{a.ReadOnlyHint, a.DestructiveHint, a.IdempotentHint}, "%+v", tc.spec)
	}
}

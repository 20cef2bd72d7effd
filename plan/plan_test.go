package plan_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

func golden(t *testing.T, name, got string) {
	t.Helper()
	if os.Getenv("ORCH_UPDATE_GOLDEN") == "1" {
		require.NoError(t, os.WriteFile("testdata/"+name, []byte(got), 0o600))
	}
	want, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestNormalForm(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile(exampleDir + "/fan-out.yaml")
	require.NoError(t, err)
	p, err := plan.Parse("fan-out.yaml", src, plan.Options{})
	require.NoError(t, err)
	var pretty bytes.Buffer
	require.NoError(t, json.Indent(&pretty, p.JSON(), "", "  "))
	golden(t, "fan-out.json", pretty.String()+"\n")
	assert.Len(t, p.SHA256(), 64)
}

func TestGraph(t *testing.T) {
	t.Parallel()
	p := example(t, "fan-out.yaml").Plan()
	for _, format := range []string{"mermaid", "dot", "text"} {
		got, err := plan.Graph(p, format)
		require.NoError(t, err)
		golden(t, "fan-out."+format, got)
	}
	_, err := plan.Graph(p, "png")
	require.True(t, fault.Has(err, fault.ValidationError))
}

func TestSchema(t *testing.T) {
	t.Parallel()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(plan.Schema()))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("plan.json", doc))
	schema, err := c.Compile("plan.json")
	require.NoError(t, err)
	good := [][]byte{plan.Skeleton("x")}
	for _, file := range exampleFiles(t) {
		src, err := os.ReadFile(file)
		require.NoError(t, err)
		good = append(good, src)
	}
	for _, src := range good {
		var v any
		require.NoError(t, yaml.Unmarshal(src, &v))
		require.NoError(t, schema.Validate(v), "%s", src)
	}
	require.NoError(t, validate(schema, string(example(t, "sub-plan.yaml").Plan().JSON())))
	for _, bad := range []string{
		`{}`, `{"orch":"v2","steps":[{"id":"a","set":{"x":1}}]}`, `{"orch":"v1","steps":[]}`,
		`{"orch":"v1","steps":[{"id":"a"}]}`, `{"orch":"v1","steps":[{"set":{"x":1}}]}`, `{"orch":"v1","steps":[{"id":"A","set":{"x":1}}]}`,
		`{"orch":"v1","steps":[{"id":"a","set":{"x":1},"wait":{"for":"1s"}}]}`, `{"orch":"v1","step":[]}`,
		`{"orch":"v1","steps":[{"id":"a","set":{"x":1},"on_error":"x"}]}`, `{"orch":"v1","steps":[{"id":"a","set":{"x":1},"timeout":5}]}`,
	} {
		require.Error(t, validate(schema, bad), bad)
	}
}

func validate(schema *jsonschema.Schema, src string) error {
	var v any
	if err := json.Unmarshal([]byte(src), &v); err != nil {
		return err
	}
	return schema.Validate(v)
}

func TestFromCall(t *testing.T) {
	t.Parallel()
	args := `{"a":"${{ x }} $${{ y }}","b":[{"c":"$${{"}],"n":12345678901234567890}`
	p, err := plan.FromCall("FILE_READ", json.RawMessage(args))
	require.NoError(t, err)
	assertFixedPoint(t, p)
	pr, err := p.Program()
	require.NoError(t, err)
	got, err := pr.Node(plan.CallID).Args(plan.Scope{})
	require.NoError(t, err)
	assert.Equal(t, args, string(got))
	p, err = plan.FromCall("FILE_READ", nil)
	require.NoError(t, err)
	assertFixedPoint(t, p)
	for _, bad := range []string{`[1]`, `{`, `{} {}`} {
		_, err := plan.FromCall("FILE_READ", json.RawMessage(bad))
		require.True(t, fault.Has(err, fault.ValidationError), bad)
	}
	p, err = plan.FromCall("a b", nil)
	require.NoError(t, err)
	_, err = p.Program()
	require.True(t, fault.Has(err, fault.InvalidPlan))
}

func TestDefaultsReachToolSteps(t *testing.T) {
	t.Parallel()
	pr := compile(t, "orch: v1\ndefaults: {timeout: 5s, queue: q, retry: {max_attempts: 7}}\nsteps:\n  - {id: a, tool: T}\n"+
		"  - {id: b, tool: T, timeout: 1s, queue: r, retry: {}}\n  - {id: c, for_each: '[1]', do: [{id: d, tool: T}]}\n")
	a, b, d := pr.Node("a"), pr.Node("b"), pr.Node("c").Children[0]
	for _, n := range []*plan.Node{a, d} {
		assert.Equal(t, 5*time.Second, n.Timeout.Std())
		assert.Equal(t, "q", n.Queue)
		assert.Equal(t, 7, n.Retry.MaxAttempts)
	}
	assert.Equal(t, time.Second, b.Timeout.Std())
	assert.Equal(t, "r", b.Queue)
	assert.Equal(t, 3, b.Retry.MaxAttempts)
	assert.Zero(t, pr.Node("c").Timeout)
	assert.Equal(t, 10_000, pr.Plan().Limits.MaxSteps)
	assert.Equal(t, plan.PriorityNormal, pr.Plan().Priority)
}

// A retry of the defaults that does not fit a step is no error, neither now nor in the normal form.
func TestDefaultRetryOfAWrite(t *testing.T) {
	t.Parallel()
	n := compile(t, "orch: v1\ndefaults: {retry: {on: [timeout]}}\nsteps: [{id: a, tool: T, effect: write}]\n").Node("a")
	assert.False(t, n.Retry.Allows(fault.ClassTimeout, 1, n.Effect))
}

func TestSubPlans(t *testing.T) {
	t.Parallel()
	pr := example(t, "sub-plan.yaml")
	n := pr.Node("todo")
	assert.Equal(t, "count-matches", n.Sub.Plan().Name)
	args, err := n.Args(plan.Scope{Inputs: json.RawMessage(`{"path":"."}`)})
	require.NoError(t, err)
	checked, err := n.Sub.CheckInputs(args)
	require.NoError(t, err)
	assert.JSONEq(t, `{"path":".","pattern":"\\bTODO\\b"}`, string(checked))

	files := map[string]string{
		"d/loop.yaml": "orch: v1\nsteps: [{id: a, run: loop.yaml}]\n",
		"d/bad.yaml":  "orch: v1\nsteps:\n  - {id: a, set: {x: '${{ steps.b.output }}'}}\n",
		"/abs.yaml":   "orch: v1\nsteps: [{id: a, set: {x: 1}}]\n",
	}
	opt := plan.Options{ReadFile: func(name string) ([]byte, error) {
		src, ok := files[name]
		if !ok {
			return nil, errors.New("no such file")
		}
		return []byte(src), nil
	}}
	top := func(file string) string {
		_, err := plan.Parse("d/top.yaml", []byte("orch: v1\nsteps: [{id: t, run: "+file+"}]\n"), opt)
		if err == nil {
			return ""
		}
		return errors.Unwrap(err).Error()
	}
	assert.Empty(t, top("/abs.yaml"))
	assert.Equal(t, "d/loop.yaml:2:22: steps[0].run: plans run plans more than 3 deep (does a plan run itself?)", top("./loop.yaml"))
	assert.Equal(t, `d/bad.yaml:3:27: steps[0].set.x: there is no step "b"`, top("bad.yaml"))
	assert.Equal(t, `d/top.yaml:2:22: steps[0].run: the plan "d/none.yaml" cannot be read: no such file`, top("none.yaml"))
	files["d/deep.yaml"] = "orch: v1\nsteps: [{id: a, set: {x: " + strings.Repeat("[", 58) + strings.Repeat("]", 58) + "}}]\n"
	p, err := plan.Parse("d/top.yaml", []byte("orch: v1\nsteps: [{id: t, run: deep.yaml}]\n"), opt)
	require.NoError(t, err)
	assertFixedPoint(t, p)
	files["d/long.yaml"] = files["/abs.yaml"] + "summary: " + strings.Repeat("x", 1_000_000)
	assert.Contains(t, top("long.yaml}, {id: b, run: long.yaml}, {id: c, run: long.yaml}, {id: d, run: long.yaml}, {id: e, run: long.yaml"),
		"the sub-plans have more than 4194304 bytes together")
	opt.ReadFile = nil
	assert.Equal(t, "d/top.yaml:2:22: steps[0].run: the plan in \"bad.yaml\" cannot be read here (write the sub-plan inline below `run`)", top("bad.yaml"))
}

func TestSections(t *testing.T) {
	t.Parallel()
	pr := example(t, "verify-go.yaml")
	assert.Len(t, pr.Steps(), 5)
	assert.Len(t, pr.Verify(), 2)
	assert.Empty(t, pr.Verify()[0].Needs)
	assert.Empty(t, pr.Always())
	assert.Equal(t, []string{"where"}, pr.Node("before").Needs)
	assert.Equal(t, []string{"before", "where"}, pr.Node("test").Needs)
}

func TestSourceLimit(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "p.yaml:1:1: the plan has 1048577 bytes, more than 1048576", problems(t, string(make([]byte, plan.MaxSource+1)), plan.Options{}))
}

// A plan full of errors is refused quickly and with a readable number of problems.
func TestManyProblems(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("orch: v1\nsteps:\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "  - {id: s%060d, set: {x: '", i)
		for j := range 9 {
			fmt.Fprintf(&b, "${{ steps.s%057d%d.output }}", i, j)
		}
		b.WriteString("'}}\n")
	}
	_, err := plan.Parse("p.yaml", []byte(b.String()), plan.Options{})
	var ps plan.Problems
	require.ErrorAs(t, err, &ps)
	assert.Len(t, ps, plan.MaxProblems)
}

// A tool that is written server.tool gets the name that counts, wherever the plan names it.
func TestToolsOfServers(t *testing.T) {
	t.Parallel()
	opt := plan.Options{Tool: func(name string) (plan.ToolInfo, bool) {
		if name == "wiki.find" || name == "wiki__find" {
			return plan.ToolInfo{Name: "wiki__find", Effect: plan.EffectRead, AnyState: true}, true
		}
		return plan.ToolInfo{}, false
	}}
	p, _, err := plan.Load("p.yaml", []byte("orch: v1\nlimits: {tools: [wiki.find, wiki__find]}\nsteps: [{id: a, tool: wiki.find}, {id: b, tool: wiki__find, verify: {tool: wiki.find, expect: 'true'}}]\nverify: [{id: c, tool: wiki.find}]\n"), opt)
	require.NoError(t, err)
	assert.Equal(t, []string{"wiki__find"}, p.Tools())
	assert.Equal(t, []string{"wiki__find"}, p.Limits.Tools)
	assert.NotContains(t, string(p.JSON()), "wiki.find")
}

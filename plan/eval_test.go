package plan_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

func compile(t *testing.T, src string) *plan.Program {
	t.Helper()
	p, err := plan.Parse("p.yaml", []byte(src), plan.Options{})
	require.NoError(t, err)
	assertFixedPoint(t, p)
	pr, err := p.Program()
	require.NoError(t, err)
	return pr
}

// set evaluates one value of a set step that comes after a step s.
func set(t *testing.T, value any) (string, error) {
	t.Helper()
	t.Helper()
	src, err := json.Marshal(map[string]any{
		"orch": "v1", "inputs": map[string]any{"additionalProperties": true},
		"steps": []any{
			map[string]any{"id": "s", "set": map[string]any{"y": 1}},
			map[string]any{"id": "t", "set": map[string]any{"x": value}},
		},
	})
	require.NoError(t, err)
	out, err := compile(t, string(src)).Node("t").Set(plan.Scope{
		Inputs: json.RawMessage(`{"n":1,"f":1.5,"s":"x","l":[3,1,2],"o":{"b":2,"a":1},"big":123456789012345678901234567890,"max":9007199254740993}`),
		Step: func(id string) (plan.StepResult, bool) {
			return plan.StepResult{State: "failed", Error: &plan.StepError{Code: "C", Message: "m"}, Attempts: 2}, id == "s"
		},
		Task: func() plan.TaskInfo {
			return plan.TaskInfo{ID: "T", Name: "N", Workspace: "/w", Root: "/r", Attempt: 3, Created: "2026-11-28T02:31:00Z", Schedule: "nightly", ScheduleTime: "2026-11-28T02:30:00Z"}
		},
		Hook: push,
	})
	return string(out), err
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		value any
		want  string
	}{
		{"plain", `"plain"`},
		{"${{ inputs.n }}", `1`},
		{" ${{ inputs.n }}\n", `1`},
		{"${{ inputs.f }}", `1.5`},
		{"n=${{ inputs.n }} f=${{ inputs.f }} ${{ true }} ${{ inputs.s }}", `"n=1 f=1.5 true x"`},
		{"${{ inputs.n }}${{ inputs.n }}", `"11"`},
		{"${{ inputs.o }}", `{"a":1,"b":2}`},
		{"${{ toJSON(inputs.o) }}!", `"{\"a\":1,\"b\":2}!"`},
		{"${{ inputs.big }} ${{ inputs.max }}", `"123456789012345678901234567890 9007199254740993"`},
		{"${{ inputs.big }}", `123456789012345678901234567890`},
		{"${{ [inputs.max + 1, inputs.big] }}", `[9007199254740994,123456789012345678901234567890]`},
		{json.Number("12345678901234567890"), `12345678901234567890`},
		{"$${{ inputs.n }}", `"${{ inputs.n }}"`},
		{"$$${{ x }} ${{ 1 }}", `"$${{ x }} 1"`},
		{`${{ "}}" + '${{' }}`, `"}}${{"`},
		{`${{ {"a": {"b": 1}} }}`, `{"a":{"b":1}}`},
		{[]any{"${{ 1 }}", map[string]any{"${{ k }}": "${{ 2 }}"}}, `[1,{"${{ k }}":2}]`},
		{"${{ schedule.name }} ${{ schedule.time }} ${{ date(schedule.time, \"2006-01-02\") }}", `"nightly 2026-11-28T02:30:00Z 2026-11-28"`},
		{"${{ hook.name }} ${{ hook.delivery }} ${{ hook.headers[\"x-github-event\"] }} ${{ hook.body.commits[1].id }}", `"deploy 72d3162e push b"`},
		{"${{ hook.headers.missing }}", `null`},
		{"${{ inputs.missing }}", `null`},
		{`${{ inputs.missing ?? "d" }}`, `"d"`},
		{"${{ keys(inputs.o) }}", `["a","b"]`},
		{"${{ values(inputs.o) }}", `[1,2]`},
		{"${{ toPairs(groupBy(inputs.l, # > 1)) }}", `[["false",[1]],["true",[3,2]]]`},
		{"${{ fromJSON('{\"a\":[9007199254740993]}').a }}", `[9007199254740993]`},
		{"${{ basename('/a/b.go') + dirname('/a/b.go') + dirname('x') + dirname('/x') }}", `"b.go/a./"`},
		{"${{ join(['a', 'b'], '-') + replace('aXa', 'X', 'b') }}", `"a-baba"`},
		{"${{ replace('aaa', 'a', 'b', 2) + join(['a', 'b']) + join(split('a b', ' '), '-') }}", `"bbaaba-b"`},
		{"${{ string(1.5) + string(inputs.o) + string(nil) + string(true) + string(inputs.big) }}", `"1.5{\"a\":1,\"b\":2}nulltrue123456789012345678901234567890"`},
		{"${{ [any([1, 2], # == 2), sum([1, 2], # * 2), find([1, 2], # > 1), sortBy([{a: 2}, {a: 1}], .a), len(filter(1..5, # > 2))] }}", `[true,6,2,[{"a":1},{"a":2}],3]`},
		{"${{ let d = date('2026-01-02') + duration('24h'); d }}", `"2026-01-03T00:00:00Z"`},
		{"${{ uniq([2, 1, 2, 'x', 'x', {a: 1}, {a: 1}]) }}", `[2,1,"x",{"a":1}]`},
		{"${{ split('a b', ' ') }}", `["a","b"]`},
		{"${{ date('2026-01-02') }}", `"2026-01-02T00:00:00Z"`},
		{"${{ duration('90s') }}", `"1m30s"`},
		{"${{ steps.s.state }} ${{ steps.s.error.code }} ${{ steps.s.error.message }} ${{ steps.s.attempts }}", `"failed C m 2"`},
		{"${{ steps.s.output?.y ?? 7 }}", `7`},
		{"${{ task.id + task.name + task.workspace + task.root + string(task.attempt) }}", `"TN/w/r3"`},
	} {
		got, err := set(t, tc.value)
		require.NoError(t, err, "%v", tc.value)
		assert.Equal(t, `{"x":`+tc.want+`}`, got, "%v", tc.value)
	}
}

func TestExpressionErrors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ value, want string }{
		{"a ${{ inputs.o }}", "step \"t\": the expression `inputs.o` failed: a list or an object cannot be part of a text; write toJSON(x)"},
		{"a ${{ inputs.missing }}", "step \"t\": the expression `inputs.missing` failed: null cannot be part of a text; write x ?? \"\""},
		{"${{ steps.s.output.y }}", "step \"t\": the expression `steps.s.output.y` failed: cannot fetch y from <nil>"},
		{"${{ inputs.s + 1 }}", "step \"t\": the expression `inputs.s + 1` failed: "},
		{"${{ inputs.n / 0 }}", "step \"t\": the expression `inputs.n / 0` failed: +Inf has no form in JSON"},
		{"${{ 1..10000000 }}", "step \"t\": the expression `1..10000000` failed: memory budget exceeded"},
		{`${{ let a = repeat("x", 900000); let b = a + a + a; let c = b + b; c }}`, "failed: a text of more than 4 MiB"},
		{`${{ reduce(1..64, #acc + #acc, "x") }}`, "failed: a text of more than 4 MiB"},
		{`${{ let a = repeat("x", 9000); replace(a, "x", a) }}`, "failed: a text of more than 4 MiB"},
		{`${{ let a = repeat("x", 9000); join(map(1..9000, a)) }}`, "failed: a value of more than 16 MiB"},
		{`${{ let a = repeat("x", 9000); toJSON(map(1..1000, a)) }}`, "failed: a text of more than 4 MiB"},
		{"${{ reduce(1..64, [#acc, #acc], 1) }}", "failed: a value of more than 16 MiB"},
		{"${{ string(reduce(1..64, [#acc, #acc], 1)) }}", "failed: a value of more than 16 MiB"},
		{"${{ let a = 1..9000; count(a, count(a, # > 0) > 8000) }}", "failed: more than 1,000,000 rounds of its loops"},
		{"${{ join([1]) }}", "failed: join takes a list of texts, but one of the items is a number"},
		{"${{ replace(inputs.l, 'a', 'b') }}", "failed: replace takes texts, not a list"},
		{"${{ keys(inputs.l) }}", "step \"t\": the expression `keys(inputs.l)` failed: keys takes an object, not a list"},
	} {
		_, err := set(t, tc.value)
		require.Error(t, err, tc.value)
		assert.True(t, fault.Has(err, fault.ValidationError))
		assert.Contains(t, err.Error(), tc.want)
	}
}

// An expression with slow iterations ends in time: the orchestrator waits for it.
func TestSlowRoundsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tick := plan.NewTicker()
		rounds := func() {
			for range 32 {
				tick()
			}
		}
		rounds()
		<-time.After(29 * time.Second)
		rounds()
		<-time.After(2 * time.Second)
		assert.PanicsWithError(t, "it took longer than 30s", rounds)
	})
}

// Values of YAML reach JSON as they are written.
func TestScalars(t *testing.T) {
	t.Parallel()
	pr := compile(t, steps("id: a", "set:",
		"  date: 2026-01-02", "  time: 2026-01-02T03:04:05Z", "  yes: yes", "  no: no", "  on: on", "  t: true", "  nil: ~",
		"  int: 12345678901234567890123", "  hex: 0xff", "  under: 1_000", "  oct: 0o10", "  float: 1.10", "  exp: 1e3", "  plus: +5", "  text: !!str 5"))
	out, err := pr.Node("a").Set(plan.Scope{})
	require.NoError(t, err)
	want := `{"date":"2026-01-02","exp":1e3,"float":1.10,"hex":255,"int":12345678901234567890123,"nil":null,"no":"no","oct":8,` +
		`"on":"on","plus":5,"t":true,"text":"5","time":"2026-01-02T03:04:05Z","under":1000,"yes":"yes"}`
	assert.Equal(t, want, string(out))
}

func TestIf(t *testing.T) {
	t.Parallel()
	pr := compile(t, "orch: v1\ninputs: {additionalProperties: true}\nsteps:\n  - {id: a, set: {x: 1}}\n"+
		"  - {id: b, if: inputs.x == 1, set: {x: 1}}\n  - {id: c, if: '${{ inputs.x }}', set: {x: 1}}\n  - {id: d, if: false, set: {x: 1}}\n")
	sc := plan.Scope{Inputs: json.RawMessage(`{"x":1}`)}
	for id, want := range map[string]bool{"a": true, "b": true, "d": false} {
		got, err := pr.Node(id).If(sc)
		require.NoError(t, err)
		assert.Equal(t, want, got, id)
	}
	_, err := pr.Node("c").If(sc)
	require.EqualError(t, err, "VALIDATION_ERROR: step \"c\": the expression `inputs.x` of if gives a number, not true or false")
}

func TestForEach(t *testing.T) {
	t.Parallel()
	pr := compile(t, "orch: v1\ninputs: {additionalProperties: true}\nsteps:\n  - {id: first, set: {x: 1}}\n  - {id: second, set: {x: 1}}\n"+
		"  - id: each\n    for_each: inputs.l\n    as: file\n    do:\n"+
		"      - {id: one, tool: T, with: {path: '${{ file }}', n: '${{ index }}', x: '${{ steps.first.output.x }}'}}\n"+
		"      - {id: two, needs: [], set: {x: '${{ steps.one.output }}'}}\n")
	n := pr.Node("each")
	assert.Equal(t, []string{"first"}, n.Needs)
	require.Len(t, n.Children, 2)
	assert.Empty(t, n.Children[0].Needs)
	assert.Equal(t, []string{"one"}, n.Children[1].Needs)
	items, err := n.Items(plan.Scope{Inputs: json.RawMessage(`{"l":[{"b":1},"x",12345678901234567890]}`)})
	require.NoError(t, err)
	assert.Equal(t, []json.RawMessage{[]byte(`{"b":1}`), []byte(`"x"`), []byte(`12345678901234567890`)}, items)
	args, err := n.Children[0].Args(plan.Scope{
		Vars: map[string]json.RawMessage{"file": items[2], "index": []byte("2")},
		Step: func(string) (plan.StepResult, bool) { return plan.StepResult{Output: []byte(`{"x":5}`)}, true },
	})
	require.NoError(t, err)
	want := `{"n":2,"path":12345678901234567890,"x":5}`
	assert.Equal(t, want, string(args))
	for input, message := range map[string]string{
		`{"l":{"a":1}}`: "gives an object, not a list", `{}`: "gives null, not a list",
		`{"l":[` + strings.Repeat("1,", plan.MaxItems) + `1]}`: "for_each has 1000001 items, more than 1000000",
	} {
		_, err := n.Items(plan.Scope{Inputs: json.RawMessage(input)})
		require.ErrorContains(t, err, message)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	pr := compile(t, "orch: v1\ninputs: {additionalProperties: true}\nsteps:\n  - {id: a, wait: {for: 1d12h}}\n  - {id: b, wait: {for: '${{ inputs.d }}'}}\n"+
		"  - {id: c, wait: {until: 2026-01-02T03:04:05Z}}\n  - {id: d, wait: {until: inputs.t}}\n"+
		"  - {id: e, wait: {signal: 'go ${{ inputs.d }}', timeout: 1m, default: null}}\n  - {id: f, wait: {signal: x}}\n")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	sc := plan.Scope{Inputs: json.RawMessage(`{"d":"90s","t":"2026-01-02T03:04:05Z"}`)}
	for id, want := range map[string]plan.WaitFor{
		"a": {Kind: "for", For: 36 * time.Hour}, "b": {Kind: "for", For: 90 * time.Second},
		"c": {Kind: "until", Until: at}, "d": {Kind: "until", Until: at},
		"e": {Kind: "signal", Signal: "go 90s", Timeout: time.Minute, Default: json.RawMessage("null")}, "f": {Kind: "signal", Signal: "x"},
	} {
		got, err := pr.Node(id).Wait(sc)
		require.NoError(t, err, id)
		assert.Equal(t, want, got, id)
	}
	for _, id := range []string{"b", "d"} {
		_, err := pr.Node(id).Wait(plan.Scope{Inputs: json.RawMessage(`{"d":"soon","t":"later"}`)})
		require.Error(t, err, id)
		_, err = pr.Node(id).Wait(plan.Scope{Inputs: json.RawMessage(`{"d":5,"t":5}`)})
		require.ErrorContains(t, err, "wait needs a text")
	}
}

func TestStepVerify(t *testing.T) {
	t.Parallel()
	pr := compile(t, steps("id: a", "tool: FILE_WRITE", "with: {file_path: '${{ task.workspace }}/x', content: y}",
		"verify:", "  tool: FILE_READ", "  with: {file_path: '${{ args.file_path }}'}", "  expect: output.content == 'y'")+"  - {id: b, tool: T}\n")
	tool, args, ok, err := pr.Node("a").VerifyCall(plan.Scope{Task: func() plan.TaskInfo { return plan.TaskInfo{Workspace: "/w"} }})
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, "FILE_READ", tool)
	assert.JSONEq(t, `{"file_path":"/w/x"}`, string(args))
	happened, err := pr.Node("a").VerifyExpect(json.RawMessage(`{"content":"y"}`))
	require.NoError(t, err)
	assert.True(t, happened)
	happened, err = pr.Node("a").VerifyExpect(json.RawMessage(`{}`))
	require.NoError(t, err)
	assert.False(t, happened)
	_, _, ok, err = pr.Node("b").VerifyCall(plan.Scope{})
	require.NoError(t, err)
	assert.False(t, ok)
	_, err = pr.Node("b").VerifyExpect(nil)
	require.Error(t, err)
}

func TestKeys(t *testing.T) {
	t.Parallel()
	pr := compile(t, "orch: v1\ninputs: {additionalProperties: true}\nidempotency_key: a-${{ inputs.x }}\n"+
		"concurrency: {key: '${{ inputs.x }}'}\nlimits: {key: 'of ${{ inputs.x }}'}\nsteps: [{id: a, set: {x: 1}}]\n")
	sc := plan.Scope{Inputs: json.RawMessage(`{"x":7}`)}
	key, err := pr.IdempotencyKey(sc)
	require.NoError(t, err)
	assert.Equal(t, "a-7", key)
	key, err = pr.ConcurrencyKey(sc)
	require.NoError(t, err)
	assert.Equal(t, "7", key)
	key, err = pr.LimitKey(sc)
	require.NoError(t, err)
	assert.Equal(t, "of 7", key)
	for _, x := range []string{`{"x":""}`, `{"x":[]}`, `{"x":"` + strings.Repeat("x", 513) + `"}`} {
		_, err = pr.ConcurrencyKey(plan.Scope{Inputs: json.RawMessage(x)})
		require.ErrorContains(t, err, "the key of the plan cannot be used")
	}
	none := compile(t, steps("id: a", "set: {x: 1}"))
	key, err = none.IdempotencyKey(sc)
	require.NoError(t, err)
	assert.Empty(t, key)
	key, err = none.LimitKey(sc)
	require.NoError(t, err)
	assert.Empty(t, key)
	assert.NotContains(t, string(none.Plan().JSON()), "key")
}

// Scope.Step is called only for steps that an expression refers to.
func TestStepIsCalledForReferencesOnly(t *testing.T) {
	t.Parallel()
	pr := compile(t, steps("id: a", "set: {x: 1}")+"  - {id: b, set: {x: 1}}\n  - {id: c, needs: [a], set: {x: '${{ steps.b.state }}'}}\n")
	var asked []string
	_, err := pr.Node("c").Set(plan.Scope{Step: func(id string) (plan.StepResult, bool) {
		asked = append(asked, id)
		return plan.StepResult{}, false
	}})
	require.NoError(t, err)
	assert.Equal(t, []string{"b"}, asked)
	assert.Equal(t, []string{"a", "b"}, pr.Node("c").Needs)
	assert.Nil(t, pr.Node("nothing"))
}

// One program serves many goroutines.
func TestConcurrentEvaluation(t *testing.T) {
	t.Parallel()
	n := compile(t, "orch: v1\ninputs: {additionalProperties: true}\nsteps:\n"+
		"  - {id: a, tool: T, with: {list: [1, {x: y}], n: \"${{ map(inputs.l, # + 1) }}\", m: \"${{ inputs.s matches '^[a-z]+$' }}\"}}\n").Node("a")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				args, err := n.Args(plan.Scope{Inputs: json.RawMessage(`{"l":[1,2],"s":"abc"}`)})
				if assert.NoError(t, err) {
					assert.JSONEq(t, `{"list":[1,{"x":"y"}],"m":true,"n":[2,3]}`, string(args))
				}
			}
		})
	}
	group.Wait()
}

func TestFailEndsTheStepWithItsMessage(t *testing.T) {
	t.Parallel()
	pr := compile(t, "orch: v1\nsteps:\n  - id: a\n    set: {ok: '${{ inputs.n == 0 ? true : fail(string(inputs.n) + \" tests failed\") }}'}\ninputs: {type: object, properties: {n: {type: integer}}}\n")
	_, err := pr.Node("a").Set(plan.Scope{Inputs: json.RawMessage(`{"n":3}`)})
	require.True(t, fault.Has(err, fault.ValidationError))
	assert.Equal(t, "3 tests failed", fault.From(err).Message)
	out, err := pr.Node("a").Set(plan.Scope{Inputs: json.RawMessage(`{"n":0}`)})
	require.NoError(t, err)
	assert.JSONEq(t, `{"ok":true}`, string(out))
}

// A list that contains shared lists many times is small in memory, but takes very long to traverse.
func TestSharedListsAreBounded(t *testing.T) {
	t.Parallel()
	const deep = "reduce(1..40, [#acc, #acc], [1])"
	for _, e := range []string{
		deep + " == " + deep, deep + " != " + deep, deep + " in [" + deep + "]", "1 in [" + deep + "]", "not (1 in " + deep + ")",
		"flatten(" + deep + ")", "min(" + deep + ")", "max(" + deep + ")", "mean(" + deep + ")", "median(" + deep + ")",
		"len(uniq([" + deep + "]))", "toJSON(" + deep + ")", "string(" + deep + ")", "sort([" + deep + "])", "sum([" + deep + "])",
		"count([" + deep + "], # == " + deep + ")", "[" + deep + "] | indexOf(" + deep + ")", "{a: " + deep + "} == {a: " + deep + "}",
		"get({a: " + deep + "}, 'a') == 1", "let x = " + deep + "; x == x",
	} {
		src := "orch: v1\nsteps:\n  - id: a\n    set:\n      x: >-\n        ${{ " + e + " }}\n"
		p, err := plan.Parse("p.yaml", []byte(src), plan.Options{})
		if err != nil {
			continue // it does not even compile
		}
		pr, err := p.Program()
		require.NoError(t, err)
		_, err = pr.Node("a").Set(plan.Scope{})
		if err != nil { // a clear error or a value: it ends
			assert.NotContains(t, err.Error(), "it took longer than", e)
		}
	}
	pr := compile(t, "orch: v1\nsteps:\n  - id: a\n    set: {eq: '${{ [1, {a: 2}] == [1, {a: 2}] }}', ne: '${{ {a: 1} != {a: 2} }}', is: '${{ inputs.x in [\"b\", \"a\"] }}', key: '${{ \"k\" in {k: 1} }}', min: '${{ min([3, 1]) }}', flat: '${{ flatten([[1], [2]]) }}'}\ninputs: {type: object, properties: {x: {type: string}}}\n")
	out, err := pr.Node("a").Set(plan.Scope{Inputs: json.RawMessage(`{"x":"a"}`)})
	require.NoError(t, err)
	assert.JSONEq(t, `{"eq":true,"ne":true,"is":true,"key":true,"min":1,"flat":[1,2]}`, string(out))
}

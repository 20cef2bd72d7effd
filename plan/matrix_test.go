package plan_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

func matrixOf(text string) string {
	return "orch: v1\ninputs: {additionalProperties: true}\nsteps: [{id: a, matrix: " + text + ", do: [{id: b, set: {x: '${{ matrix.os }}'}}]}]\n"
}

func TestMatrix(t *testing.T) {
	t.Parallel()
	for matrix, want := range map[string]string{
		`{os: [linux, mac], go: [1.25, 2]}`:                                         `[{"go":1.25,"os":"linux"},{"go":1.25,"os":"mac"},{"go":2,"os":"linux"},{"go":2,"os":"mac"}]`,
		`{os: [linux, mac], go: [1, 2], exclude: [{os: mac, go: 1}]}`:               `[{"go":1,"os":"linux"},{"go":2,"os":"linux"},{"go":2,"os":"mac"}]`,
		`{os: [linux, mac], exclude: [{os: mac}], include: [{os: mac, arch: arm}]}`: `[{"os":"linux"},{"arch":"arm","os":"mac"}]`,
		// An entry adds values to items that it does not contradict, and may change values that another entry has
		// added.
		`{os: [linux, mac], include: [{color: red}, {os: mac, color: blue}, {os: bsd}]}`: `[{"color":"red","os":"linux"},{"color":"blue","os":"mac"},{"os":"bsd"}]`,
		`{os: '${{ inputs.systems }}', include: '${{ inputs.more }}'}`:                   `[{"os":"a"},{"os":"b"},{"os":"c"}]`,
		`'${{ {"os": inputs.systems} }}'`:                                                `[{"os":"a"},{"os":"b"}]`,
		`{os: []}`:                                                                       `[]`,
		`{include: [{os: 1}, {os: 2}]}`:                                                  `[{"os":1},{"os":2}]`,
	} {
		n := compile(t, matrixOf(matrix)).Node("a")
		items, err := n.Items(plan.Scope{Inputs: json.RawMessage(`{"systems":["a","b"],"more":[{"os":"c"}]}`)})
		require.NoError(t, err, matrix)
		got, err := json.Marshal(items)
		require.NoError(t, err)
		assert.Equal(t, want, string(got), matrix)
		assert.Equal(t, "matrix", n.As)
		assert.Equal(t, plan.KindForEach, n.Kind)
	}
}

func TestMatrixErrors(t *testing.T) {
	t.Parallel()
	wide := map[string][]int{}
	for i := range 33 {
		wide[fmt.Sprintf("k%d", i)] = []int{1}
	}
	inputs, err := json.Marshal(map[string]any{"wide": wide, "few": slices.Repeat([]map[string]int{{"c": 1}}, 200), "text": "x", "long": make([]int, 101), "big": []string{strings.Repeat("x", 1<<20)}, "many": make([]int, 300)})
	require.NoError(t, err)
	for matrix, message := range map[string]string{
		`'${{ inputs.text }}'`:                                                        `step "a": matrix gives a text, not an object`,
		`{os: '${{ inputs.text }}'}`:                                                  `step "a": the axis os of matrix gives a text, not a list`,
		`{os: ['x'], exclude: '${{ inputs.text }}'}`:                                  "step \"a\": `exclude` of matrix gives a text, not a list",
		`{os: ['x'], include: ['x']}`:                                                 "step \"a\": `include` of matrix holds a text, not an object",
		`{os: ['x'], include: '${{ inputs.many }}'}`:                                  "step \"a\": `include` of matrix has 300 entries, more than 256",
		`'${{ inputs.wide }}'`:                                                        `step "a": matrix has 33 axes, more than 32`,
		`{os: ['x'], include: '${{ [inputs.wide] }}'}`:                                "step \"a\": an entry of `include` of matrix has 33 values, more than 32",
		`{a: '${{ inputs.long }}', b: [1, 2, 3, 4, 5], include: '${{ inputs.few }}'}`: `step "a": matrix has 505 items and 200 entries of include and exclude: 101000 pairs to compare, more than 100000`,
		`{os: '${{ inputs.long }}', other: '${{ inputs.long }}'}`:                     `step "a": the matrix has more than 10000 items`,
		`{os: '${{ inputs.long }}', other: '${{ inputs.big }}'}`:                      `step "a": the items have more than 16 MiB`,
	} {
		_, err := compile(t, matrixOf(matrix)).Node("a").Items(plan.Scope{Inputs: inputs})
		assert.Equal(t, message, fault.From(err).Message, matrix)
	}
}

func matrixCases() []problemCase {
	do := func(matrix string) string {
		return steps("id: a", "matrix: "+matrix, "do: [{id: b, set: {x: '${{ matrix.os }}'}}]")
	}
	axes := strings.Repeat("[1], ", 34)
	for i := range 34 {
		axes = strings.Replace(axes, "[1], ", fmt.Sprintf("k%d: [2], ", i), 1)
	}
	axis := "[" + strings.Repeat("1, ", 100) + "1]"
	return []problemCase{
		{"empty matrix", steps("id: a", "matrix: {}", "do: [{id: b, set: {x: 1}}]"), "p.yaml:4:13: steps[0].matrix: matrix needs at least one axis (such as `matrix: {os: [linux, mac]}`)"},
		{"axis", do("{os: linux}"), "p.yaml:4:18: steps[0].matrix.os: is a text, but a list of values is expected (such as os: [1, 2])"},
		{"axis name", do("{os: [a], go-version: [1]}"), `p.yaml:4:23: steps[0].matrix.go-version: the name of the axis "go-version" has a wrong form (lower-case letters, digits and _, the first a letter, at most 63)`},
		{"excluded axis", do("{os: [a], exclude: [{so: a}]}"), `p.yaml:4:38: steps[0].matrix.exclude[0].so: there is no axis "so" (did you mean os?)`},
		{"large matrix", do("{os: " + axis + ", go: " + axis + "}"), `p.yaml:4:13: steps[0].matrix: the matrix has more than 10000 items`},
		{"wide matrix", do("{" + axes + "os: [a]}"), `p.yaml:4:13: steps[0].matrix: the matrix has more than 32 axes`},
		{"unknown axis", steps("id: a", "matrix: {system: [a], include: [{arch: b}]}", "do: [{id: b, set: {x: '${{ matrix.sstem }}', y: '${{ matrix.arch }}'}}]"), `p.yaml:5:32: steps[0].do[0].set.x: matrix has no "sstem" (did you mean system?)`},
		{"matrix and for_each", steps("id: a", "for_each: '[1]'", "matrix: {os: [a]}", "do: [{id: b, set: {x: 1}}]"), `p.yaml:3:5: steps[0]: a step has exactly one kind, this has for_each and matrix (make it several steps)`},
		{"matrix of a tool", steps("id: a", "tool: GIT_STATUS", "matrix: {os: [a]}", "do: [{id: b, set: {x: 1}}]"), `p.yaml:3:5: steps[0]: a step has exactly one kind, this has tool and matrix (make it several steps)`},
	}
}

// A plan with many references to one large result is parsed quickly: the shape of the result is computed once.
func TestManyReferencesToOneResult(t *testing.T) {
	t.Parallel()
	const n = 20_000
	var made, used strings.Builder
	for i := range n {
		fmt.Fprintf(&made, "k%d: 1, ", i)
		fmt.Fprintf(&used, "k%d: '${{ steps.a.output.k%d }}', ", i, i)
	}
	began := time.Now()
	compile(t, "orch: v1\nsteps: [{id: a, set: {"+made.String()+"}}, {id: b, set: {"+used.String()+"}}]\n")
	assert.Less(t, time.Since(began), 30*time.Second)
}

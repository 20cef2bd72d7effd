package plan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/plan"
)

// thousand is a plan of 1,000 steps in a chain with three expressions each.
func thousand() []byte {
	var b strings.Builder
	b.WriteString("orch: v1\ninputs: {properties: {path: {type: string}}}\nsteps:\n  - {id: s0, set: {x: 1}}\n")
	for i := 1; i < 1000; i++ {
		fmt.Fprintf(&b, "  - id: s%d\n    if: steps.s%d.state == \"succeeded\"\n    tool: FILE_READ\n    timeout: 10s\n"+
			"    with:\n      file_path: ${{ inputs.path }}/${{ steps.s%d.output?.x ?? \"none\" }}\n      limit: %d\n", i, i-1, i-1, i)
	}
	return []byte(b.String())
}

func BenchmarkParse1000Steps(b *testing.B) {
	src := thousand()
	b.ReportAllocs()
	for b.Loop() {
		_, err := plan.Parse("p.yaml", src, plan.Options{Tool: exampleTools})
		require.NoError(b, err)
	}
}

func BenchmarkCompile1000Steps(b *testing.B) {
	p, err := plan.Parse("p.yaml", thousand(), plan.Options{})
	require.NoError(b, err)
	normal := p.JSON()
	for b.Loop() {
		_, err := plan.Compile(normal)
		require.NoError(b, err)
	}
}

// BenchmarkFromCall measures a call of the same form as a previous one.
func BenchmarkFromCall(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		p, err := plan.FromCall("FILE_READ", json.RawMessage(`{"file_path":"/x"}`))
		require.NoError(b, err)
		require.NotEmpty(b, p.JSON())
	}
}

// BenchmarkLoadCall measures the additional cost of a new call.
func BenchmarkLoadCall(b *testing.B) {
	call, err := plan.FromCall("FILE_READ", json.RawMessage(`{"file_path":"/x"}`))
	require.NoError(b, err)
	text, languages := call.JSON(), &plan.Languages{}
	b.ReportAllocs()
	for b.Loop() {
		p, _, err := plan.Load("plan", text, plan.Options{Tool: exampleTools, Languages: languages})
		require.NoError(b, err)
		require.NotEmpty(b, p.JSON())
		require.NotEmpty(b, p.SHA256())
	}
}

func BenchmarkArgs(b *testing.B) {
	p, err := plan.Parse("p.yaml", thousand(), plan.Options{})
	require.NoError(b, err)
	pr, err := p.Program()
	require.NoError(b, err)
	sc := plan.Scope{
		Inputs: json.RawMessage(`{"path":"/x"}`),
		Step: func(string) (plan.StepResult, bool) {
			return plan.StepResult{Output: json.RawMessage(`{"x":"y"}`)}, true
		},
	}
	n := pr.Node("s500")
	for b.Loop() {
		_, err := n.Args(sc)
		require.NoError(b, err)
	}
}

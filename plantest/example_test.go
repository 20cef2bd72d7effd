package plantest_test

import (
	"context"
	"fmt"

	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/plantest"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/builtin"
)

// A test of a plan says what calls return, and what must follow. No call is made, and no time passes.
func ExampleRun() {
	p, err := plan.Parse("wait.yaml", []byte(`orch: v1
name: wait
steps:
  - {id: rest, wait: {for: 1h}}
  - {id: status, needs: rest, tool: GIT_STATUS, with: {repository_path: "."}}
outputs: {branch: "${{ steps.status.output.branch }}"}
`), plan.Options{})
	if err != nil {
		panic(err)
	}
	f, err := plantest.Read("wait.test.yaml", []byte(`plan: wait.yaml
cases:
  - name: on main
    results: {status: {output: {branch: main}}}
    expect: {outputs: {branch: main}, took: 1h}
  - name: on another branch
    results: {status: {output: {branch: topic}}}
    expect: {outputs: {branch: main}}
`))
	if err != nil {
		panic(err)
	}
	catalogue, err := tools.New(builtin.All(builtin.Config{})...)
	if err != nil {
		panic(err)
	}
	for _, c := range f.Cases {
		out, err := plantest.Run(context.Background(), f, c, p, catalogue)
		if err != nil {
			panic(err)
		}
		fmt.Println(out.Name, out.OK, out.State, out.Took)
		for _, d := range out.Differences {
			fmt.Println(" ", d)
		}
	}
	// Output:
	// on main true DONE 1h0m0s
	// on another branch false DONE 1h0m0s
	//   outputs.branch: expected "main", but it is "topic"
}

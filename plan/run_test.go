package plan_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/plan"
)

// run evaluates the steps of a program in the order of the file, with canned outputs of its tools;
// a tool without one fails. It returns the arguments of each call and the outputs of the plan.
func run(t *testing.T, pr *plan.Program, inputs string, tools map[string]string) (calls map[string]string, outputs string) {
	t.Helper()
	given, err := pr.CheckInputs(json.RawMessage(inputs))
	require.NoError(t, err)
	results := map[string]plan.StepResult{}
	calls = map[string]string{}
	sc := plan.Scope{
		Inputs: given,
		Step:   func(id string) (plan.StepResult, bool) { r, ok := results[id]; return r, ok },
		Task: func() plan.TaskInfo {
			return plan.TaskInfo{ID: "T1", Name: "n", Workspace: "/root/Working/TASK_T1", Root: "/root", Attempt: 1}
		},
	}
	for _, n := range pr.Steps() {
		var out json.RawMessage
		state := "succeeded"
		var failure *plan.StepError
		switch n.Kind {
		case plan.KindTool:
			args, err := n.Args(sc)
			require.NoError(t, err)
			calls[n.ID] = string(args)
			canned, ok := tools[n.ID]
			if !ok {
				state, failure = "failed", &plan.StepError{Code: "X", Message: "no " + n.ID}
				require.Equal(t, plan.OnErrorContinue, n.OnError)
			}
			out = json.RawMessage(canned)
		case plan.KindApprove:
			// not among the plans of this test
		case plan.KindSet:
			out, err = n.Set(sc)
			require.NoError(t, err)
		case plan.KindForEach, plan.KindWait, plan.KindRun, plan.KindSwitch, plan.KindAgent:
			require.Fail(t, "not run here", n.ID)
		}
		results[n.ID] = plan.StepResult{State: state, Output: out, Error: failure, Attempts: 1}
	}
	raw, err := pr.Outputs(sc)
	require.NoError(t, err)
	return calls, string(raw)
}

func example(t *testing.T, name string) *plan.Program {
	t.Helper()
	file := exampleDir + "/" + name
	src, err := os.ReadFile(file)
	require.NoError(t, err)
	p, err := plan.Parse(file, src, exampleOptions())
	require.NoError(t, err)
	pr, err := p.Program()
	require.NoError(t, err)
	return pr
}

func TestRepoReport(t *testing.T) {
	t.Parallel()
	calls, outputs := run(t, example(t, "repo-report.yaml"), "", map[string]string{
		"status": `{"branch":"main","upstream":"origin/main","ahead":2,"behind":0,
			"staged":[{"path":"a.go","status":"modified"}],"unstaged":[],"untracked":["new.txt"]}`,
		"diff":    `{"diff":"--- a\n+++ b\n+x\n+y\n-z\n","files":["a"],"truncated":false}`,
		"files":   `{"files":["/root/a.go","/root/b/b.go","/root/c.py","/root/node_modules/x.js"],"truncated":false}`,
		"notes":   `{"mode":"content","matches":[{"file":"/root/a.go","line":7,"text":"  // TODO: mend"}],"total":1,"truncated":false}`,
		"authors": `{"stdout":"Ada\nBob\nAda\n","stderr":"","exit_code":0}`,
		"commits": `{"stdout":"abc\tAda\t2026-01-01\tfix: it\n","exit_code":0}`,
		"write":   `{"file_path":"/root/Working/TASK_T1/outputs/report.md","bytes_written":10,"created":true}`,
	})
	assert.JSONEq(t, `{"repository_path":"/root"}`, calls["status"])
	assert.JSONEq(t, `{"report":"/root/Working/TASK_T1/outputs/report.md","commits":3,"people":2,"source_files":3,"notes":1,"uncommitted":2}`, outputs)
	var write struct {
		Path    string `json:"file_path"`
		Content string `json:"content"`
	}
	require.NoError(t, json.Unmarshal([]byte(calls["write"]), &write))
	assert.Equal(t, "/root/Working/TASK_T1/outputs/report.md", write.Path)
	want, err := os.ReadFile("testdata/report.md")
	require.NoError(t, err)
	assert.Equal(t, string(want), write.Content)
}

// In a repository without commits, steps that need a commit fail or have empty output.
func TestRepoReportOfAnEmptyRepository(t *testing.T) {
	t.Parallel()
	calls, outputs := run(t, example(t, "repo-report.yaml"), `{"repo":"/root/empty"}`, map[string]string{
		"status":  `{"branch":"main","staged":[],"unstaged":[],"untracked":[]}`,
		"files":   `{"files":[],"truncated":false}`,
		"authors": `{"stdout":"","stderr":"fatal","exit_code":128}`,
		"write":   `{"file_path":"/r.md"}`,
	})
	assert.JSONEq(t, `{"report":"/r.md","commits":0,"people":0,"source_files":0,"notes":0,"uncommitted":0}`, outputs)
	assert.Contains(t, calls["write"], "There are no commits yet.")
}

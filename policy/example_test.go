package policy_test

import (
	"encoding/json"
	"fmt"

	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// A decision lets a call run, refuses it, or asks a person first.
func ExamplePolicy_Decide() {
	p, err := policy.New(policy.Config{Root: "/src"})
	if err != nil {
		panic(err)
	}
	call := func(command string) *policy.Call {
		args, _ := json.Marshal(map[string]string{"command": command})
		return &policy.Call{
			Spec: &tools.Spec{
				Name: "BASH_EXECUTE", Effect: tools.Write, Gate: tools.InProgress, Approval: tools.IfDestructive, Command: "command",
			},
			State: statemachine.InProgress, Args: args, Task: "TASK_01JD0000000000000000000000", Workspace: "/src/Working/TASK_01JD0000000000000000000000",
		}
	}
	ask, err := p.Decide(call("git status"))
	fmt.Println(ask == nil, err)
	ask, err = p.Decide(call("rm -rf /src/docs"))
	fmt.Println(ask.Rule, err)
	done := call("git status")
	done.State = statemachine.Done
	_, err = p.Decide(done)
	fmt.Println(err)
	// Output:
	// true <nil>
	// destructive <nil>
	// STATE_NOT_ALLOWED: BASH_EXECUTE may not run while the task is DONE; allowed states: IN_PROGRESS
}

// A policy file only tightens what the node decides.
func ExampleParseRules() {
	rules, err := policy.ParseRules("policy.yaml", []byte(`version: 1
default: allow
rules:
  - {name: no-deployments, action: deny, commands: ["kubectl *"], reason: the pipeline deploys}
`))
	if err != nil {
		panic(err)
	}
	p, err := policy.New(policy.Config{Root: "/src", Rules: rules})
	if err != nil {
		panic(err)
	}
	for _, command := range []string{"kubectl apply -f shop.yaml", "git status"} {
		args, _ := json.Marshal(map[string]string{"command": command})
		v := p.EvaluateRules(&policy.Call{Spec: &tools.Spec{Name: "BASH_EXECUTE", Command: "command"}, Args: args})
		fmt.Println(v.Action, v.Rule, v.Reason)
	}
	// Output:
	// deny no-deployments the pipeline deploys
	// allow default no rule matches
}

// A grant is bound to the digest of its arguments: their order and spaces do not count.
func ExampleDigest() {
	a, _ := policy.Digest("FILE_DELETE", json.RawMessage(`{"file_path": "/a", "reason": "old"}`))
	b, _ := policy.Digest("FILE_DELETE", json.RawMessage(`{"reason":"old","file_path":"/a"}`))
	c, _ := policy.Digest("FILE_DELETE", json.RawMessage(`{"reason":"old","file_path":"/b"}`))
	fmt.Println(a == b, a == c)
	// Output: true false
}

// Package toolinfo describes tools to the checker of plans: a plan is checked against the same properties at the command line, by the
// MCP server and by the owner of tasks.
package toolinfo

import (
	"encoding/json"

	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/tools"
)

// Of returns those properties of a tool that are needed to check a plan.
func Of(tool tools.Tool) plan.ToolInfo {
	spec := tool.Spec()
	required, fields := tools.Fields(tool)
	return plan.ToolInfo{
		Name: spec.Name, Effect: plan.Effect(spec.Effect), EffectOf: func(args json.RawMessage) plan.Effect { return plan.Effect(tools.EffectOf(tool, args)) },
		AnyState: spec.Gate == tools.AnyState, Direct: spec.Direct, Command: spec.Command, Secrets: spec.Secrets,
		Paths: pathFields(spec), Required: required, Properties: fields, Input: tool.InputSchema, Output: tool.OutputSchema, Check: tool.Check,
	}
}

// pathFields returns the inputs of a tool that contain a path.
func pathFields(spec tools.Spec) []string {
	fields := make([]string, len(spec.Paths))
	for i, p := range spec.Paths {
		fields[i] = p.Field
	}
	return fields
}

package server

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/tools"
)

//go:embed planschema.json
var planSchemaSource []byte

// planSchemaURI is the resource with the full schema of a plan.
const planSchemaURI = "orch://plan-schema"

// planSchema is a shorter schema, sufficient for models to write most plans.
func planSchema() *jsonschema.Schema {
	var schema jsonschema.Schema
	if err := json.Unmarshal(planSchemaSource, &schema); err != nil {
		panic(err) // it is embedded in the program
	}
	return &schema
}

// addPlanSchema offers the full schema as a resource.
func (pc *planChecks) addPlanSchema() {
	pc.sdk.AddResource(&mcp.Resource{
		URI: planSchemaURI, Name: "plan-schema", Title: "JSON Schema of a plan for orch_submit, with all keys", MIMEType: "application/schema+json",
	}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
			{URI: planSchemaURI, MIMEType: "application/schema+json", Text: string(plan.Schema())},
		}}, nil
	})
}

// planProblem is one error in a plan, worded for an MCP client.
type planProblem struct {
	Path       string     `json:"path,omitempty"`
	Line       int        `json:"line"`
	Col        int        `json:"col"`
	Code       fault.Code `json:"code"`
	Message    string     `json:"message"`
	Suggestion string     `json:"suggestion,omitempty"`
}

// planHints replaces hints that name shell commands.
func planHints() map[string]string {
	return map[string]string{
		plan.HintNew:     `begin with {"orch": "v1", "steps": [{"id": "a", "tool": "NAME", "with": {}}]}; resource ` + planSchemaURI + ` has all keys`,
		plan.HintTools:   "tools/list shows them",
		plan.HintServers: "a person configures servers on the node",
	}
}

func problemsOf(list plan.Problems) []planProblem {
	shown := make([]planProblem, len(list))
	hints := planHints()
	for i, p := range list {
		shown[i] = planProblem{p.Path, p.Line, p.Col, p.Code(), p.Message, p.Hint}
		if hint, ok := hints[p.Hint]; ok {
			shown[i].Suggestion = hint
		}
	}
	return shown
}

// nameInPlans adds a hint to problems with tools that a plan names as the client's profile does: plans use the names and
// inputs of the catalogue.
func nameInPlans(problems []planProblem, profile []profileTool) {
	for i, p := range problems {
		for _, t := range profile {
			if p.Message == "there is no tool "+quoted(t.name) {
				problems[i].Suggestion = "in plans it is " + t.tool + ", with paths that are absolute"
			}
		}
	}
}

// loadPlan checks a plan, an object or YAML text, against the tools that the client sees.
func (pc *planChecks) loadPlan(c client, raw json.RawMessage) (*plan.Plan, *plan.Program, error) {
	text := []byte(raw)
	var yaml string
	if json.Unmarshal(raw, &yaml) == nil {
		text = []byte(yaml)
	}
	var names []string
	for _, name := range pc.cfg.Catalogue.Names() {
		if _, ok := pc.tools.find(c, name); ok {
			names = append(names, name)
		}
	}
	return plan.Load("plan", text, plan.Options{ToolNames: func() []string { return names }, Tool: func(name string) (plan.ToolInfo, bool) {
		tool, ok := pc.cfg.Catalogue.Get(name)
		if !ok || tool.Spec().Internal {
			return plan.ToolInfo{}, false
		}
		return toolInfo(tool), slices.Contains(names, tool.Spec().Name)
	}})
}

// toolInfo returns the properties of a tool that the check of a plan needs.
func toolInfo(tool tools.Tool) plan.ToolInfo {
	spec := tool.Spec()
	required, fields := tools.Fields(tool)
	return plan.ToolInfo{
		Name: spec.Name, Effect: plan.Effect(spec.Effect), AnyState: spec.Gate == tools.AnyState, Direct: spec.Direct, Command: spec.Command, Secrets: spec.Secrets,
		Required: required, Properties: fields,
	}
}

// validatePlan reports whether a plan could be submitted, without submitting it.
func (pc *planChecks) validatePlan(c client, in *ownInput) (any, error) {
	parsed, program, err := pc.loadPlan(c, in.Plan)
	if err != nil {
		return pc.planRefused(c, in, err)
	}
	if len(parsed.SecretSources()) > 0 {
		return nil, api.ErrAgentSecrets()
	}
	if _, err := program.CheckInputs(in.Inputs); err != nil {
		return nil, err
	}
	return object{"valid": true, "name": parsed.Name, "steps": len(parsed.Steps), "tools": parsed.Tools()}, nil
}

// planRefused returns the result for an invalid plan: every problem, as data and as text.
func (pc *planChecks) planRefused(c client, in *ownInput, err error) (any, error) {
	var list plan.Problems
	if !errors.As(err, &list) { // a node in another process sends only the first problem
		if _, _, here := pc.loadPlan(c, in.Plan); !errors.As(here, &list) {
			return nil, err
		}
	}
	if c.sessionless {
		return nil, err
	}
	problems := problemsOf(list)
	nameInPlans(problems, profileTools(pc.tools.profileOf(c)))
	e := fault.New(fault.InvalidPlan, "the plan is not valid, and nothing of it was run; problems: %d", len(problems)).WithField("plan").
		WithHint("mend all of them and submit it again; validate_only checks without running; resource %s has all keys", planSchemaURI)
	result, err := pc.answers.failure(toolSubmit, e).unpack()
	if err != nil {
		return nil, err
	}
	withData(result, object{"problems": problems, "complete": len(problems) < plan.MaxProblems})
	result.StructuredContent = mustJSON(object{"valid": false, "problems": problems})
	result.Content = []mcp.Content{&mcp.TextContent{Text: problemText(e, problems)}}
	return result, nil
}

func problemText(e *fault.Error, problems []planProblem) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s. %s.\n", e.Code, e.Message, e.Hint)
	for _, p := range problems {
		fmt.Fprintf(&b, "- %s (line %d, column %d): %s [%s]", orPlan(p.Path), p.Line, p.Col, p.Message, p.Code)
		if p.Suggestion != "" {
			b.WriteString("; " + p.Suggestion)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func orPlan(path string) string {
	if path == "" {
		return "the plan"
	}
	return path
}

// planChecks checks the plans of clients, and reports all problems at once.
type planChecks struct {
	*core

	tools   *toolView
	answers *presenter
}

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
	"github.com/orch-dev/orch/tools/toolinfo"
)

//go:embed planschema.json
var planSchemaSource []byte

// planSchemaURI is the URI of the resource with the full schema of a plan.
const planSchemaURI = "orch://plan-schema"

// planSchema returns a shorter schema of a plan, with which models can write most plans.
func planSchema() *jsonschema.Schema {
	var schema jsonschema.Schema
	if err := json.Unmarshal(planSchemaSource, &schema); err != nil {
		panic(err) // the schema is embedded in the program
	}
	return &schema
}

// addPlanSchema registers the full schema as a resource.
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

// planHints returns replacements for hints that name shell commands, which an MCP client cannot run.
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

// nameInPlans adds a hint to each problem with an unknown tool that exists in the client's profile: in a plan the tool has its
// catalogue name.
func nameInPlans(problems []planProblem, profile []profileTool) {
	for i, p := range problems {
		for _, t := range profile {
			if p.Message == "there is no tool "+quoted(t.name) {
				problems[i].Suggestion = "in plans it is " + t.tool + ", with paths that are absolute"
			}
		}
	}
}

// loadPlan parses a plan, a JSON object or a string of YAML, and checks it against the tools that the client sees.
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
		return toolinfo.Of(tool), slices.Contains(names, tool.Spec().Name)
	}})
}

// validatePlan checks a plan and its inputs without submitting the plan.
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

// planRefused returns the result for an invalid plan: all its problems, as structured content and as text.
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

package onboarding

import (
	"context"
	"slices"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type getChecklistIn struct {
	AgentID          string `json:"agentId" jsonschema:"Agent identifier"`
	IncludeCompleted bool   `json:"includeCompleted,omitempty" jsonschema:"Include completed items" default:"true"`
}

type getChecklistOut struct {
	Checklist []item   `json:"checklist" jsonschema:"The items"`
	Progress  progress `json:"progress" jsonschema:"Progress of the agent"`
}

type item struct {
	ID           string   `json:"id,omitempty" jsonschema:"Identifier"`
	Category     string   `json:"category,omitempty" jsonschema:"Category"`
	Title        string   `json:"title,omitempty" jsonschema:"Title"`
	Description  string   `json:"description,omitempty" jsonschema:"Description for people"`
	Required     *bool    `json:"required,omitempty" jsonschema:"Whether it is required"`
	Completed    *bool    `json:"completed,omitempty" jsonschema:"Whether it is done"`
	CompletedAt  string   `json:"completedAt,omitempty" jsonschema:"When it was done" format:"date-time"`
	Dependencies []string `json:"dependencies,omitempty" jsonschema:"Items that must be completed first"`
	Resources    []string `json:"resources,omitempty" jsonschema:"Further reading"`
}

type progress struct {
	Completed         *int     `json:"completed,omitempty" jsonschema:"Number of completed items"`
	Total             *int     `json:"total,omitempty" jsonschema:"Number of items"`
	Percentage        *float64 `json:"percentage,omitempty" jsonschema:"Share of the completed items, 0 to 100"`
	RequiredRemaining *int     `json:"requiredRemaining,omitempty" jsonschema:"Required items that are not done"`
}

// getChecklist is onboarding.getChecklist (S3-090, S3-091).
func getChecklist(cfg Config) tools.Tool {
	return tools.Define(tools.Spec{
		Name:        "onboarding.getChecklist",
		Title:       "Show the checklist of an agent",
		Purpose:     "Get onboarding checklist with completion status",
		Conditions:  []string{"Any task state"},
		Effect:      tools.Read,
		Gate:        tools.AnyState,
		Approval:    tools.NoApproval,
		NoWorkspace: true,
		AtNode:      true,
		Errors:      []string{"NOT_FOUND", "TOOL_UNAVAILABLE"},
	}, func(ctx context.Context, _ *tools.Env, in getChecklistIn) (getChecklistOut, error) {
		service, err := cfg.agents()
		if err != nil {
			return getChecklistOut{}, err
		}
		all, err := service.Agents(ctx)
		if err != nil {
			return getChecklistOut{}, err
		}
		i := slices.IndexFunc(all, func(v agents.View) bool { return v.ID == in.AgentID || v.Name == in.AgentID })
		if i < 0 {
			return getChecklistOut{}, fault.New(fault.NotFound, "there is no such agent").WithField("agentId").WithHint("see system.getAgents")
		}
		read, err := cfg.hasRead(ctx, all[i])
		return checklist(all[i], read, in.IncludeCompleted), err
	})
}

// hasRead reports whether an agent has ever read its inbox.
func (c Config) hasRead(ctx context.Context, v agents.View) (bool, error) {
	node, err := c.node()
	if err != nil || node.Called == nil {
		return false, nil //nolint:nilerr // without a node there are no messages
	}
	return node.Called(ctx, v.Actor(), inboxTool, v.RegisteredAt)
}

// inboxTool is the tool that reads an inbox.
const inboxTool = "MESSAGE_INBOX"

// checklist returns the checklist of an agent. read reports whether the agent has read its inbox. The list contains
// completed items only if completed is true; the progress always counts all items.
func checklist(v agents.View, read, completed bool) getChecklistOut {
	items := items(v, read)
	out, done, remaining := getChecklistOut{Checklist: []item{}}, 0, 0
	for _, i := range items {
		switch {
		case *i.Completed:
			done++
		case *i.Required:
			remaining++
		}
		if completed || !*i.Completed {
			out.Checklist = append(out.Checklist, i)
		}
	}
	out.Progress = progress{
		Completed: &done, Total: new(len(items)), Percentage: new(100 * float64(done) / float64(len(items))), RequiredRemaining: &remaining,
	}
	return out
}

// items returns the onboarding steps, and which of them the agent has completed. read reports whether it has read its
// inbox.
func items(v agents.View, read bool) []item {
	done := v.Record.Completed > 0
	worked := done || v.Record.Failed > 0 || v.Current > 0
	heard := worked || !v.LastSeen.IsZero()
	return []item{
		{
			ID: "register", Category: "identity", Title: "Register", Description: "Get an id and a credential.",
			Required: new(true), Completed: new(true), CompletedAt: timestamp(v.RegisteredAt), Resources: []string{"docs/reference/agents.md"},
		},
		{
			ID: "heartbeat", Category: "presence", Title: "Send heartbeats", Required: new(true), Completed: &heard,
			Description: "Send a heartbeat every " + agents.Interval.String() + ".", CompletedAt: completedAt(v.LastSeen, heard),
			Dependencies: []string{"register"}, Resources: []string{agents.StatusPath},
		},
		{
			ID: "claim", Category: "work", Title: "Claim work", Description: "Claim tasks that match the capabilities of the agent.",
			Required: new(true), Completed: &worked, Dependencies: []string{"heartbeat"}, Resources: []string{agents.TasksPath},
		},
		{
			ID: "report", Category: "work", Title: "Complete a first task", Description: "Report the successful result of a task.",
			Required: new(true), Completed: &done, Dependencies: []string{"claim"}, Resources: []string{agents.ResultsPath},
		},
		{
			ID: "messages", Category: "communication", Title: "Read the inbox", Description: "Read messages with " + inboxTool + ".",
			Required: new(false), Completed: &read, Dependencies: []string{"register"}, Resources: []string{"docs/reference/messages.md", "orch://inbox"},
		},
	}
}

// completedAt formats the time of a completion, "" if unknown.
func completedAt(t time.Time, completed bool) string {
	if !completed || t.IsZero() {
		return ""
	}
	return timestamp(t)
}

package system

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/tools"
)

type listSkillsIn struct {
	Category          string `json:"category,omitempty" jsonschema:"Filter by category"`
	Search            string `json:"search,omitempty" jsonschema:"Search query for skill names/descriptions"`
	IncludeDeprecated bool   `json:"includeDeprecated,omitempty" jsonschema:"List deprecated skills too" default:"false"`
	Limit             int    `json:"limit,omitempty" jsonschema:"Maximum number of skills to return" minimum:"1" maximum:"1000" default:"100"`
	Offset            int    `json:"offset,omitempty" jsonschema:"Number of skills to skip" minimum:"0" default:"0"`
}

type listSkillsOut struct {
	Skills     []skill  `json:"skills" jsonschema:"The skills, by id"`
	Total      int      `json:"total" jsonschema:"Number of matching skills, regardless of limit and offset"`
	Categories []string `json:"categories,omitempty" jsonschema:"The categories of all skills"`
}

type skill struct {
	ID           string            `json:"id,omitempty" jsonschema:"The name of the tool, or agent:ID/CAPABILITY"`
	Name         string            `json:"name,omitempty" jsonschema:"The name of the skill"`
	Category     string            `json:"category,omitempty" jsonschema:"Family of the tool, or category of the capability"`
	Description  string            `json:"description,omitempty" jsonschema:"What it does"`
	Version      string            `json:"version,omitempty" jsonschema:"Version of its provider"`
	Author       string            `json:"author,omitempty" jsonschema:"Provider"`
	Requirements []string          `json:"requirements,omitempty" jsonschema:"Conditions of use"`
	Parameters   tools.Object      `json:"parameters,omitempty" jsonschema:"JSON Schema of its input"`
	Examples     []tools.Object    `json:"examples,omitempty" jsonschema:"Examples, if there are any"`
	Deprecated   *bool             `json:"deprecated,omitempty" jsonschema:"Whether it is deprecated"`
	SuccessRate  *float64          `json:"successRate,omitempty" jsonschema:"Share of successful calls, 0 to 1; absent when there were no calls"`
	Errors       map[string]uint64 `json:"errors,omitempty" jsonschema:"Number of failed calls by error code"`
	LastUsed     *time.Time        `json:"lastUsed,omitempty" jsonschema:"When it was used last"`
}

// listSkills is system.listSkills (S3-100 to S3-102).
func listSkills(cfg Config) tools.Tool {
	return tools.Define(readSpec(tools.Spec{
		Name:    "system.listSkills",
		Title:   "List skills",
		Purpose: "List available skills in the system",
		Errors:  []string{"VALIDATION_ERROR", "TOOL_UNAVAILABLE"},
	}), func(ctx context.Context, env *tools.Env, in listSkillsIn) (listSkillsOut, error) {
		node, err := cfg.node()
		if err != nil {
			return listSkillsOut{}, err
		}
		all, err := node.skills(ctx, env.Task)
		if err != nil {
			return listSkillsOut{}, err
		}
		return in.page(all), nil
	})
}

// skills returns the tools that a task may call and the capabilities of the agents, sorted by id.
func (n *Node) skills(ctx context.Context, task events.TaskID) ([]skill, error) {
	offered, err := n.Skills(ctx, task)
	if err != nil {
		return nil, err
	}
	var all []skill
	for _, t := range offered {
		all = append(all, n.toolSkill(t))
	}
	registered, err := n.agents(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range registered {
		all = append(all, n.agentSkills(a)...)
	}
	slices.SortFunc(all, func(a, b skill) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

func (n *Node) toolSkill(t Tool) skill {
	s, uses := t.Spec(), n.Usage.Tool(t.Spec().Name)
	return skill{
		ID: s.Name, Name: s.Name, Category: t.Category, Description: s.Purpose, Version: t.Version, Author: t.Author,
		Requirements: s.Conditions, Parameters: tools.Object(t.InputSchema()), Deprecated: &s.Deprecated,
		SuccessRate: uses.successRate(), Errors: uses.errorCounts(), LastUsed: timestamp(uses.LastUsed),
	}
}

// agentSkills returns the capabilities of an agent, with the statistics of its calls.
func (n *Node) agentSkills(a agents.View) []skill {
	uses := n.Usage.Agent(a.Name)
	var all []skill
	for _, c := range a.Capabilities {
		all = append(all, skill{
			ID: "agent:" + a.ID + "/" + c.Name, Name: c.Name, Category: c.Category, Description: "Capability of the agent " + a.Name + " (" + a.Type + ")",
			Version: a.Version, Author: a.Name, Parameters: parametersOf(c), Deprecated: new(false), SuccessRate: uses.successRate(), Errors: uses.errorCounts(), LastUsed: timestamp(uses.LastUsed),
		})
	}
	return all
}

func parametersOf(c agents.Capability) tools.Object {
	text, err := json.Marshal(c.Parameters)
	if err != nil || c.Parameters == nil {
		return nil
	}
	return text
}

// page applies the filters, limit and offset. The result contains the categories of all skills, so that callers can
// choose one.
func (in listSkillsIn) page(all []skill) listSkillsOut {
	out := listSkillsOut{Skills: []skill{}}
	for _, s := range all {
		if s.Deprecated != nil && *s.Deprecated && !in.IncludeDeprecated {
			continue
		}
		if s.Category != "" && !slices.Contains(out.Categories, s.Category) {
			out.Categories = append(out.Categories, s.Category)
		}
		if !in.matches(s) {
			continue
		}
		if out.Total++; out.Total > in.Offset && len(out.Skills) < in.Limit {
			out.Skills = append(out.Skills, s)
		}
	}
	slices.Sort(out.Categories)
	return out
}

func (in listSkillsIn) matches(s skill) bool {
	if in.Category != "" && !strings.EqualFold(in.Category, s.Category) {
		return false
	}
	query := strings.ToLower(in.Search)
	return strings.Contains(strings.ToLower(s.Name), query) || strings.Contains(strings.ToLower(s.Description), query)
}

package onboarding

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/tools"
)

type getWelcomeIn struct {
	AgentName       string   `json:"agentName" jsonschema:"Name of the new agent" minLength:"1" maxLength:"100"`
	Role            string   `json:"role" jsonschema:"Agent's primary role" enum:"researcher,developer,coordinator,analyst,specialist"`
	Specializations []string `json:"specializations,omitempty" jsonschema:"Areas of specialization"`
	Language        string   `json:"language,omitempty" jsonschema:"Preferred language (ISO 639-1)" default:"en"`
}

type getWelcomeOut struct {
	Welcome    welcome      `json:"welcome" jsonschema:"Words of welcome"`
	QuickStart []quickStart `json:"quickStart" jsonschema:"First steps, with tools that the agent may call"`
	Resources  resources    `json:"resources" jsonschema:"Further reading"`
}

type welcome struct {
	Message         string `json:"message,omitempty" jsonschema:"The welcome, with the name of the agent"`
	SystemOverview  string `json:"systemOverview,omitempty" jsonschema:"What the system offers to the agent"`
	RoleDescription string `json:"roleDescription,omitempty" jsonschema:"What an agent of the role does here"`
}

type quickStart struct {
	Step        int    `json:"step,omitempty" jsonschema:"Number of the step, from 1"`
	Title       string `json:"title,omitempty" jsonschema:"What to do"`
	Description string `json:"description,omitempty" jsonschema:"Why, and how"`
	Action      string `json:"action,omitempty" jsonschema:"The tool to call, with its arguments, or the request to send"`
}

type resources struct {
	Documentation []string `json:"documentation,omitempty" jsonschema:"Pages of the documentation"`
	Tutorials     []string `json:"tutorials,omitempty" jsonschema:"Examples to begin with"`
	Contacts      []string `json:"contacts,omitempty" jsonschema:"People who can help"`
}

// maxSpecializations limits the specializations that add steps.
const maxSpecializations = 5

// getWelcome is onboarding.getWelcome (S3-080, S3-081).
func getWelcome(cfg Config) tools.Tool {
	return tools.Define(tools.Spec{
		Name:        "onboarding.getWelcome",
		Title:       "Welcome an agent",
		Purpose:     "Generate personalized welcome message for new agents",
		Conditions:  []string{"Any task state", "In English, whatever language is requested"},
		Effect:      tools.Read,
		Gate:        tools.AnyState,
		Approval:    tools.NoApproval,
		NoWorkspace: true,
		AtNode:      true,
		Errors:      []string{"REQUIRED_FIELD", "VALIDATION_ERROR", "TOOL_UNAVAILABLE"},
	}, func(ctx context.Context, env *tools.Env, in getWelcomeIn) (getWelcomeOut, error) {
		node, err := cfg.node()
		if err != nil {
			return getWelcomeOut{}, err
		}
		offered, err := node.Offered(ctx, env.Task)
		if err != nil {
			return getWelcomeOut{}, err
		}
		r := roles()[in.Role]
		return getWelcomeOut{
			Welcome:    in.welcome(node, offered, r),
			QuickStart: in.steps(offered, r),
			Resources: resources{
				Documentation: append([]string{"docs/reference/agents.md", "docs/reference/mcp.md", "docs/reference/tools.md", "docs/reference/plans.md"}, r.pages...),
				Tutorials:     r.examples, Contacts: node.Contacts,
			},
		}, nil
	})
}

func (in getWelcomeIn) welcome(node *Node, offered map[string][]string, r role) welcome {
	count := 0
	var groups []string
	for _, category := range slices.Sorted(maps.Keys(offered)) {
		count += len(offered[category])
		groups = append(groups, category+" ("+strconv.Itoa(len(offered[category]))+")")
	}
	w := welcome{
		Message: "Welcome, " + in.AgentName + ". " + r.greeting,
		SystemOverview: "This is orch " + node.Version + ". Every call of a tool is a durable task: it survives restarts, may wait for the approval of a person, " +
			"and stays in an audit log. You may call " + strconv.Itoa(count) + " tools: " + strings.Join(groups, ", ") + ".",
		RoleDescription: r.description,
	}
	if len(in.Specializations) > 0 {
		w.RoleDescription += " Your specializations: " + strings.Join(in.Specializations, ", ") + "."
	}
	return w
}

// steps returns the suggested steps: general ones, those of the role and those of the specializations. It omits steps
// with a tool that the agent may not call.
func (in getWelcomeIn) steps(offered map[string][]string, r role) []quickStart {
	callable := map[string]bool{}
	for _, names := range offered {
		for _, name := range names {
			callable[name] = true
		}
	}
	all := append(in.joinSteps(), step{tool: "system.listSkills", title: "List skills", description: "Lists the tools that you may call and what other agents can do."})
	all = append(all, r.steps...)
	for _, topic := range in.Specializations[:min(len(in.Specializations), maxSpecializations)] {
		all = append(all, step{
			tool: "system.listSkills", args: object{"search": topic}, title: "Find skills for " + topic, description: "Looks for the word in names and descriptions.",
		})
	}
	all = append(all,
		step{tool: "system.getTaskQueue", title: "See which tasks wait", description: "Lists them, the most urgent first. You receive the tasks for you when you claim work."},
		step{tool: "system.getSystemStatus", title: "Look at the system", description: "Shows whether all components work before you start."},
	)
	list := []quickStart{}
	for _, s := range all {
		if callable[s.tool] {
			list = append(list, quickStart{len(list) + 1, s.title, s.description, s.action()})
		}
	}
	return list
}

// joinSteps returns the steps with which an agent begins to work: it registers, and then claims and reports work over
// HTTP with its credential.
func (in getWelcomeIn) joinSteps() []step {
	const register = RegisterAgent
	return []step{
		{tool: register, args: in.exampleRegistration(), title: "Register", description: "The node stores your capabilities and returns your credential. Its secret is shown only once."},
		{
			tool: register, request: "POST " + agents.TasksPath + ` {"free":1,"wait":20000000000}`, title: "Claim work",
			description: "Send it to endpoints.tasks of your registration, with the secret as bearer token. The response contains calls for you as soon as there are any. Repeat the request after each response.",
		},
		{
			tool: register, request: "POST " + agents.StatusPath + ` {"calls":[{"task":"TASK_…","step":"…","attempt":1}]}`, title: "Send heartbeats",
			description: "List your current calls, every " + agents.Interval.String() + " and at least three times per lease. A call that you no longer list counts as lost.",
		},
		{
			tool: register, request: "POST " + agents.ResultsPath + ` {"task":"TASK_…","step":"…","attempt":1,"result":{}}`, title: "Report the outcome of a call",
			description: "With result, or with error. docs/reference/agents.md describes the whole protocol; orch agent run and the Go package agents/peer implement it.",
		},
		{tool: "onboarding.getChecklist", args: object{"agentId": in.exampleName()}, title: "Look at your checklist", description: "It shows the remaining steps before you are ready."},
	}
}

// exampleName returns the name of the agent if it is valid, else a placeholder.
func (in getWelcomeIn) exampleName() string {
	if agents.IsName(in.AgentName) {
		return in.AgentName
	}
	return "your-name"
}

// exampleRegistration returns the arguments with which the agent can register.
func (in getWelcomeIn) exampleRegistration() object {
	skills := in.Specializations[:min(len(in.Specializations), maxSpecializations)]
	if len(skills) == 0 {
		skills = []string{in.Role}
	}
	var capabilities []object
	for _, name := range skills {
		capabilities = append(capabilities, object{"name": name, "category": "general"})
	}
	return object{"agentInfo": object{"name": in.exampleName(), "type": in.Role, "version": "1.0.0"}, "capabilities": capabilities}
}

type object = map[string]any

// step is a suggestion for a new agent: a call of tool or, if request is set, an HTTP request. It is shown only to
// agents that may call tool.
type step struct {
	tool               string
	args               object
	request            string
	title, description string
}

// action returns the call or the request of the step as text.
func (s step) action() string {
	switch {
	case s.request != "":
		return s.request
	case len(s.args) == 0:
		return s.tool
	}
	text, err := json.Marshal(s.args)
	if err != nil {
		return s.tool // strings can always be encoded
	}
	return s.tool + " " + string(text)
}

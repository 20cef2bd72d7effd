package onboarding

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type registerAgentIn struct {
	AgentInfo     agentInfo      `json:"agentInfo" jsonschema:"Who the agent is"`
	Capabilities  []capability   `json:"capabilities" jsonschema:"What the agent can do" minItems:"1"`
	Configuration *configuration `json:"configuration,omitempty" jsonschema:"How much it takes, and how"`
}

type agentInfo struct {
	Name        string `json:"name" jsonschema:"Name" pattern:"^[a-zA-Z0-9-_]+$" minLength:"3" maxLength:"50"`
	Type        string `json:"type" jsonschema:"Role of the agent" enum:"researcher,developer,coordinator,analyst,specialist"`
	Version     string `json:"version" jsonschema:"Version of the agent, such as 1.0.0" pattern:"^\\d+\\.\\d+\\.\\d+$"`
	Description string `json:"description,omitempty" jsonschema:"What it is, for people" maxLength:"500"`
	Creator     string `json:"creator,omitempty" jsonschema:"Who made it"`
}

type capability struct {
	Name       string       `json:"name" jsonschema:"Name"`
	Category   string       `json:"category" jsonschema:"Category"`
	Parameters tools.Object `json:"parameters,omitzero" jsonschema:"Parameters, in whatever form; inputSchema is the JSON Schema of the data of its calls"`
}

type configuration struct {
	MaxConcurrentTasks *int         `json:"maxConcurrentTasks,omitempty" jsonschema:"How many tasks it has at the same time" minimum:"1" default:"5"`
	Timeout            *int         `json:"timeout,omitempty" jsonschema:"How long a task may take whose step says nothing, in milliseconds" minimum:"1000" default:"30000"`
	RetryPolicy        *retryPolicy `json:"retryPolicy,omitempty" jsonschema:"How failed tasks are tried again that may be repeated, where their steps say nothing"`
}

type retryPolicy struct {
	MaxRetries *int `json:"maxRetries,omitempty" jsonschema:"How often" default:"3"`
	BackoffMs  *int `json:"backoffMs,omitempty" jsonschema:"Milliseconds before the first time" default:"1000"`
}

type registerAgentOut struct {
	AgentID      string      `json:"agentId" jsonschema:"Unique agent identifier"`
	Credentials  credentials `json:"credentials" jsonschema:"What the agent speaks with"`
	Endpoints    endpoints   `json:"endpoints" jsonschema:"Where the agent speaks to the node"`
	RegisteredAt string      `json:"registeredAt,omitempty" jsonschema:"When it was registered" format:"date-time"`
}

type credentials struct {
	APIKey    string `json:"apiKey,omitempty" jsonschema:"Id of the credential, no secret"`
	Secret    string `json:"secret,omitempty" jsonschema:"Bearer token, shown once"`
	ExpiresAt string `json:"expiresAt,omitempty" jsonschema:"When the credential ends" format:"date-time"`
}

type endpoints struct {
	Messages string `json:"messages,omitempty" jsonschema:"Its inbox" format:"uri"`
	Tasks    string `json:"tasks,omitempty" jsonschema:"Where it claims tasks" format:"uri"`
	Status   string `json:"status,omitempty" jsonschema:"Where it sends heartbeats" format:"uri"`
}

// Once and OnceKey, with the id of the agent, stand in the log for the secret of a credential and its id: whoever asked gets
// them in their place, once.
const (
	Once    = "(the secret of %s is shown once, to whoever registered the agent)"
	OnceKey = "(the key of %s is shown once, with the secret)"
)

// RegisterAgent is the name of the tool whose result holds Once.
const RegisterAgent = "onboarding.registerAgent"

// onboarding.registerAgent (S3-085 to S3-089).
func registerAgent(cfg Config) tools.Tool {
	return tools.Define(tools.Spec{
		Name:       RegisterAgent,
		Title:      "Register an agent",
		Purpose:    "Register a new agent in the system",
		Conditions: []string{"Any task state", "The name is not taken"},
		Example: `{"agentInfo":{"name":"ada","type":"researcher","version":"1.0.0","description":"reads sources"},` +
			`"capabilities":[{"name":"research","category":"general"},{"name":"cite","category":"writing"}],` +
			`"configuration":{"maxConcurrentTasks":2,"timeout":600000}}`,
		Effect:      tools.Write,
		Gate:        tools.AnyState,
		Approval:    tools.NoApproval,
		NoWorkspace: true,
		AtNode:      true,
		Errors:      []string{"CONFLICT", "VALIDATION_ERROR", "INVALID_FORMAT", "REQUIRED_FIELD", "QUOTA_EXCEEDED", "TOOL_UNAVAILABLE"},
	}, func(ctx context.Context, env *tools.Env, in registerAgentIn) (registerAgentOut, error) {
		service, err := cfg.agents()
		if err != nil {
			return registerAgentOut{}, err
		}
		profile, err := in.profile()
		if err != nil {
			return registerAgentOut{}, err
		}
		m, err := service.Register(ctx, agents.Registration{Name: in.AgentInfo.Name, Profile: profile, Task: env.Task, By: env.Requester})
		if err != nil {
			return registerAgentOut{}, err
		}
		return registered(m), nil
	})
}

// registered is the answer. The secret is not in it, because the answer is in the log.
func registered(m agents.Registered) registerAgentOut {
	out := registerAgentOut{
		AgentID: m.ID, RegisteredAt: stamp(m.RegisteredAt),
		Credentials: credentials{APIKey: fmt.Sprintf(OnceKey, m.ID), Secret: fmt.Sprintf(Once, m.ID), ExpiresAt: stamp(m.ExpiresAt)},
		Endpoints:   endpoints{Messages: "orch://inbox"},
	}
	if m.URL != "" {
		out.Endpoints.Tasks, out.Endpoints.Status = m.URL+agents.TasksPath, m.URL+agents.StatusPath
	}
	return out
}

// stamp writes a time as seed 003 does (S3-005).
func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// profile is what the registry keeps.
func (in registerAgentIn) profile() (agents.Profile, error) {
	c := in.configured()
	p := agents.Profile{
		Type: in.AgentInfo.Type, Version: in.AgentInfo.Version, Description: in.AgentInfo.Description, Creator: in.AgentInfo.Creator,
		MaxTasks: *c.MaxConcurrentTasks, Timeout: ms(*c.Timeout),
		MaxRetries: *c.RetryPolicy.MaxRetries, Backoff: ms(*c.RetryPolicy.BackoffMs),
	}
	for _, said := range in.Capabilities {
		kept := agents.Capability{Name: said.Name, Category: said.Category}
		if len(said.Parameters) > 0 {
			if err := json.Unmarshal(said.Parameters, &kept.Parameters); err != nil {
				return p, fault.Wrap(fault.InvalidFormat, err, "is no object").WithField("capabilities")
			}
		}
		p.Capabilities = append(p.Capabilities, kept)
	}
	return p, nil
}

// ms is a number of milliseconds; one that is too large for that is kept too large.
func ms(n int) time.Duration {
	const most = int(1<<62) / int(time.Millisecond)
	return time.Duration(max(min(n, most), -most)) * time.Millisecond
}

// configured is the configuration with all defaults (S3-004).
func (in registerAgentIn) configured() configuration {
	c := configuration{}
	if in.Configuration != nil {
		c = *in.Configuration
	}
	r := retryPolicy{}
	if c.RetryPolicy != nil {
		r = *c.RetryPolicy
	}
	r.MaxRetries, r.BackoffMs = or(r.MaxRetries, 3), or(r.BackoffMs, 1000)
	return configuration{MaxConcurrentTasks: or(c.MaxConcurrentTasks, 5), Timeout: or(c.Timeout, 30000), RetryPolicy: &r}
}

// or is the number, or for none another one.
func or(n *int, otherwise int) *int {
	if n == nil {
		return &otherwise
	}
	return n
}

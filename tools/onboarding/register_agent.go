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
	Configuration *configuration `json:"configuration,omitempty" jsonschema:"Limits of the agent: concurrent tasks, timeout, retries"`
}

type agentInfo struct {
	Name        string `json:"name" jsonschema:"Name" pattern:"^[a-zA-Z0-9-_]+$" minLength:"3" maxLength:"50"`
	Type        string `json:"type" jsonschema:"Role of the agent" enum:"researcher,developer,coordinator,analyst,specialist"`
	Version     string `json:"version" jsonschema:"Version of the agent, such as 1.0.0" pattern:"^\\d+\\.\\d+\\.\\d+$"`
	Description string `json:"description,omitempty" jsonschema:"Description for people" maxLength:"500"`
	Creator     string `json:"creator,omitempty" jsonschema:"Who made it"`
}

type capability struct {
	Name       string       `json:"name" jsonschema:"Name"`
	Category   string       `json:"category" jsonschema:"Category"`
	Parameters tools.Object `json:"parameters,omitzero" jsonschema:"Free-form JSON object; inputSchema, if present, is the JSON Schema that the data of calls must match"`
}

type configuration struct {
	MaxConcurrentTasks *int         `json:"maxConcurrentTasks,omitempty" jsonschema:"Maximum number of concurrent tasks" minimum:"1" default:"5"`
	Timeout            *int         `json:"timeout,omitempty" jsonschema:"Time limit of a task in milliseconds, unless its step sets one" minimum:"1000" default:"30000"`
	RetryPolicy        *retryPolicy `json:"retryPolicy,omitempty" jsonschema:"How failed tasks that may be repeated are retried, unless their steps specify it"`
}

type retryPolicy struct {
	MaxRetries *int `json:"maxRetries,omitempty" jsonschema:"Maximum number of retries" default:"3"`
	BackoffMs  *int `json:"backoffMs,omitempty" jsonschema:"Milliseconds before the first retry" default:"1000"`
}

type registerAgentOut struct {
	AgentID      string      `json:"agentId" jsonschema:"Unique agent identifier"`
	Credentials  credentials `json:"credentials" jsonschema:"Credential with which the agent authenticates"`
	Endpoints    endpoints   `json:"endpoints" jsonschema:"Addresses of the node for the agent"`
	RegisteredAt string      `json:"registeredAt,omitempty" jsonschema:"When it was registered" format:"date-time"`
}

type credentials struct {
	APIKey    string `json:"apiKey,omitempty" jsonschema:"Id of the credential; not secret"`
	Secret    string `json:"secret,omitempty" jsonschema:"Bearer token, shown once"`
	ExpiresAt string `json:"expiresAt,omitempty" jsonschema:"When the credential expires" format:"date-time"`
}

type endpoints struct {
	Messages string `json:"messages,omitempty" jsonschema:"Its inbox" format:"uri"`
	Tasks    string `json:"tasks,omitempty" jsonschema:"Address at which it claims tasks" format:"uri"`
	Status   string `json:"status,omitempty" jsonschema:"Address to which it sends heartbeats" format:"uri"`
}

// SecretPlaceholder and KeyPlaceholder, formatted with the id of the agent, stand in the log for the secret and the id
// of a credential. Reveal replaces them once, for the identity that registered the agent.
const (
	SecretPlaceholder = "(the secret of %s is shown once, to whoever registered the agent)"
	KeyPlaceholder    = "(the key of %s is shown once, with the secret)"
)

// RegisterAgent is the name of the tool with placeholders in its results.
const RegisterAgent = "onboarding.registerAgent"

// registerAgent is onboarding.registerAgent (S3-085 to S3-089).
func registerAgent(cfg Config) tools.Tool {
	return tools.Define(tools.Spec{
		Name:       RegisterAgent,
		Title:      "Register an agent",
		Purpose:    "Register a new agent in the system",
		Conditions: []string{"Any task state", "The name is not in use"},
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
		return registeredOut(m), nil
	})
}

// registeredOut returns the output of a registration. It contains placeholders instead of the credential, because the
// output is stored in the log.
func registeredOut(m agents.Registered) registerAgentOut {
	out := registerAgentOut{
		AgentID: m.ID, RegisteredAt: timestamp(m.RegisteredAt),
		Credentials: credentials{APIKey: fmt.Sprintf(KeyPlaceholder, m.ID), Secret: fmt.Sprintf(SecretPlaceholder, m.ID), ExpiresAt: timestamp(m.ExpiresAt)},
		Endpoints:   endpoints{Messages: "orch://inbox"},
	}
	if m.URL != "" {
		out.Endpoints.Tasks, out.Endpoints.Status = m.URL+agents.TasksPath, m.URL+agents.StatusPath
	}
	return out
}

// timestamp formats a time as in the S3 rules (S3-005).
func timestamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// profile returns the profile for the registry.
func (in registerAgentIn) profile() (agents.Profile, error) {
	cfg := in.withDefaults()
	p := agents.Profile{
		Type: in.AgentInfo.Type, Version: in.AgentInfo.Version, Description: in.AgentInfo.Description, Creator: in.AgentInfo.Creator,
		MaxTasks: *cfg.MaxConcurrentTasks, Timeout: ms(*cfg.Timeout),
		MaxRetries: *cfg.RetryPolicy.MaxRetries, Backoff: ms(*cfg.RetryPolicy.BackoffMs),
	}
	for _, declared := range in.Capabilities {
		c := agents.Capability{Name: declared.Name, Category: declared.Category}
		if len(declared.Parameters) > 0 {
			if err := json.Unmarshal(declared.Parameters, &c.Parameters); err != nil {
				return p, fault.Wrap(fault.InvalidFormat, err, "is not a JSON object").WithField("capabilities")
			}
		}
		p.Capabilities = append(p.Capabilities, c)
	}
	return p, nil
}

// ms converts milliseconds to a Duration. Numbers out of range are clamped to values that validation rejects.
func ms(n int) time.Duration {
	const limit = int(1<<62) / int(time.Millisecond)
	return time.Duration(max(min(n, limit), -limit)) * time.Millisecond
}

// withDefaults returns the configuration with all defaults (S3-004).
func (in registerAgentIn) withDefaults() configuration {
	c := configuration{}
	if in.Configuration != nil {
		c = *in.Configuration
	}
	r := retryPolicy{}
	if c.RetryPolicy != nil {
		r = *c.RetryPolicy
	}
	r.MaxRetries, r.BackoffMs = orDefault(r.MaxRetries, 3), orDefault(r.BackoffMs, 1000)
	return configuration{MaxConcurrentTasks: orDefault(c.MaxConcurrentTasks, 5), Timeout: orDefault(c.Timeout, 30000), RetryPolicy: &r}
}

// orDefault returns n, or a pointer to fallback if n is nil.
func orDefault(n *int, fallback int) *int {
	if n == nil {
		return &fallback
	}
	return n
}

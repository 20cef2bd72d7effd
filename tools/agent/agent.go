// Package agent is the family of tools that give work to agents (seed 000, A-48). An agent is a child task:
// of a plan template below the root, or of one step that runs a command of the configuration.
package agent

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// Config names the agents that are commands. The zero value has none.
type Config struct {
	// Commands are agents by type.
	Commands map[string]Command
	// Registered returns the node that knows the registered agents; nil where there is none.
	Registered func() agents.Service
	// Dispatcher returns where registered agents take work; nil where there is none.
	Dispatcher func() Dispatcher
}

// Command is a program that is an agent. It reads the prompt from its standard input and prints its report.
type Command struct {
	// Argv is the program with its arguments. An argument with {prompt} or {model} holds them instead; one with
	// {model} is left out when the call names no model.
	Argv []string
	// Timeout ends the program; 0 means one hour.
	Timeout time.Duration
	// Network lets the program reach other machines.
	Network bool
}

// Tools returns the family.
func Tools(cfg Config) []tools.Tool {
	return []tools.Tool{taskSpawn(sources(cfg)), agentTask(), agentClaim(cfg), agentHeartbeat(cfg), agentReport(cfg)}
}

// Internal returns the tool that the task of a command has as its only step.
func Internal(cfg Config) []tools.Tool { return []tools.Tool{agentExecute(cfg.Commands)} }

// agentSource knows agents of one kind. The first source that knows a type has it.
type agentSource interface {
	// spawn returns the child that is the agent of a type, without inputs; false when there is no such agent.
	spawn(ctx context.Context, env *tools.Env, agent string) (tools.Spawn, bool, error)
	// types lists the types of the agents.
	types(ctx context.Context, env *tools.Env) []string
}

// sources are the kinds of agents that there are.
func sources(cfg Config) []agentSource {
	return []agentSource{templateAgents{}, commandAgents(cfg.Commands), registeredAgents{cfg.Registered}}
}

// findAgent returns the child that is the agent of a type. NOT_FOUND names those that there are.
func findAgent(ctx context.Context, env *tools.Env, all []agentSource, agent string) (tools.Spawn, error) {
	var known []string
	for _, s := range all {
		spawn, ok, err := s.spawn(ctx, env, agent)
		if ok || err != nil {
			return spawn, err
		}
		known = append(known, s.types(ctx, env)...)
	}
	slices.Sort(known)
	err := fault.New(fault.NotFound, "there is no agent of the type %q", agent).WithField("subagent_type")
	if len(known) == 0 {
		return tools.Spawn{}, err.WithHint("write a plan into %s/%s.yaml, or configure a command under agents, or register an agent", folder, agent)
	}
	return tools.Spawn{}, err.WithHint("there are: %s", strings.Join(slices.Compact(known), ", "))
}

// typeForm is what a type looks like: never a path.
const typeForm = `^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`

// isType reports whether a name can be that of an agent.
func isType(name string) bool { return regexp.MustCompile(typeForm).MatchString(name) }

// inputs are those of every agent.
type inputs struct {
	Prompt string `json:"prompt"`
	Model  string `json:"model,omitempty"`
}

// encode encodes what always can be: texts, numbers, lists and maps of them.
func encode(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic("agent: " + err.Error())
	}
	return text
}

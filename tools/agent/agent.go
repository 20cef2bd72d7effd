// Package agent is the family of tools for agents (S0 rules, A-48). An agent works as a child task. The plan of that
// task is a template below the root, one step that runs a configured command, or one step that a registered agent
// executes.
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

// Config configures the agents. The zero value has no commands.
type Config struct {
	// Commands maps agent types to the commands that run them.
	Commands map[string]Command
	// Registered returns the service for registered agents; nil if there is none.
	Registered func() agents.Service
	// Dispatcher returns the dispatcher from which registered agents claim work; nil if there is none.
	Dispatcher func() Dispatcher
}

// Command is a program that works as an agent. It reads the prompt from its standard input and prints its report.
type Command struct {
	// Argv is the program with its arguments, in which {prompt} and {model} are replaced. If an argument contains
	// {prompt}, the prompt is not on standard input. An argument with {model} is omitted when the call names no model.
	Argv []string
	// Timeout is the time limit of the program; 0 means one hour.
	Timeout time.Duration
	// Network permits the program to access other machines.
	Network bool
}

// Tools returns the tools of the family.
func Tools(cfg Config) []tools.Tool {
	return []tools.Tool{taskSpawn(sources(cfg)), agentTask(), agentClaim(cfg), agentHeartbeat(cfg), agentReport(cfg)}
}

// Internal returns the tool that executes the only step of a command agent.
func Internal(cfg Config) []tools.Tool { return []tools.Tool{agentExecute(cfg.Commands)} }

// agentSource knows the agents of one kind. The first source that knows a type is used.
type agentSource interface {
	// spawn returns the child task for an agent type, without inputs; false if the source does not know the type.
	spawn(ctx context.Context, env *tools.Env, agent string) (tools.Spawn, bool, error)
	// types returns the types of the agents.
	types(ctx context.Context, env *tools.Env) []string
}

// sources returns the sources of all kinds of agents.
func sources(cfg Config) []agentSource {
	return []agentSource{templateAgents{}, commandAgents(cfg.Commands), registeredAgents{cfg.Registered}}
}

// findAgent returns the child task for an agent type. It returns NOT_FOUND, with the known types, if no source knows
// the type.
func findAgent(ctx context.Context, env *tools.Env, all []agentSource, agent string) (tools.Spawn, error) {
	var types []string
	for _, s := range all {
		spawn, ok, err := s.spawn(ctx, env, agent)
		if ok || err != nil {
			return spawn, err
		}
		types = append(types, s.types(ctx, env)...)
	}
	slices.Sort(types)
	err := fault.New(fault.NotFound, "there is no agent of the type %q", agent).WithField("subagent_type")
	if len(types) == 0 {
		return tools.Spawn{}, err.WithHint("write a plan into %s, or configure a command under agents, or register an agent", TemplateFile(agent))
	}
	return tools.Spawn{}, err.WithHint("there are: %s", strings.Join(slices.Compact(types), ", "))
}

// typePattern matches agent types; a type is never a path.
const typePattern = `^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`

var typeForm = regexp.MustCompile(typePattern)

// isType reports whether a name is a valid agent type.
func isType(name string) bool { return typeForm.MatchString(name) }

// inputs are the inputs of every agent.
type inputs struct {
	Prompt string `json:"prompt"`
	Model  string `json:"model,omitempty"`
}

// encode returns v as JSON. v consists of strings, numbers, lists and maps, for which encoding cannot fail.
func encode(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic("agent: " + err.Error())
	}
	return text
}

package agent

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/tools"
)

// defaultTimeout is the time limit of a command without Timeout.
const defaultTimeout = time.Hour

// commandAgents are the agents that are commands, by type.
type commandAgents map[string]Command

func (c commandAgents) spawn(_ context.Context, _ *tools.Env, agent string) (tools.Spawn, bool, error) {
	command, ok := c[agent]
	if !ok {
		return tools.Spawn{}, false, nil
	}
	return tools.Spawn{Agent: agent, Plan: commandPlan(agent, command)}, true, nil
}

func (c commandAgents) types(context.Context, *tools.Env) []string {
	return slices.Collect(maps.Keys(c))
}

// commandPlan returns the plan of an agent that is a command. It has one step.
func commandPlan(agent string, c Command) []byte {
	type object = map[string]any
	return encode(object{
		"orch": "v1",
		"name": "agent " + agent,
		"inputs": object{
			"type": "object", "required": []string{"prompt"},
			"properties": object{"prompt": object{"type": "string"}, "model": object{"type": "string", "default": ""}},
		},
		"steps": []object{{
			"id": "agent", "tool": executeName, "timeout": c.timeout().String(),
			"with": object{"subagent_type": agent, "prompt": "${{ inputs.prompt }}", "model": "${{ inputs.model }}"},
		}},
		"outputs": object{"report": "${{ steps.agent.output.report }}"},
	})
}

func (c Command) timeout() time.Duration {
	if c.Timeout > 0 {
		return c.Timeout
	}
	return defaultTimeout
}

const executeName = "AGENT_EXECUTE"

type agentExecuteIn struct {
	SubagentType string `json:"subagent_type" jsonschema:"Type of the agent"`
	Prompt       string `json:"prompt" jsonschema:"Task for agent" minLength:"1"`
	Model        string `json:"model,omitempty" jsonschema:"Model to use"`
}

type agentExecuteOut struct {
	Report string `json:"report" jsonschema:"Standard output of the command"`
}

// agentExecute runs the command of an agent in the same sandbox as the programs of other tools.
func agentExecute(commands commandAgents) tools.Tool {
	return tools.Define(tools.Spec{
		Name:       executeName,
		Title:      "Run the command of an agent",
		Purpose:    "Run an agent of the configuration",
		Conditions: []string{"Task state: IN_PROGRESS", "The only step of the task of an agent"},
		Effect:     tools.Write,
		Gate:       tools.InProgress,
		Approval:   tools.NoApproval,
		Content:    []string{"prompt"},
		OpenWorld:  true,
		Internal:   true,
		Timeout:    defaultTimeout,
		Errors:     []string{"NOT_FOUND", "EXEC_FAILED", "TIMEOUT", "CANCELLED", "VALIDATION_ERROR"},
	}, func(ctx context.Context, env *tools.Env, in agentExecuteIn) (agentExecuteOut, error) {
		command, ok := commands[in.SubagentType]
		if !ok {
			return agentExecuteOut{}, fault.New(fault.NotFound, "this worker has no agent %q", in.SubagentType).
				WithHint("give all workers of the queue the same agents")
		}
		return command.run(ctx, env, in)
	})
}

// run runs the program in the sandbox and returns its report.
func (c Command) run(ctx context.Context, env *tools.Env, in agentExecuteIn) (agentExecuteOut, error) {
	argv, stdin, err := c.invocation(in)
	if err != nil {
		return agentExecuteOut{}, err
	}
	dir, err := env.Root.ExistingDir(filepath.Join(env.Workspace, "workspace"))
	if err != nil {
		return agentExecuteOut{}, err
	}
	temp := filepath.Join(env.Workspace, "temp")
	sandbox := env.Sandbox()
	sandbox.Network = c.Network
	res, err := env.Exec.Run(ctx, proc.Command{
		Name: argv[0], Args: argv[1:], Dir: dir, Stdin: stdin, Sandbox: sandbox,
		Env:      map[string]string{"HOME": temp, "TMPDIR": temp, "GIT_CEILING_DIRECTORIES": filepath.Dir(env.Workspace)},
		Output:   env.Output,
		OnOutput: func(_ string, n int64) { env.Progress(float64(n), 0, "bytes of output") },
	})
	switch {
	case err != nil:
		return agentExecuteOut{}, err
	case res.ExitCode != 0:
		return agentExecuteOut{}, fault.New(fault.ExecFailed, "the agent %s has ended with status %d: %s", in.SubagentType, res.ExitCode, tail(res.Stderr))
	case res.Truncated:
		return agentExecuteOut{}, fault.New(fault.ValidationError, "the agent %s has printed more than %d bytes", in.SubagentType, proc.DefaultLimit).
			WithReason("SIZE_LIMIT_EXCEEDED").WithHint("let it write files into its working directory")
	}
	return agentExecuteOut{Report: strings.TrimSuffix(res.Stdout, "\n")}, nil
}

// invocation returns the arguments of the program and its standard input. The prompt is an argument only if the command
// contains {prompt}. invocation returns VALIDATION_ERROR if the prompt or the model would turn a plain argument into an
// option; after `--` that is impossible.
func (c Command) invocation(in agentExecuteIn) (argv []string, stdin string, err error) {
	const prompt, model = "{prompt}", "{model}"
	fill := strings.NewReplacer(prompt, in.Prompt, model, in.Model)
	stdin = in.Prompt
	for _, arg := range c.Argv {
		if strings.Contains(arg, prompt) {
			stdin = ""
		}
		if in.Model == "" && strings.Contains(arg, model) {
			continue
		}
		filled := fill.Replace(arg)
		if strings.HasPrefix(filled, "-") && !strings.HasPrefix(arg, "-") && !slices.Contains(argv, "--") {
			return nil, "", fault.New(fault.ValidationError, "the prompt or the model begins with -, and would be an option of the agent %s", in.SubagentType).
				WithHint("begin with a word; the operator can put -- in front of the argument")
		}
		argv = append(argv, filled)
	}
	return argv, stdin, nil
}

// tail returns the end of the error output of a program.
func tail(stderr string) string {
	const limit = 2048
	if stderr = strings.TrimSpace(stderr); len(stderr) > limit {
		return "…" + strings.ToValidUTF8(stderr[len(stderr)-limit:], "")
	}
	return stderr
}

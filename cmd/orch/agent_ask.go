package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/spell"
	"github.com/orch-dev/orch/tools/agent"
)

func newAgentAsk(c *agentCommands) *cobra.Command {
	var o submitOptions
	var model string
	cmd := &cobra.Command{
		Use:   "ask NAME|FILE PROMPT",
		Short: "Let a model do something, as an agent that a file describes",
		Long: `Let a model do something. NAME is that of a file .orch/agents/NAME.yaml below the root, with the keys of an
agent step: model, instructions, tools, result, budget. The task survives crashes, its calls pass the gates of
every call, and its report is printed.`,
		Example: "  orch agent ask reviewer 'Review the change in internal/config.'\n  orch agent ask ./fix.yaml 'Mend the failing test.' --model local/qwen --detach",
		Args:    takes("NAME|FILE", "PROMPT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.file, err = c.agentFile(args[0]); err != nil {
				return err
			}
			o.inputs = []string{"prompt=" + args[1]}
			if model != "" {
				o.inputs = append(o.inputs, "model="+model)
			}
			return c.submits.submit(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&model, "model", "", "model to ask instead of that in the file")
	f.StringVar(&o.name, "name", "", "name of the task")
	f.StringArrayVar(&o.labels, "label", nil, "label as key=value (repeatable)")
	addWait(cmd, &o.waitOptions)
	addSettings(f, true, true)
	return cmd
}

// agentFile returns the path of an agent file. It returns NOT_FOUND if there is none.
func (c *agentCommands) agentFile(name string) (string, error) {
	file := name
	if name != stdinName && !strings.ContainsAny(name, `/.`) {
		file = filepath.Join(c.cfg.Root, agent.TemplateFile(name))
	}
	_, err := os.Stat(c.path(file))
	if name == "" || name != stdinName && errors.Is(err, fs.ErrNotExist) {
		return "", c.noAgent(name)
	}
	return file, nil // reading it names what else is wrong
}

// maxKnownAgents limits the agents that an error names.
const maxKnownAgents = 20

// noAgent returns NOT_FOUND for an agent, and names those that there are.
func (c *agentCommands) noAgent(name string) error {
	var known []string
	entries, _ := os.ReadDir(filepath.Join(c.cfg.Root, agent.Folder)) // without the folder there are no agents
	for _, e := range entries {
		if file, ok := agent.TemplateName(e.Name()); ok {
			known = append(known, file)
		}
	}
	missing := fault.New(fault.NotFound, "there is no agent %q", name).WithField("NAME|FILE")
	near := spell.Nearest(strings.TrimSuffix(filepath.Base(name), ".yaml"), known)
	switch {
	case near != "":
		return missing.WithHint("did you mean %s?", near)
	case len(known) > 0:
		return missing.WithHint("there are: %s", strings.Join(known[:min(len(known), maxKnownAgents)], ", "))
	default:
		return missing.WithHint("write .orch/agents/NAME.yaml with the keys of an agent step: model, instructions, tools, budget")
	}
}

package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
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
			o.file = c.agentFile(args[0])
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

// agentFile returns the path of an agent file.
func (c *agentCommands) agentFile(name string) string {
	if strings.ContainsAny(name, `/.`) {
		return name
	}
	return filepath.Join(c.cfg.Root, ".orch", "agents", name+".yaml")
}

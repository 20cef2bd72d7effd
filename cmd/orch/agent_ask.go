package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/internal/spell"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/models/replay"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/tools/agent"
)

func newAgentAsk(c *agentCommands) *cobra.Command {
	var o submitOptions
	var model string
	cmd := &cobra.Command{
		Use:   "ask NAME|FILE PROMPT",
		Short: "Let a model do something, as an agent that a file describes",
		Long: `Let a model do something. NAME is that of a file .orch/agents/NAME.yaml below the root, with the keys of an
agent step: model, instructions, tools, result, budget; and a description. The task survives crashes, its calls pass the gates of
every call, and its report is printed.`,
		Example: "  orch agent ask reviewer 'Review the change in internal/config.'\n  orch agent ask ./fix.yaml 'Mend the failing test.' --model local/qwen --detach",
		Args:    takes("NAME|FILE", "PROMPT"), ValidArgsFunction: c.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.file, err = c.agentFile(args[0]); err != nil {
				return err
			}
			if args[1] == "" {
				return fault.New(fault.RequiredField, "is empty").WithField("PROMPT")
			}
			o.inputs = []string{"prompt=" + args[1]}
			if model, err = c.recordedModel(cmd.Context(), model); err != nil {
				return err
			}
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

// recordedModel replaces a reference such as @last in replay:TASK by the id of the task.
func (c *agentCommands) recordedModel(ctx context.Context, model string) (string, error) {
	of, recorded := strings.CutPrefix(model, replay.Scheme)
	if !recorded || !strings.HasPrefix(of, "@") {
		return model, nil
	}
	text, rest := of, ""
	if i := strings.IndexAny(of, "/?"); i >= 0 {
		text, rest = of[:i], of[i:]
	}
	err := c.with(ctx, idle, func(s session) error {
		id, err := c.find(ctx, s, text)
		model = replay.Scheme + string(id) + rest
		return err
	})
	return model, err
}

func newAgentFiles(c *agentCommands) *cobra.Command {
	return &cobra.Command{
		Use:     "files",
		Short:   "List the agents that files of the root describe",
		Long:    "List the agents that files of the root describe: .orch/agents/NAME.yaml. orch agent ask NAME lets one do something.",
		Example: "  orch agents files",
		Args:    takes(),
		RunE: func(*cobra.Command, []string) error {
			files := c.agentFiles()
			v := view{data: files, rows: rowsOf(files), text: func(w io.Writer) error {
				if len(files) == 0 {
					c.note("no agent files; write .orch/agents/NAME.yaml with the keys of an agent step: model, instructions, tools, budget")
					return nil
				}
				var table screen.Table
				table.Row("NAME", "ABOUT")
				for _, f := range files {
					table.Row(f.Name, screen.Line(cmp.Or(f.About, "-")))
				}
				return table.Write(w, c.width())
			}}
			for _, f := range files {
				v.names = append(v.names, f.Name)
			}
			return c.emit(v)
		},
	}
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
	var known, described []string
	for _, f := range c.agentFiles() {
		entry := f.Name
		if f.About != "" {
			entry += " (" + screen.Line(f.About) + ")"
		}
		known, described = append(known, f.Name), append(described, entry)
	}
	missing := fault.New(fault.NotFound, "there is no agent %q", name).WithField("NAME|FILE")
	near := spell.Nearest(strings.TrimSuffix(filepath.Base(name), ".yaml"), known)
	switch {
	case near != "":
		return missing.WithHint("did you mean %s?", near)
	case len(known) > 0:
		return missing.WithHint("there are: %s", strings.Join(described[:min(len(known), maxKnownAgents)], ", "))
	default:
		return missing.WithHint("write .orch/agents/NAME.yaml with the keys of an agent step: model, instructions, tools, budget")
	}
}

// agentFiles returns the agents that files of the root describe; none if the root cannot be read.
func (c *agentCommands) agentFiles() []server.AgentFile {
	root, err := pathguard.Open(c.cfg.Root)
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }() // it was only read
	return node.NewAgentFiles(root).AgentFiles()
}

// completeAgents completes the name of an agent as the first argument, with what the agent is for.
func (c *agentCommands) completeAgents(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if c.configure(cmd) != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var words []string
	for _, f := range c.agentFiles() {
		words = append(words, f.Name+"\t"+screen.Line(f.About))
	}
	return words, cobra.ShellCompDirectiveDefault // or the path of a file
}

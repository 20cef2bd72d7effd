package main

import (
	"cmp"
	"errors"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/models/anthropic"
	"github.com/orch-dev/orch/models/directory"
	"github.com/orch-dev/orch/models/gemini"
	"github.com/orch-dev/orch/models/openai"
	"github.com/orch-dev/orch/node"
)

// modelCommands are the commands about the language models of agents. They need no node.
type modelCommands struct{ *connector }

// commands implements family.
func (c *modelCommands) commands() []*cobra.Command { return []*cobra.Command{newModels(c)} }

func newModels(c *modelCommands) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "models",
		Short: "List and test the language models of agents",
		Long: `List and test the language models that agents can ask: those of the providers in the settings, and the scripts in
.orch/models below the root. The commands need no node, and read the settings as a node does that starts here and now.`,
		Example: "  orch models list\n  orch models prices openai/gpt-5\n  orch models test openai/gpt-5",
	}
	asGroup(cmd)
	cmd.AddCommand(newModelsList(c), newModelsPrices(c), newModelsTest(c))
	for _, sub := range cmd.Commands() {
		addSome(sub.Flags(), true, func(k config.Key) bool { return k.Name == "models" })
	}
	return cmd
}

// withModels calls f with the models of the settings and the root of the scripts.
func (c *modelCommands) withModels(f func(all *directory.Directory, root *pathguard.Root) error) error {
	root, err := pathguard.Open(c.cfg.Root)
	if err != nil {
		return fault.From(err).WithField("root")
	}
	err = f(node.NewModels(c.cfg.Models, root, c.getenv), root)
	return errors.Join(err, root.Close())
}

// addressOf returns the base address of a provider.
func addressOf(p config.ModelProvider) string {
	company := map[string]string{openai.Wire: openai.BaseURL, anthropic.Wire: anthropic.BaseURL, gemini.Wire: gemini.BaseURL}
	return cmp.Or(p.URL, company[p.Wire])
}

// completeModels completes the beginning of the name of a model, PROVIDER/ or script:NAME, as the first argument.
func (c *modelCommands) completeModels(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || c.configure(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	_ = c.withModels(func(all *directory.Directory, root *pathguard.Root) error { // a completion cannot show an error
		names = modelNames(all, root)
		return nil
	})
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// modelNames returns the beginnings of the names of models.
func modelNames(all *directory.Directory, root *pathguard.Root) []string {
	names := []string{}
	for _, name := range all.Providers() {
		names = append(names, name+"/")
	}
	scripts, _ := node.Scripts(root) // none can be read
	for _, name := range scripts {
		names = append(names, "script:"+name)
	}
	return names
}

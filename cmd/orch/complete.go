package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/statemachine"
)

// completeTime limits the time to compute a completion.
const completeTime = time.Second

type completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completeIDs completes the first n arguments with the ids of the newest tasks. It returns none if no node runs.
func (cn *connector) completeIDs(n int) completion {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= n || cn.configure(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
		defer cancel()
		s, err := cn.nodes.Dial(ctx, cn.cfg)
		if err != nil {
			return []string{"@last"}, cobra.ShellCompDirectiveNoFileComp
		}
		defer func() { _ = closeSession(ctx, s) }() // a completion cannot show an error
		list, err := s.List(ctx, api.ListRequest{Limit: 50})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		words := []string{"@last"}
		for _, t := range list.Tasks {
			words = append(words, string(t.ID)+"\t"+screen.Escape(t.Name)+" "+string(t.State))
		}
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeFrom completes the first argument with the words that a node lists. It returns none if no node runs.
func (cn *connector) completeFrom(cmd *cobra.Command, args []string, list func(context.Context, session) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || cn.configure(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
	defer cancel()
	s, err := cn.nodes.Dial(ctx, cn.cfg)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer func() { _ = closeSession(ctx, s) }() // a completion cannot show an error
	words, err := list(ctx, s)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// completeTools completes names of tools as the first argument.
func (ts *toolset) completeTools(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || ts.configure(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	catalogue, err := ts.catalogue(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return catalogue.Names(), cobra.ShellCompDirectiveNoFileComp
}

// completeToolFlag completes names of tools as the value of a flag.
func (ts *toolset) completeToolFlag(cmd *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
	return ts.completeTools(cmd, nil, text)
}

// completeWords completes from a fixed list.
func completeWords(words []string) completion {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlag attaches a completion to an existing flag of the command.
func completeFlag(cmd *cobra.Command, flag string, c completion) {
	if err := cmd.RegisterFlagCompletionFunc(flag, c); err != nil {
		panic("orch: " + err.Error())
	}
}

func stateNames() []string {
	var names []string
	for _, s := range statemachine.States() {
		names = append(names, string(s))
	}
	return names
}

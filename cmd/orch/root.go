package main

import (
	"github.com/spf13/cobra"
)

const about = `orch runs plans of tool calls as durable tasks.

Every fact about a task is an event in a log, so a task survives the end of any process, can be
replayed without calling anything, and tells at any time why it does not move. ` + "`orch submit`" + ` needs
nothing running: where there is no node it starts one for the length of the task.

An ID is that of a task, the beginning of one that no other has, or @last: the newest task that you have made
with ` + "`orch submit`, `orch retry` or `orch redrive`" + `, whatever others have submitted since.
` + "`orch help exit-codes`" + ` says what the exit codes mean.`

// The groups of commands in the help.
const (
	groupTasks = "tasks"
	groupReads = "reads"
	groupPlans = "plans"
	groupNode  = "node"
)

// newRoot returns the whole command line.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "orch",
		Short:         "Run plans of tool calls as durable tasks",
		Long:          about,
		Example:       "  orch submit plan.yaml -i repo=.",
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmd.ValidateFlagGroups(); err != nil { // later, cobra would return an error without a code
				return flagError(cmd, err)
			}
			return a.configure(cmd)
		},
	}
	asGroup(root)
	addSettings(root.PersistentFlags(), false, false)
	root.PersistentFlags().BoolVar(&a.json, "json", false, "short for -o json")
	root.SetFlagErrorFunc(flagError)
	root.AddGroup(
		&cobra.Group{ID: groupTasks, Title: "Run and steer tasks:"},
		&cobra.Group{ID: groupReads, Title: "Look at tasks:"},
		&cobra.Group{ID: groupPlans, Title: "Plans, tools and policy:"},
		&cobra.Group{ID: groupNode, Title: "The node:"},
	)
	a.addFamilies(root)
	root.AddCommand(newDemo(a.env), newVersion(a.env), topicExitCodes(), topicEnvironment())
	root.SetHelpCommand(newHelp())
	root.InitDefaultCompletionCmd()
	return root
}

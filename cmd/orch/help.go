package main

import (
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
)

// newHelp returns the help command; an unknown topic is an error.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Help about a command or a topic",
		Example: "  orch help exit-codes",
		RunE: func(cmd *cobra.Command, args []string) error {
			target, rest, err := cmd.Root().Find(args)
			if err != nil || target == nil || len(rest) > 0 {
				at := cmd.Root()
				if target != nil && len(rest) > 0 {
					at, args = target, rest
				}
				return unknownCommand(at, args[0])
			}
			return target.Help()
		},
	}
}

// topic returns a help topic. Its text is generated when it is shown.
func topic(name, short string, text func(w io.Writer) error) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Long: short}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		_ = text(cmd.OutOrStdout()) // if stdout is closed, nobody reads the text
	})
	return cmd
}

func topicExitCodes() *cobra.Command {
	return topic("exit-codes", "What the exit codes mean", func(w io.Writer) error {
		var table screen.Table
		table.Row("EXIT", "MEANING", "ERRORS")
		for _, row := range exits() {
			table.Row(strconv.Itoa(row.exit), row.meaning, joinCodes(row.codes))
		}
		return table.Write(w, 0)
	})
}

func joinCodes(codes []fault.Code) string {
	names := make([]string, len(codes))
	for i, c := range codes {
		names[i] = string(c)
	}
	return strings.Join(names, " ")
}

const environmentText = `Every setting is a key of a file, an environment variable and a flag. The flag goes before the
variable, the variable before ./.orch/config.yaml, that before ~/.orch/config.yaml, and that before
the default. Relative paths of a file are relative to the directory that holds its .orch.

`

const environmentRest = `
NO_COLOR switches colours off. Output that does not go to a terminal is plain lines.
`

func topicEnvironment() *cobra.Command {
	return topic("environment", "Settings: files, variables and flags", func(w io.Writer) error {
		_, err := io.WriteString(w, environmentText+config.Docs()+environmentRest)
		return err
	})
}

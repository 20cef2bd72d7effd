package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/spell"
)

// asGroup makes cmd a group of commands. Without a subcommand, cmd shows its help. With an unknown subcommand, it returns an
// error that suggests the nearest name.
func asGroup(cmd *cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args[0])
	}
}

func unknownCommand(cmd *cobra.Command, name string) error {
	var known []string
	for _, c := range cmd.Commands() {
		known = append(append(known, c.Name()), c.Aliases...)
	}
	err := fault.New(fault.InvalidParams, "%s has no command %q", cmd.CommandPath(), name)
	if near := spell.Nearest(name, known); near != "" {
		return err.WithHint("did you mean: %s %s", cmd.CommandPath(), near)
	}
	return err.WithHint("see: %s --help", cmd.CommandPath())
}

// flagError converts an error of the flag parser to one that suggests the nearest flag.
func flagError(cmd *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	wrong := fault.New(fault.InvalidParams, "%w", err)
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return wrong.WithHint("see: %s --help", cmd.CommandPath())
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	if near := spell.Nearest(unknown.GetSpecifiedName(), known); near != "" && unknown.GetSpecifiedShortnames() == "" {
		return wrong.WithHint("did you mean --%s?", near)
	}
	return wrong.WithHint("see: %s --help", cmd.CommandPath())
}

// takes returns a check of the number of arguments. names are the arguments in the usage line. The last one may be repeated if
// it ends with "...". Names in brackets are optional.
func takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		for i, name := range names {
			if i >= len(args) && !strings.HasPrefix(name, "[") {
				return fault.New(fault.RequiredField, "is missing").WithField(strings.TrimSuffix(name, "...")).
					WithHint("usage: %s", cmd.UseLine())
			}
		}
		many := len(names) > 0 && strings.HasSuffix(strings.TrimSuffix(names[len(names)-1], "]"), "...")
		if len(args) > len(names) && !many {
			return fault.New(fault.InvalidParams, "%s does not take %q", cmd.CommandPath(), args[len(names)]).
				WithHint("usage: %s", cmd.UseLine())
		}
		return nil
	}
}

// choices formats the values of a flag for its usage line.
func choices(values []string) string { return " (" + strings.Join(values, ", ") + ")" }

// oneOf checks that a value is one of a fixed set.
func oneOf(field, value string, known []string) error {
	if slices.Contains(known, value) {
		return nil
	}
	err := fault.New(fault.ValidationError, "%q is none of %s", value, strings.Join(known, ", ")).WithField(field)
	if hint := spell.Hint(value, known); hint != "" {
		return err.WithHint("%s", hint)
	}
	return err
}

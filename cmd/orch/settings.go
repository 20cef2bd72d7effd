package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orch-dev/orch/internal/config"
)

// configure reads the settings for a command.
func (e *env) configure(cmd *cobra.Command) error {
	flags := map[string]string{}
	keys := map[string]string{}
	for _, k := range config.Keys() {
		keys[k.Flag()] = k.Name
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if name, ok := keys[f.Name]; ok && f.Annotations[settingMark] != nil {
			flags[name] = f.Value.String()
		}
	})
	if e.json {
		flags["output"] = "json"
	}
	cfg, err := config.Load(config.Sources{Flags: flags, Getenv: e.getenv, Dir: e.dir, Home: e.home})
	if err != nil {
		return err
	}
	cfg.Command = cmd.CommandPath()
	e.cfg = cfg
	return nil
}

// settingMark is the annotation of flags that are settings. It distinguishes them from other flags with the name of a setting.
const settingMark = "orch_setting"

// addSettings adds the flags of settings: the settings of nodes if node is set, otherwise the settings of all commands.
func addSettings(flags *pflag.FlagSet, node, hidden bool) {
	addSome(flags, hidden, func(k config.Key) bool { return k.Node == node })
}

// addSome adds the flags of the settings for which wanted returns true.
func addSome(flags *pflag.FlagSet, hidden bool, wanted func(config.Key) bool) {
	for _, k := range config.Keys() {
		if !wanted(k) || flags.Lookup(k.Flag()) != nil {
			continue
		}
		short := ""
		if k.Name == "output" {
			short = "o"
		}
		usage := k.Usage
		if k.Choices != nil {
			usage += choices(k.Named())
		}
		flag := flags.VarPF(&setting{text: k.Default, typ: "string"}, k.Flag(), short, usage)
		if k.Switch() {
			flag.NoOptDefVal = "true"
			flag.Value = &setting{text: k.Default, typ: "bool"}
		}
		flag.Hidden = hidden
		flag.Annotations = map[string][]string{settingMark: {k.Name}}
	}
}

// setting is the flag value of a setting. The configuration checks its text.
type setting struct{ text, typ string }

// String, Set and Type implement pflag.Value.
func (s *setting) String() string { return s.text }

func (s *setting) Set(text string) error { s.text = text; return nil }

func (s *setting) Type() string { return s.typ }

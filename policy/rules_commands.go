package policy

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/orch-dev/orch/classify/shell"
)

// commands finds the simple commands of a call: those of its script, or those of a program that it starts without a shell.
func (c Call) commands() shell.Found {
	if text, ok := c.command(); ok {
		return shell.Commands(text, c.environment())
	}
	var in struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	if c.Spec.Command != "" || json.Unmarshal(c.Args, &in) != nil {
		in.Command = ""
	}
	return shell.Started(in.Command, in.Args, c.environment())
}

// byCommand matches the commands of a call.
func (r *Rule) byCommand(f shell.Found) answer {
	if r.Action != RuleAllow {
		result := weigh(false, f.List, r.fitsCommand)
		if f.Unknown {
			result = max(result, maybe)
		}
		return result
	}
	if f.Unknown || f.Steered {
		return no
	}
	written := slices.DeleteFunc(slices.Clone(f.List), func(s shell.Command) bool { return !s.Written })
	return weigh(true, written, r.fitsCommand)
}

// fitsCommand matches one command. A pattern that ends in " *" fits a command without arguments as well.
func (r *Rule) fitsCommand(s shell.Command) answer {
	result := no
	for _, pattern := range r.Commands {
		result = max(result, fits(pattern, s.Text, s.Open))
		if bare, ok := strings.CutSuffix(pattern, " *"); ok {
			result = max(result, fits(bare, s.Text, s.Open))
		}
	}
	return result
}

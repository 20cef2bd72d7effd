package policy

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/orch-dev/orch/classify/shell"
)

// commands returns the simple commands of a call: those of its script, or the program that it starts without a shell.
func (c *Call) commands() shell.Found {
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

// byCommand returns whether the Commands patterns of the rule match the commands of a call.
func (r *Rule) byCommand(f shell.Found) answer {
	if r.Action != RuleAllow {
		result := combine(false, f.List, r.matchCommand)
		if f.Unknown {
			result = max(result, maybe)
		}
		return result
	}
	if f.Unknown || f.Steered {
		return no
	}
	written := slices.DeleteFunc(slices.Clone(f.List), func(s shell.Command) bool { return !s.Written })
	return combine(true, written, r.matchCommand)
}

// matchCommand matches one command. A pattern that ends in " *" also matches the command without arguments.
func (r *Rule) matchCommand(s shell.Command) answer {
	result := no
	for _, pattern := range r.Commands {
		result = max(result, match(pattern, s.Text, s.Open))
		if withoutArgs, ok := strings.CutSuffix(pattern, " *"); ok {
			result = max(result, match(withoutArgs, s.Text, s.Open))
		}
	}
	return result
}

package policy

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/orch-dev/orch/events"
)

// The kinds of recipients, each followed by a name; everybody is a name without one.
const (
	toAgent  = events.AgentPrefix
	toUser   = "user:"
	toGroup  = "group:"
	toType   = "type:"
	everyone = "all"
)

// recipient is somebody whom a call gives something: a message, or work.
type recipient struct {
	// names are what is known of it, such as agent:ada and type:analyst.
	names []string
	// open are kinds of which it may have names that are not known before the call.
	open []string
}

// recipients are those whom a call names. Calls that go to others without names have one of whom nothing is known.
func (c Call) recipients() []recipient {
	switch {
	case c.Spec.ForAgents:
		return []recipient{selected(c.Args)}
	case c.Spec.Recipients == "":
		return nil
	}
	var named []string
	_ = json.Unmarshal(argFields(c.Args)[c.Spec.Recipients], &named) // what is no list of texts is refused before the call
	if len(named) == 0 {
		return []recipient{{open: []string{toAgent, toUser}}}
	}
	all := make([]recipient, len(named))
	for i, name := range named {
		all[i] = addressed(name)
	}
	return all
}

// addressed is the recipient with an address. Who is in a group is not known.
func addressed(name string) recipient {
	if name == everyone || strings.HasPrefix(name, toGroup) {
		return recipient{names: []string{name}, open: []string{toAgent, toUser}}
	}
	return recipient{names: []string{name}}
}

// selected is the agent that a call selects. One that may be of any type, or have any name, is open in that.
func selected(args json.RawMessage) recipient {
	var said events.Agents
	_ = json.Unmarshal(args, &said) // what selects nobody is refused before the call
	var r recipient
	for _, part := range []struct{ kind, name string }{{toAgent, said.Agent}, {toType, said.Type}} {
		if part.name == "" {
			r.open = append(r.open, part.kind)
		} else {
			r.names = append(r.names, part.kind+part.name)
		}
	}
	return r
}

// byRecipient matches a recipient.
func (r *Rule) byRecipient(to recipient) answer {
	result := no
	for _, name := range to.names {
		result = max(result, anyFits(r.Recipients, name))
	}
	if result == no && slices.ContainsFunc(to.open, func(kind string) bool { return canFit(r.Recipients, kind) }) {
		return maybe
	}
	return result
}

// canFit reports whether some name of a kind fits a pattern.
func canFit(patterns []string, kind string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return fits(pattern, kind, true) != no })
}

func recipientPattern(pattern string) string {
	one := []string{pattern}
	if anyFits(one, everyone) == yes || slices.ContainsFunc([]string{toAgent, toUser, toGroup, toType}, func(kind string) bool { return canFit(one, kind) }) {
		return ""
	}
	return "write agent:NAME, user:NAME, group:NAME, all, or type:TYPE for the agents of a type"
}

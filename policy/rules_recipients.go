package policy

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/orch-dev/orch/events"
)

// The prefixes of recipient names. everyone is a whole name, without a prefix.
const (
	toAgent  = events.AgentPrefix
	toUser   = "user:"
	toGroup  = "group:"
	toType   = "type:"
	everyone = "all"
)

// recipient is a recipient of a message or of work.
type recipient struct {
	// names are the known names, such as agent:ada and type:analyst.
	names []string
	// openPrefixes are the prefixes under which it may have further names. These are unknown until the call runs.
	openPrefixes []string
}

// recipients returns the recipients of a call. For a call that names no recipients it returns one recipient that may be
// any agent or user.
func (c *Call) recipients() []recipient {
	switch {
	case c.Spec.ForAgents:
		return []recipient{recipientSelected(c.Args)}
	case c.Spec.Recipients == "":
		return nil
	}
	var named []string
	_ = json.Unmarshal(argFields(c.Args)[c.Spec.Recipients], &named) // anything but a list of strings is refused before the call
	if len(named) == 0 {
		return []recipient{{openPrefixes: []string{toAgent, toUser}}}
	}
	all := make([]recipient, len(named))
	for i, name := range named {
		all[i] = recipientAt(name)
	}
	return all
}

// recipientAt returns the recipient with an address. The members of a group are unknown.
func recipientAt(name string) recipient {
	if name == everyone || strings.HasPrefix(name, toGroup) {
		return recipient{names: []string{name}, openPrefixes: []string{toAgent, toUser}}
	}
	return recipient{names: []string{name}}
}

// recipientSelected returns the agent that a call selects. If the selection does not contain its name or type, its
// prefix is in openPrefixes.
func recipientSelected(args json.RawMessage) recipient {
	var selection events.Agents
	_ = json.Unmarshal(args, &selection) // an invalid selection is refused before the call
	var r recipient
	for _, part := range []struct{ kind, name string }{{toAgent, selection.Agent}, {toType, selection.Type}} {
		if part.name == "" {
			r.openPrefixes = append(r.openPrefixes, part.kind)
		} else {
			r.names = append(r.names, part.kind+part.name)
		}
	}
	return r
}

// byRecipient returns whether the Recipients patterns of the rule match a recipient; maybe if that depends on names
// that are unknown before the call.
func (r *Rule) byRecipient(to recipient) answer {
	result := no
	for _, name := range to.names {
		result = max(result, matchAny(r.Recipients, name))
	}
	if result == no && slices.ContainsFunc(to.openPrefixes, func(kind string) bool { return mayMatch(r.Recipients, kind) }) {
		return maybe
	}
	return result
}

// mayMatch reports whether a pattern can match some name with the prefix kind.
func mayMatch(patterns []string, kind string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return match(pattern, kind, true) != no })
}

// recipientFlaw returns "" if the pattern can match some recipient, else a hint about how to write one.
func recipientFlaw(pattern string) string {
	one := []string{pattern}
	if matchAny(one, everyone) == yes || slices.ContainsFunc([]string{toAgent, toUser, toGroup, toType}, func(kind string) bool { return mayMatch(one, kind) }) {
		return ""
	}
	return "write agent:NAME, user:NAME, group:NAME, all, or type:TYPE for the agents of a type"
}

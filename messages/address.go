package messages

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// All is the address of everybody.
const All = "all"

// The kinds of addresses, each followed by a name.
const (
	agentPrefix = events.AgentPrefix
	userPrefix  = "user:"
	groupPrefix = "group:"
)

// CheckAddress returns INVALID_FORMAT for what is no address: agent:NAME, user:NAME, group:NAME or all.
func CheckAddress(text string) error {
	if text == All || isNamed(text, agentPrefix, userPrefix, groupPrefix) {
		return nil
	}
	return fault.New(fault.InvalidFormat, "%q is no address", clip(text)).
		WithHint("use agent:NAME, user:NAME, group:NAME or all")
}

// CheckIdentity returns FORBIDDEN for what nobody can be: only agents and people have inboxes.
func CheckIdentity(text string) error {
	if isIdentity(text) {
		return nil
	}
	return fault.New(fault.Forbidden, "%q has no inbox", clip(text)).WithHint("agents and users have one: agent:NAME, user:NAME")
}

func isIdentity(text string) bool { return isNamed(text, agentPrefix, userPrefix) }

// CheckGroup returns the address of a group, which may be given by its name alone.
func CheckGroup(text string) (string, error) {
	if !strings.Contains(text, ":") {
		text = groupPrefix + text
	}
	if isNamed(text, groupPrefix) {
		return text, nil
	}
	return "", fault.New(fault.InvalidFormat, "%q is no group", clip(text)).WithField("group").WithHint("write it as group:NAME")
}

// IsGroup reports whether an address is that of a group.
func IsGroup(address string) bool { return strings.HasPrefix(address, groupPrefix) }

// isNamed reports whether a text is one of the prefixes and a name. A name is what can be shown and written in a list:
// it has neither commas nor white space at its ends, and nothing invisible.
func isNamed(text string, prefixes ...string) bool {
	for _, prefix := range prefixes {
		name, ok := strings.CutPrefix(text, prefix)
		if !ok {
			continue
		}
		return name != "" && len(text) <= maxAddress && utf8.ValidString(name) && strings.TrimSpace(name) == name &&
			!strings.ContainsFunc(name, func(r rune) bool { return r == ',' || !unicode.IsPrint(r) })
	}
	return false
}

func clip(text string) string {
	const longest = 64
	if len(text) > longest {
		return strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

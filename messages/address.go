package messages

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// All is the address of all agents and users.
const All = "all"

// The prefixes of addresses; a name follows.
const (
	agentPrefix = events.AgentPrefix
	userPrefix  = "user:"
	groupPrefix = "group:"
)

// CheckAddress returns INVALID_FORMAT unless text is an address: agent:NAME, user:NAME, group:NAME or all.
func CheckAddress(text string) error {
	if text == All || isNamed(text, agentPrefix, userPrefix, groupPrefix) {
		return nil
	}
	return fault.New(fault.InvalidFormat, "%q is not an address", clip(text)).
		WithHint("use agent:NAME, user:NAME, group:NAME or all; names of agents and groups have no spaces")
}

// CheckIdentity returns FORBIDDEN unless text is an agent or a user: only they have inboxes.
func CheckIdentity(text string) error {
	if isIdentity(text) {
		return nil
	}
	return fault.New(fault.Forbidden, "%q has no inbox", clip(text)).WithHint("agents and users have one: agent:NAME, user:NAME")
}

func isIdentity(text string) bool { return isNamed(text, agentPrefix, userPrefix) }

// CheckGroup returns the address of a group, given as NAME or group:NAME, or INVALID_FORMAT.
func CheckGroup(text string) (string, error) { return group(text, isNamed) }

// checkFormerGroup is CheckGroup for leaving a group. It accepts names with spaces, which earlier versions allowed.
func checkFormerGroup(text string) (string, error) { return group(text, isVisible) }

func group(text string, isValid func(text string, prefixes ...string) bool) (string, error) {
	address := text
	if !strings.Contains(text, ":") {
		address = groupPrefix + text
	}
	if isValid(address, groupPrefix) {
		return address, nil
	}
	return "", fault.New(fault.InvalidFormat, "%q is not a group", clip(text)).WithField("group").
		WithHint("write it as NAME or group:NAME, without spaces and commas")
}

// IsGroup reports whether an address is that of a group.
func IsGroup(address string) bool { return strings.HasPrefix(address, groupPrefix) }

// isNamed reports whether text is one of the prefixes followed by a name. Only names of users, which come from the
// operating system, may contain spaces.
func isNamed(text string, prefixes ...string) bool {
	return isVisible(text, prefixes...) && (strings.HasPrefix(text, userPrefix) || !strings.ContainsFunc(text, unicode.IsSpace))
}

// isVisible reports whether text is one of the prefixes followed by a name that can be printed in a list: no commas, no
// leading or trailing white space, no invisible characters.
func isVisible(text string, prefixes ...string) bool {
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

func clip(text string) string { return fault.Clip(text, 64) }

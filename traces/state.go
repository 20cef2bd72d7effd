package traces

import (
	"slices"
	"strings"

	"github.com/orch-dev/orch/events"
)

const (
	// maxMembers is the number of members that a tracestate may have, maxState the number of characters that are handed on of one.
	maxMembers = 32
	maxState   = 512
	// longMember is the length from which a member gives way before others.
	longMember = 128
	// maxKey and maxValue bound the parts of a member.
	maxKey, maxValue = 256, 256
)

// ParseState returns a tracestate as W3C Trace Context writes it, without empty members; false for what is none. Of one with more than
// 512 characters, long members give way, the last first, and then others, the last first: they are the oldest.
func ParseState(text string) (state string, ok bool) {
	var members []string
	keys := map[string]bool{}
	for member := range strings.SplitSeq(text, ",") {
		member = strings.Trim(member, " \t")
		if member == "" {
			continue
		}
		key, value, _ := strings.Cut(member, "=")
		if !isStateKey(key) || !isStateValue(value) || keys[key] {
			return "", false
		}
		keys[key] = true
		members = append(members, member)
	}
	if len(members) == 0 || len(members) > maxMembers {
		return "", false
	}
	state = shortened(members)
	return state, state != ""
}

// shortened joins as many members as may be handed on.
func shortened(members []string) string {
	size := len(members) - 1
	for _, m := range members {
		size += len(m)
	}
	for i := len(members) - 1; i >= 0 && size > maxState; i-- {
		if len(members[i]) > longMember {
			size -= len(members[i]) + 1
			members = slices.Delete(members, i, i+1)
		}
	}
	for size > maxState {
		last := len(members) - 1
		size -= len(members[last]) + 1
		members = members[:last]
	}
	return strings.Join(members, ",")
}

// isStateKey reports whether a text is the key of a member: lower-case letters, digits, _, -, * and /, with one @ between a tenant and a
// system.
func isStateKey(key string) bool {
	tenant, system, multi := strings.Cut(key, "@")
	if len(key) > maxKey || tenant == "" || !isStatePart(tenant) {
		return false
	}
	if !multi {
		return isLower(rune(key[0]))
	}
	const maxTenant, maxSystem = 241, 14
	return len(tenant) <= maxTenant && (isLower(rune(tenant[0])) || isDigit(rune(tenant[0]))) &&
		system != "" && len(system) <= maxSystem && isLower(rune(system[0])) && isStatePart(system)
}

func isStatePart(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return !isLower(r) && !isDigit(r) && !strings.ContainsRune("_-*/", r)
	})
}

func isLower(c rune) bool { return c >= 'a' && c <= 'z' }

func isDigit(c rune) bool { return c >= '0' && c <= '9' }

// isStateValue reports whether a text is the value of a member: printable, without a comma and an equals sign.
func isStateValue(value string) bool {
	return value != "" && len(value) <= maxValue && !strings.ContainsFunc(value, func(r rune) bool {
		return r < ' ' || r > '~' || r == ',' || r == '='
	})
}

// StateBelow returns the tracestate that a task and its children hand on: that of the caller of the topmost task.
func StateBelow(d *events.Submitted) string {
	if d.Parent != nil {
		return d.Parent.TraceState
	}
	return d.TraceState
}

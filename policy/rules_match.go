package policy

import (
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/orch-dev/orch/classify/shell"
	"github.com/orch-dev/orch/tools"
)

// match matches text against a pattern: * is any sequence of characters, ? is one character. A partial text has an
// unknown continuation; the answer may then be maybe.
func match(pattern, text string, partial bool) answer {
	wanted := []rune(pattern)
	now, next := make([]bool, len(wanted)+1), make([]bool, len(wanted)+1)
	alive := reach(wanted, now, 0)
	for _, r := range text {
		if !alive {
			return no
		}
		clear(next)
		alive = false
		for i, w := range wanted {
			switch {
			case !now[i]:
			case w == '*':
				alive = reach(wanted, next, i)
			case w == '?' || w == r:
				alive = reach(wanted, next, i+1)
			}
		}
		now, next = next, now
	}
	switch end := now[len(wanted)]; {
	case !partial:
		return answerOf(end)
	case end && strings.HasSuffix(pattern, "*"):
		return yes // for any continuation
	case alive:
		return maybe
	default:
		return no
	}
}

// reach marks position i of a pattern as reachable, and the positions after stars, which may match the empty string.
func reach(pattern []rune, reachable []bool, i int) bool {
	for reachable[i] = true; i < len(pattern) && pattern[i] == '*'; {
		i++
		reachable[i] = true
	}
	return true
}

func matchAny(patterns []string, text string) answer {
	for _, pattern := range patterns {
		if match(pattern, text, false) == yes {
			return yes
		}
	}
	return no
}

// MatchesAny reports whether a pattern for tool names matches one of names.
func MatchesAny(pattern string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return match(pattern, name, false) == yes })
}

// byPath returns whether the Paths patterns of the rule match an access to a path. A deny or ask rule also matches an
// access below a matching path, and the deletion of a folder that contains a matching path. For a write to such a
// folder the answer is maybe, because the write may move or replace the matching path.
func (r *Rule) byPath(t pathAccess, root string) answer {
	result := no
	for _, pattern := range r.Paths {
		switch {
		case matchPath(pattern, t.path, root),
			r.Action != RuleAllow && matchParents(pattern, t.path, root):
			return yes
		case r.Action == RuleAllow || !containsBase(pattern, t.path, root):
		case t.access == tools.DeletePath:
			return yes
		case t.access == tools.WritePath:
			result = maybe
		}
	}
	return result
}

// matchPath reports whether a pattern matches a clean absolute path. A relative pattern is relative to the root.
func matchPath(pattern, path, root string) bool {
	if !filepath.IsAbs(pattern) {
		rel, err := filepath.Rel(root, path)
		if err != nil || rel != "." && !filepath.IsLocal(rel) {
			return false
		}
		path = rel
	}
	return firstMatch([]string{pattern}, path) != ""
}

// matchParents reports whether a pattern matches a folder that contains a path.
func matchParents(pattern, path, root string) bool {
	for dir := filepath.Dir(path); dir != "/" && dir != "." && dir != root; dir = filepath.Dir(dir) {
		if matchPath(pattern, dir, root) {
			return true
		}
	}
	return false
}

// containsBase reports whether a path is, or contains, the literal base folder of a pattern.
func containsBase(pattern, path, root string) bool {
	base, _ := doublestar.SplitPattern(pattern)
	if !filepath.IsAbs(base) {
		base = filepath.Join(root, base)
	}
	return strings.Contains(pattern, "/") && shell.Within(base, path)
}

// peer is a host that a call connects to. It is empty for a target without a host, such as a database in a file.
type peer struct{ host, port string }

func peers(targets []tools.Target) []peer {
	var all []peer
	for _, t := range targets {
		if t.Kind == tools.Endpoint || t.Kind == tools.Connection {
			all = append(all, peerOf(t.Name))
		}
	}
	return all
}

func peerOf(name string) peer {
	u, err := url.Parse(name)
	if err != nil {
		return peer{}
	}
	return peer{plainHost(u.Hostname()), u.Port()}
}

// plainHost returns a host in lower case without a final dot, and an IP address in canonical form.
func plainHost(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().String()
	}
	return host
}

func (r *Rule) byHost(p peer) answer {
	for _, pattern := range r.Hosts {
		if p.host != "" && matchHost(pattern, p) {
			return yes
		}
	}
	return no
}

// matchHost reports whether a pattern matches a host, label by label. A leading star matches one or more labels, any
// other star a part of its label.
func matchHost(pattern string, p peer) bool {
	host, port := splitHost(pattern)
	if port != "" && strings.TrimLeft(port, "0") != strings.TrimLeft(p.port, "0") {
		return false
	}
	if host == "*" || host == p.host {
		return true
	}
	want, have := strings.Split(host, "."), strings.Split(p.host, ".")
	if want[0] == "*" && len(have) > len(want) {
		have = have[len(have)-len(want):]
	}
	if len(want) != len(have) || strings.Contains(p.host, ":") {
		return false
	}
	for i := range want {
		if match(want[i], have[i], false) != yes {
			return false
		}
	}
	return true
}

// splitHost splits host, host:port, [IPv6], [IPv6]:port, or an IPv6 address without brackets.
func splitHost(pattern string) (host, port string) {
	if strings.HasPrefix(pattern, "[") {
		host, rest, _ := strings.Cut(pattern[1:], "]")
		return plainHost(host), strings.TrimPrefix(rest, ":")
	}
	if strings.Count(pattern, ":") == 1 {
		host, port, _ = strings.Cut(pattern, ":")
		return plainHost(host), port
	}
	return plainHost(pattern), ""
}

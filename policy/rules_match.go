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

// fits matches a pattern of text: * is any run of characters, ? is one. An open text goes on in a way that is
// not known yet; then maybe is an answer, too.
func fits(pattern, text string, open bool) answer {
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
	case !open:
		return sure(end)
	case end && strings.HasSuffix(pattern, "*"):
		return yes // whatever follows
	case alive:
		return maybe
	default:
		return no
	}
}

// reach marks a place in a pattern, and the one behind a star, which may stand for nothing.
func reach(pattern []rune, places []bool, i int) bool {
	for places[i] = true; i < len(pattern) && pattern[i] == '*'; {
		i++
		places[i] = true
	}
	return true
}

func anyFits(patterns []string, text string) answer {
	for _, pattern := range patterns {
		if fits(pattern, text, false) == yes {
			return yes
		}
	}
	return no
}

// FitsAny reports whether a pattern of a rule for names of tools fits one of the names.
func FitsAny(pattern string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return fits(pattern, name, false) == yes })
}

// byPath matches a path. A deny or ask rule holds for what lies below, and for the removal of what lies above.
// Whether something that is written above moves or replaces what lies below cannot be told.
func (r *Rule) byPath(t touch, root string) answer {
	result := no
	for _, pattern := range r.Paths {
		switch {
		case fitsPath(pattern, t.path, root),
			r.Action != RuleAllow && fitsAbove(pattern, t.path, root):
			return yes
		case r.Action == RuleAllow || !above(pattern, t.path, root):
		case t.access == tools.DeletePath:
			return yes
		case t.access == tools.WritePath:
			result = maybe
		}
	}
	return result
}

// fitsPath matches a clean absolute path; patterns that are not absolute are relative to the root.
func fitsPath(pattern, path, root string) bool {
	if !filepath.IsAbs(pattern) {
		rel, err := filepath.Rel(root, path)
		if err != nil || rel != "." && !filepath.IsLocal(rel) {
			return false
		}
		path = rel
	}
	return matchesAny([]string{pattern}, path) != ""
}

// fitsAbove matches the folders in which a path lies.
func fitsAbove(pattern, path, root string) bool {
	for dir := filepath.Dir(path); dir != "/" && dir != "." && dir != root; dir = filepath.Dir(dir) {
		if fitsPath(pattern, dir, root) {
			return true
		}
	}
	return false
}

// above reports whether a path is or contains the folder with which a pattern begins.
func above(pattern, path, root string) bool {
	base, _ := doublestar.SplitPattern(pattern)
	if !filepath.IsAbs(base) {
		base = filepath.Join(root, base)
	}
	return strings.Contains(pattern, "/") && shell.Within(base, path)
}

// peer is a host that a call talks to; an empty one is none, such as that of a database in a file.
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

// plainHost is a host in lower case without a final dot, an address in its shortest form.
func plainHost(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().String()
	}
	return host
}

func (r *Rule) byHost(p peer) answer {
	for _, pattern := range r.Hosts {
		if p.host != "" && fitsHost(pattern, p) {
			return yes
		}
	}
	return no
}

// fitsHost compares label by label. A star in front stands for one or more labels, any other one for a part of
// its label.
func fitsHost(pattern string, p peer) bool {
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
		if fits(want[i], have[i], false) != yes {
			return false
		}
	}
	return true
}

// splitHost splits host, host:port, [v6], [v6]:port or a bare v6.
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

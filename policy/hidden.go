package policy

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/orch-dev/orch/classify/shell"
	"github.com/orch-dev/orch/fault"
)

// HiddenPaths is the set of paths that the policy file hides from a call. They do not exist for the programs that the
// call starts, nor for the searches and reads of its tool. The zero value hides nothing.
type HiddenPaths struct {
	root     string
	patterns []hiddenPattern
}

// hiddenPattern is a pattern of paths, prepared for repeated matching.
type hiddenPattern struct {
	text string
	// prefix is set for a pattern without wildcards: the absolute path that it hides with everything below.
	prefix string
	// name is true for a pattern without a slash, which matches the last element at any depth.
	name bool
}

// HiddenPaths returns the paths that the policy file hides from a call. A deny or ask rule hides its paths if its other
// criteria match the call or may match it. A pattern of an ask rule hides nothing from a call that names a matching
// path, because that call needs an approval before it runs.
func (p *Policy) HiddenPaths(c *Call) HiddenPaths {
	v := HiddenPaths{root: p.root}
	if p.rules == nil || !slices.ContainsFunc(p.rules.List, Rule.hides) {
		return v
	}
	f := p.facts(c)
	for i := range p.rules.List {
		r := &p.rules.List[i]
		if !r.hides() || r.matchesExceptPaths(f) == no {
			continue
		}
		for _, pattern := range r.Paths {
			if r.Action == RuleDeny || !asksFor(pattern, f) {
				v.add(pattern)
			}
		}
	}
	return v
}

// hides reports whether a rule can hide paths.
func (r Rule) hides() bool { return r.Action != RuleAllow && len(r.Paths) > 0 }

// matchesExceptPaths evaluates the criteria of a rule except its paths.
func (r *Rule) matchesExceptPaths(f facts) answer {
	rest := *r
	rest.Paths = nil
	return rest.matches(f)
}

// asksFor reports whether an ask rule with only this pattern would match a path that the call names.
func asksFor(pattern string, f facts) bool {
	alone := Rule{Action: RuleAsk, Paths: []string{pattern}}
	return slices.ContainsFunc(f.paths, func(t pathAccess) bool { return alone.byPath(t, f.root) != no })
}

func (v *HiddenPaths) add(pattern string) {
	h := hiddenPattern{text: pattern, name: !strings.Contains(pattern, "/")}
	base := strings.TrimSuffix(pattern, "/**")
	if !h.name && !hasMeta(base) {
		h.prefix = filepath.Clean(base)
		if !filepath.IsAbs(h.prefix) {
			h.prefix = filepath.Join(v.root, h.prefix)
		}
	}
	if !slices.Contains(v.patterns, h) {
		v.patterns = append(v.patterns, h)
	}
}

// hasMeta reports whether a pattern contains wildcards.
func hasMeta(pattern string) bool { return strings.ContainsAny(pattern, `*?[{\`) }

// Empty reports whether nothing is hidden.
func (v HiddenPaths) Empty() bool { return len(v.patterns) == 0 }

// Key returns a string that is equal for equal sets of patterns.
func (v HiddenPaths) Key() string {
	texts := make([]string, len(v.patterns))
	for i, h := range v.patterns {
		texts[i] = h.text
	}
	slices.Sort(texts)
	return strings.Join(texts, "\x00")
}

// Hides reports whether a clean absolute path, or a folder that contains it, is hidden.
func (v HiddenPaths) Hides(path string) bool {
	if v.Empty() {
		return false
	}
	for ; path != v.root && path != "/" && path != "."; path = filepath.Dir(path) {
		if v.Matches(path) {
			return true
		}
	}
	return false
}

// Matches reports whether a clean absolute path itself is hidden. It does not check the folders that contain it.
func (v HiddenPaths) Matches(path string) bool {
	return slices.ContainsFunc(v.patterns, func(h hiddenPattern) bool {
		switch {
		case h.prefix != "":
			return shell.Within(path, h.prefix)
		case h.name:
			return shell.Within(path, v.root) && doublestar.MatchUnvalidated(h.text, filepath.Base(path))
		default:
			return matchPath(h.text, path, v.root)
		}
	})
}

// Paths returns the hidden absolute paths that are known without searching, whether or not they exist.
func (v HiddenPaths) Paths() []string {
	var paths []string
	for _, h := range v.patterns {
		if h.prefix != "" {
			paths = append(paths, h.prefix)
		}
	}
	return paths
}

// OutsidePatterns returns the patterns of files outside of the root that only a search can find. They contain no **.
func (v HiddenPaths) OutsidePatterns() []string {
	var outside []string
	for _, h := range v.patterns {
		if h.prefix == "" && filepath.IsAbs(h.text) && !mayMatchBelow(h.text, v.root) {
			outside = append(outside, strings.TrimSuffix(h.text, "/**"))
		}
	}
	return outside
}

// mayMatchBelow reports whether an absolute pattern can match something below the root.
func mayMatchBelow(pattern, root string) bool {
	base, _ := doublestar.SplitPattern(pattern)
	return shell.Within(base, root) || shell.Within(root, base)
}

// checkReach rejects patterns that match files outside of the root at any depth, because they would require a search of
// the whole file system.
func (r *Rules) checkReach(root string) error {
	for i := range r.List {
		rule := &r.List[i]
		for _, pattern := range rule.Paths {
			middle := strings.Contains(strings.TrimSuffix(pattern, "/**"), "**")
			if rule.hides() && filepath.IsAbs(pattern) && middle && !mayMatchBelow(pattern, root) {
				return fault.New(fault.ValidationError, "the rule %s: %s looks for files outside of the root at any depth", rule.Name, pattern).
					WithField("paths").WithHint("name their folder, with /** behind it")
			}
		}
	}
	return nil
}

// checkHidden returns FORBIDDEN if the policy file hides a path from a call that moves or deletes its folder.
func (p *Policy) checkHidden(c *Call, path string) error {
	if !p.HiddenPaths(c).Hides(path) {
		return nil
	}
	return fault.New(fault.Forbidden, "%s would be moved or deleted too, and the policy file hides it from %s", path, c.Spec.Name).
		WithReason("POLICY_DENIED").WithHint("move or delete only the paths that it may use; see: orch policy show")
}

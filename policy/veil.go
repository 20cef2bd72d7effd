package policy

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/orch-dev/orch/classify/shell"
	"github.com/orch-dev/orch/fault"
)

// Veil is what the policy file takes away from what a call can reach: the programs that it starts, and the searches and
// readers of its tool, do not have the paths. The zero value takes nothing away.
type Veil struct {
	root     string
	patterns []hiddenPattern
}

// hiddenPattern is a pattern of paths, prepared for many of them.
type hiddenPattern struct {
	text string
	// prefix is the absolute path that the pattern stands for, with all that is below it; empty for any other pattern.
	prefix string
	// name is true for a pattern that fits the last element at any depth.
	name bool
}

// Veil returns what the rules of the policy file with paths take away from a call: those that deny, and those that ask,
// when their other criteria match the call or may match it. A pattern of a rule that asks takes nothing away from a call
// that names such a path, because the call then does not run before somebody has allowed it.
func (p *Policy) Veil(c Call) Veil {
	v := Veil{root: p.root}
	if p.rules == nil || !slices.ContainsFunc(p.rules.List, Rule.hides) {
		return v
	}
	f := p.facts(c)
	for i := range p.rules.List {
		r := &p.rules.List[i]
		if !r.hides() || r.others(f) == no {
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

// hides reports whether a rule takes paths away.
func (r Rule) hides() bool { return r.Action != RuleAllow && len(r.Paths) > 0 }

// others weighs the criteria of a rule but for its paths.
func (r *Rule) others(f facts) answer {
	rest := *r
	rest.Paths = nil
	return rest.matches(f)
}

// asksFor reports whether a rule with this pattern alone asks about a path that the call names.
func asksFor(pattern string, f facts) bool {
	alone := Rule{Action: RuleAsk, Paths: []string{pattern}}
	return slices.ContainsFunc(f.paths, func(t touch) bool { return alone.byPath(t, f.root) != no })
}

func (v *Veil) add(pattern string) {
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

// hasMeta reports whether a pattern holds a sign of patterns.
func hasMeta(pattern string) bool { return strings.ContainsAny(pattern, `*?[{\`) }

// Empty reports whether nothing is taken away.
func (v Veil) Empty() bool { return len(v.patterns) == 0 }

// Key is the same for veils that take the same away.
func (v Veil) Key() string {
	texts := make([]string, len(v.patterns))
	for i, h := range v.patterns {
		texts[i] = h.text
	}
	slices.Sort(texts)
	return strings.Join(texts, "\x00")
}

// Hides reports whether a clean absolute path, or a folder that it lies in, is taken away.
func (v Veil) Hides(path string) bool {
	if v.Empty() {
		return false
	}
	for ; path != v.root && path != "/" && path != "."; path = filepath.Dir(path) {
		if v.Fits(path) {
			return true
		}
	}
	return false
}

// Fits reports whether a clean absolute path itself is taken away, whatever becomes of the folders that it lies in.
func (v Veil) Fits(path string) bool {
	return slices.ContainsFunc(v.patterns, func(h hiddenPattern) bool {
		switch {
		case h.prefix != "":
			return shell.Within(path, h.prefix)
		case h.name:
			return shell.Within(path, v.root) && doublestar.MatchUnvalidated(h.text, filepath.Base(path))
		default:
			return fitsPath(h.text, path, v.root)
		}
	})
}

// Places returns the absolute paths that are taken away whether or not they exist, without a look at any folder.
func (v Veil) Places() []string {
	var places []string
	for _, h := range v.patterns {
		if h.prefix != "" {
			places = append(places, h.prefix)
		}
	}
	return places
}

// Outside returns the patterns of files outside of the root that have to be looked for, without a ** in them.
func (v Veil) Outside() []string {
	var outside []string
	for _, h := range v.patterns {
		if h.prefix == "" && filepath.IsAbs(h.text) && !mayFitBelow(h.text, v.root) {
			outside = append(outside, strings.TrimSuffix(h.text, "/**"))
		}
	}
	return outside
}

// Searches reports whether the folders of the root have to be searched to know all that is taken away.
func (v Veil) Searches() bool {
	return slices.ContainsFunc(v.patterns, func(h hiddenPattern) bool {
		return h.prefix == "" && (!filepath.IsAbs(h.text) || mayFitBelow(h.text, v.root))
	})
}

// mayFitBelow reports whether an absolute pattern could fit something below the root.
func mayFitBelow(pattern, root string) bool {
	base, _ := doublestar.SplitPattern(pattern)
	return shell.Within(base, root) || shell.Within(root, base)
}

// checkReach refuses patterns of which nobody could tell what they take away from a program: those of files outside of the
// root at any depth.
func (r *Rules) checkReach(root string) error {
	for i := range r.List {
		rule := &r.List[i]
		for _, pattern := range rule.Paths {
			middle := strings.Contains(strings.TrimSuffix(pattern, "/**"), "**")
			if rule.hides() && filepath.IsAbs(pattern) && middle && !mayFitBelow(pattern, root) {
				return fault.New(fault.ValidationError, "the rule %s: %s looks for files outside of the root at any depth", rule.Name, pattern).
					WithField("paths").WithHint("name their folder, with /** behind it")
			}
		}
	}
	return nil
}

// hidden returns why a path must not be taken along with the folder that it lies in.
func (p *Policy) hidden(c Call, path string) error {
	if !p.Veil(c).Hides(path) {
		return nil
	}
	return fault.New(fault.Forbidden, "%s would be taken along, and the policy file closes it to %s", path, c.Spec.Name).
		WithReason("POLICY_DENIED").WithHint("name what the call shall take in calls of their own; see: orch policy show")
}

package registry

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// offers reports whether the definition permits a tool. A tool is permitted if it matches no pattern with an exclamation mark, and
// it matches another pattern or there is no other.
func (c MCPConfig) offers(tool string) bool {
	hasIncludes, included := false, false
	for _, pattern := range c.Tools {
		if without, ok := strings.CutPrefix(pattern, "!"); ok {
			if matches(without, tool) {
				return false
			}
			continue
		}
		hasIncludes = true
		included = included || matches(pattern, tool)
	}
	return included || !hasIncludes
}

// effectOf returns the effect that the definition declares for a tool; "" if it declares none. The exact name takes
// precedence over patterns, a longer pattern over a shorter one.
func (c MCPConfig) effectOf(tool string) string {
	if effect, ok := c.Effects[tool]; ok {
		return effect
	}
	best := ""
	for pattern := range c.Effects {
		if matches(pattern, tool) && (len(pattern) > len(best) || len(pattern) == len(best) && pattern < best) {
			best = pattern
		}
	}
	return c.Effects[best]
}

// matches reports whether a name matches a pattern of path.Match.
func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// malformed returns the first invalid pattern in a definition, and the property that contains it; "" if there is none.
func (c MCPConfig) malformed() (property, pattern string) {
	for _, p := range c.Tools {
		if !isPattern(strings.TrimPrefix(p, "!")) {
			return "tools", p
		}
	}
	for _, p := range slices.Sorted(maps.Keys(c.Effects)) {
		if !isPattern(p) {
			return "effects", p
		}
	}
	return "", ""
}

func isPattern(text string) bool {
	_, err := path.Match(text, "")
	return err == nil && text != ""
}

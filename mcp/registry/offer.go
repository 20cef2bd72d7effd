package registry

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// offers reports whether the definition permits a tool: it matches a pattern, or there is none, and it matches no
// pattern with an exclamation mark.
func (c MCPConfig) offers(tool string) bool {
	asked, wanted := false, false
	for _, pattern := range c.Tools {
		if without, ok := strings.CutPrefix(pattern, "!"); ok {
			if matches(without, tool) {
				return false
			}
			continue
		}
		asked = true
		wanted = wanted || matches(pattern, tool)
	}
	return wanted || !asked
}

// effectOf returns the effect of a tool according to the definition; "" if it declares none. The exact name takes
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

// malformed returns an invalid pattern in a definition, and its property.
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

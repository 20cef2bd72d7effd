package registry

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// offers reports whether the definition lets a tool be used: it fits a pattern, or there is none, and it fits none of
// those that begin with an exclamation mark.
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

// effectOf returns what the definition says of the effect of a tool; "" when it says nothing. The name itself counts
// more than patterns, a longer pattern more than a shorter one.
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

// matches reports whether a name fits a pattern of path.Match.
func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// malformed returns the patterns of a definition that are none, by the property that they are in.
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

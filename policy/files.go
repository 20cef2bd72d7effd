package policy

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// secretFiles returns the names of files that hold secrets.
func secretFiles() []string {
	return []string{
		".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*",
		"*.credentials", "*.token", "*.secret",
	}
}

// IsSecretFile reports whether the last element of path is the name of a file that holds secrets
// and is not on the allow list.
func (p *Policy) IsSecretFile(path string) bool {
	name := filepath.Base(path)
	return matchesAny(secretFiles(), strings.ToLower(name)) != "" && !p.allowed(name)
}

// pattern returns the configured pattern that protects rel, a path relative to the root.
func (p *Policy) pattern(rel string) string { return matchesAny(p.protected, rel) }

func (p *Policy) allowed(text string) bool {
	return anyMatch(p.allow, text)
}

func anyMatch(exprs []*regexp.Regexp, text string) bool {
	for _, re := range exprs {
		if re.MatchString(text) {
			return true
		}
	}
	return false
}

// matchesAny returns the first pattern that fits path: as a whole, or its last element when the
// pattern has no slash. Patterns are valid.
func matchesAny(patterns []string, path string) string {
	for _, pattern := range patterns {
		subject := path
		if !strings.Contains(pattern, "/") {
			subject = filepath.Base(path)
		}
		if doublestar.MatchUnvalidated(pattern, subject) {
			return pattern
		}
	}
	return ""
}

package policy

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/bmatcuk/doublestar/v4"
)

// secretFiles returns the names of files that hold secrets in forms that the scanner cannot read, or of any form.
func secretFiles() []string { return []string{".env", ".env.*", "*.p12", "*.pfx", "*.jks"} }

// keyFiles returns the names of files that may hold secrets: what is in them decides.
func keyFiles() []string {
	return []string{"*.pem", "*.key", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.creds", "*.credentials", "*.token", "*.secret", ".netrc"}
}

// publicFiles returns the names of files that are made to be shown.
func publicFiles() []string {
	return []string{"*.pub", "*.example", "*.sample", "*.template", "*.dist"}
}

// IsSecretFile reports whether the last element of path is the name of a file that holds secrets
// and is not on the allow list.
func (p *Policy) IsSecretFile(path string) bool {
	name := strings.ToLower(filepath.Base(path))
	return matchesAny(secretFiles(), name) != "" && matchesAny(publicFiles(), name) == "" && !p.allowed(filepath.Base(path))
}

// holdsKey reports whether the file at path is one of secrets by what is in it: any secret where the name is that
// of a key, else a private key that it begins with.
func (p *Policy) holdsKey(path string) bool {
	name := strings.ToLower(filepath.Base(path))
	if matchesAny(keyFiles(), name) != "" {
		return len(p.findings(head(path, keyHead))) > 0
	}
	const begins = "-----BEGIN "
	if string(head(path, len(begins))) != begins {
		return false
	}
	found := p.findings(head(path, keyHead))
	return len(found) > 0 && found[0].Offset == 0
}

// keyHead is how much of a file is read to find out whether it is a key.
const keyHead = 64 << 10

// head returns the first bytes of a regular file, nil of anything else.
func head(path string, most int) []byte {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(most)))
	if err != nil {
		return nil
	}
	return data
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

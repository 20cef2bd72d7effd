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

// secretFiles returns patterns of files that contain secrets, possibly in formats that the scanner cannot read.
func secretFiles() []string { return []string{".env", ".env.*", "*.p12", "*.pfx", "*.jks"} }

// keyFiles returns patterns of files that may contain secrets. holdsKey checks their content.
func keyFiles() []string {
	return []string{"*.pem", "*.key", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.creds", "*.credentials", "*.token", "*.secret", ".netrc"}
}

// publicFiles returns patterns of files that are meant to be public.
func publicFiles() []string {
	return []string{"*.pub", "*.example", "*.sample", "*.template", "*.dist"}
}

// IsSecretFile reports whether the last element of path names a file with secrets and is not on the allow list.
func (p *Policy) IsSecretFile(path string) bool {
	name := strings.ToLower(filepath.Base(path))
	return firstMatch(secretFiles(), name) != "" && firstMatch(publicFiles(), name) == "" && !p.allowed(filepath.Base(path))
}

// holdsKey reports whether the file at path contains a secret. In a file with the name of a key file any secret counts.
// In a different file only a private key at its beginning counts.
func (p *Policy) holdsKey(path string) bool {
	return p.HoldsKey(path, func(limit int) []byte { return head(path, limit) })
}

// HoldsKey reports whether a file with this path holds a key: see IsSecretFile for files whose names say so. head returns up to
// limit bytes from its beginning.
func (p *Policy) HoldsKey(path string, head func(limit int) []byte) bool {
	name := strings.ToLower(filepath.Base(path))
	if firstMatch(keyFiles(), name) != "" {
		return len(p.findings(head(keyHead))) > 0
	}
	const begins = "-----BEGIN "
	if string(head(len(begins))) != begins {
		return false
	}
	found := p.findings(head(keyHead))
	return len(found) > 0 && found[0].Offset == 0
}

// keyHead is how many bytes of a file are scanned for a key.
const keyHead = 64 << 10

// head returns up to limit bytes from the beginning of a regular file, or nil.
func head(path string, limit int) []byte {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)))
	if err != nil {
		return nil
	}
	return data
}

// pattern returns the configured pattern that protects rel, a path relative to the root, or "".
func (p *Policy) pattern(rel string) string { return firstMatch(p.protected, rel) }

func (p *Policy) allowed(text string) bool {
	return anyRegexpMatches(p.allow, text)
}

func anyRegexpMatches(exprs []*regexp.Regexp, text string) bool {
	for _, re := range exprs {
		if re.MatchString(text) {
			return true
		}
	}
	return false
}

// firstMatch returns the first pattern that matches path, or "". A pattern without a slash is matched against the last
// element. The patterns must be valid.
func firstMatch(patterns []string, path string) string {
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

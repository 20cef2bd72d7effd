package web

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/internal/secret"
)

const (
	redacted = "[REDACTED]"
	// minSecret is the length in bytes of the shortest secret to remove: shorter texts occur by chance.
	minSecret = 6
)

// scrubber removes the credentials of a request from its response, because some servers echo them.
type scrubber struct {
	secrets []string
	// planSecrets are the secrets of the plan. Any header of the request may contain them.
	planSecrets *secret.Set
}

func newScrubber(header http.Header, planSecrets *secret.Set) scrubber {
	s := scrubber{planSecrets: planSecrets}
	for name, values := range header {
		if netguard.Secret(name) {
			for _, value := range values {
				s.add(value)
			}
		}
	}
	return s
}

// add registers as secrets a header value, the credential after its scheme, the password in Basic credentials, and each
// cookie.
func (s *scrubber) add(value string) {
	found := []string{value}
	if scheme, rest, ok := strings.Cut(value, " "); ok {
		found = append(found, strings.TrimSpace(rest))
		if plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest)); err == nil && strings.EqualFold(scheme, "Basic") {
			_, password, _ := strings.Cut(string(plain), ":")
			found = append(found, string(plain), password)
		}
	}
	for pair := range strings.SplitSeq(value, ";") {
		if _, cookie, ok := strings.Cut(pair, "="); ok {
			found = append(found, strings.Trim(cookie, ` "`))
		}
	}
	for _, text := range found {
		if len(text) >= minSecret {
			s.secrets = append(s.secrets, text)
		}
	}
}

func (s scrubber) redact(b []byte) []byte {
	for _, text := range s.secrets {
		b = bytes.ReplaceAll(b, []byte(text), []byte(redacted))
	}
	b, _ = s.planSecrets.Redact(b)
	return b
}

// redactHeaders joins the values of each header and redacts credentials.
func (s scrubber) redactHeaders(h http.Header) map[string]string {
	out := make(map[string]string, len(h))
	for name, values := range h {
		value := strings.ToValidUTF8(strings.Join(values, ", "), "\uFFFD")
		if netguard.Secret(name) && !isChallenge(name) {
			value = redacted
		}
		out[strings.ToValidUTF8(name, "\uFFFD")] = string(s.redact([]byte(value)))
	}
	return out
}

// isChallenge reports whether a response header only describes how to authenticate, and so contains no credential.
func isChallenge(name string) bool {
	return strings.HasSuffix(name, "-Authenticate") || strings.HasPrefix(name, "Access-Control-")
}

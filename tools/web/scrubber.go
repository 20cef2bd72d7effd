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
	leftOut = "[REDACTED]"
	// minSecret is the shortest text, in bytes, that is looked for: shorter ones occur by chance.
	minSecret = 6
)

// scrubber takes the credentials of a request out of its response: some servers repeat what they get.
type scrubber struct {
	secrets []string
	// given are the secrets of the plan, which any header may have carried.
	given *secret.Set
}

func newScrubber(sent http.Header, given *secret.Set) scrubber {
	s := scrubber{given: given}
	for name, values := range sent {
		if netguard.Secret(name) {
			for _, value := range values {
				s.add(value)
			}
		}
	}
	return s
}

// add keeps a value, the credential after its scheme, the password inside of Basic, and each cookie.
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

func (s scrubber) bytes(b []byte) []byte {
	for _, text := range s.secrets {
		b = bytes.ReplaceAll(b, []byte(text), []byte(leftOut))
	}
	b, _ = s.given.Redact(b)
	return b
}

// headers joins the values of each header and leaves out those that carry credentials.
func (s scrubber) headers(h http.Header) map[string]string {
	out := make(map[string]string, len(h))
	for name, values := range h {
		value := strings.ToValidUTF8(strings.Join(values, ", "), "\uFFFD")
		if netguard.Secret(name) && !challenge(name) {
			value = leftOut
		}
		out[strings.ToValidUTF8(name, "\uFFFD")] = string(s.bytes([]byte(value)))
	}
	return out
}

// challenge reports whether a response header only talks about credentials.
func challenge(name string) bool {
	return strings.HasSuffix(name, "-Authenticate") || strings.HasPrefix(name, "Access-Control-")
}

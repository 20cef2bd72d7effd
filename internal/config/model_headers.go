package config

import (
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"github.com/orch-dev/orch/classify/secrets"
	"github.com/orch-dev/orch/fault"
)

// The limits of the headers of a provider. The name and a text have a number of bytes.
const (
	maxHeaders    = 32
	maxHeaderName = 64
	maxHeaderText = 1024
)

// ModelHeader is the value of a header of requests to a provider: a text, or the place of a secret.
type ModelHeader struct {
	Text   string
	Secret Secret
}

// Read returns the value. Its errors are those of Secret.Read, and VALIDATION_ERROR for a secret that is no value of a header.
func (h ModelHeader) Read(getenv func(string) string) (string, error) {
	if h.Secret == "" {
		return h.Text, nil
	}
	text, err := h.Secret.Read(getenv)
	if err == nil && !isHeaderText(text) {
		return "", fault.New(fault.ValidationError, "the secret in %s contains a line break or a control character", string(h.Secret))
	}
	return text, err
}

// modelHeaders checks the headers of a provider. Their names in the result have the canonical form.
func (p place) modelHeaders(provider string, g givenProvider) (map[string]ModelHeader, error) {
	if len(g.Headers) > maxHeaders {
		return nil, p.invalid("the provider %s has more than %d headers", provider, maxHeaders)
	}
	var headers map[string]ModelHeader
	for given, value := range g.Headers {
		name := textproto.CanonicalMIMEHeaderKey(given)
		if problem := problemOfHeader(name, g); problem != "" {
			return nil, p.invalid("the header %q of the provider %s %s", given, provider, problem)
		}
		if _, twice := headers[name]; twice {
			return nil, p.invalid("the header %s of the provider %s stands twice", name, provider)
		}
		header, err := p.modelHeader(name, provider, value)
		if err != nil {
			return nil, err
		}
		if headers == nil {
			headers = map[string]ModelHeader{}
		}
		headers[name] = header
	}
	return headers, nil
}

// modelHeader parses the value of a header. A text may be a secret by mistake, so no error contains it.
func (p place) modelHeader(name, provider, value string) (ModelHeader, error) {
	if strings.HasPrefix(value, envScheme) || strings.HasPrefix(value, fileScheme) {
		secret, err := p.of("header " + name + " of the provider " + provider).secret(value)
		return ModelHeader{Secret: secret}, err
	}
	switch {
	case isCredential(name) || len(secrets.Find([]byte(name+": "+value))) > 0:
		return ModelHeader{}, p.invalid("the header %s of the provider %s looks like a credential, which does not stand in the settings", name, provider).
			WithHint("name the place where it lies: env:NAME for a variable, file:PATH for a file of mode 600")
	case value == "" || len(value) > maxHeaderText || !isHeaderText(value):
		return ModelHeader{}, p.invalid("the header %s of the provider %s must have 1 to %d bytes, without line breaks and control characters", name, provider, maxHeaderText)
	}
	return ModelHeader{Text: value}, nil
}

// problemOfHeader returns what is wrong with the canonical name of a header, or "".
func problemOfHeader(name string, g givenProvider) string {
	switch {
	case len(name) > maxHeaderName || !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`).MatchString(name):
		return "is no name of a header: use letters, digits, - and _, at most 64"
	case slices.Contains(ownHeaders(), name):
		return "is set by orch itself"
	case g.Key != "" && name == keyHeader(g.Wire):
		return "is the one in which `key` is sent: use one of the two"
	default:
		return ""
	}
}

// ownHeaders lists the headers that the protocols and the connection determine.
func ownHeaders() []string {
	return []string{
		"Accept", "Accept-Encoding", "Anthropic-Version", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host",
		"Idempotency-Key", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	}
}

// keyHeader returns the header in which a protocol sends the credential.
func keyHeader(wire string) string {
	return map[string]string{"anthropic": "X-Api-Key", "gemini": "X-Goog-Api-Key", "openai": "Authorization"}[wire]
}

// isCredential reports whether the values of a header are usually secret, by its name.
func isCredential(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"auth", "key", "token", "secret", "cookie", "passw", "credential", "session", "signature"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// isHeaderText reports whether a text can be the value of a header.
func isHeaderText(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

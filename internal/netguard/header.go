package netguard

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
)

const (
	// maxHeaders and maxHeaderBytes bound the headers of a request.
	maxHeaders     = 64
	maxHeaderBytes = 32 << 10
)

// Headers validates the headers of a request. Names must be tokens and unique ignoring case, values must be visible
// ASCII, and transport headers are refused. So no second request can be smuggled in. Headers returns VALIDATION_ERROR
// with the field "headers" or "headers.<name>"; errors never contain the value.
func Headers(given map[string]string) (http.Header, error) {
	h, size := http.Header{}, 0
	if len(given) > maxHeaders {
		return nil, fault.New(fault.ValidationError, "must have at most %d headers", maxHeaders).WithField("headers")
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value := strings.Trim(given[name], " \t")
		key := http.CanonicalHeaderKey(name)
		why := ""
		switch {
		case !isToken(name):
			return nil, fault.New(fault.ValidationError, "a name consists of letters, digits and -").WithField("headers")
		case !isVisible(value):
			why = "must consist of visible ASCII characters on one line"
		case isTransportHeader(key):
			why = "is set by the transport"
		case h[key] != nil:
			why = "is there twice"
		}
		if why != "" {
			return nil, fault.New(fault.ValidationError, "%s", why).WithField("headers." + name)
		}
		h.Set(key, value)
		size += len(name) + len(value)
	}
	if size > maxHeaderBytes {
		return nil, fault.New(fault.ValidationError, "must have at most %d bytes", maxHeaderBytes).WithField("headers")
	}
	return h, nil
}

// isToken reports whether a name is a token of RFC 9110.
func isToken(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~"
	return name != "" && len(name) <= 256 && strings.Trim(name, letters) == ""
}

func isVisible(value string) bool {
	return strings.IndexFunc(value, func(r rune) bool { return (r < ' ' && r != '\t') || r > '~' }) < 0
}

// isTransportHeader reports whether a header is set by the HTTP transport or a proxy, never by the caller.
func isTransportHeader(key string) bool {
	switch key {
	case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade", "Te",
		"Trailer", "Expect", "Http2-Settings":
		return true
	}
	return strings.HasPrefix(key, "Proxy-")
}

// safeAfterRedirect reports whether a header may be sent to another endpoint after a redirect.
func safeAfterRedirect(key string) bool {
	switch key {
	case "Accept", "Accept-Encoding", "Accept-Language", "Content-Type", "Range", "User-Agent":
		return true
	}
	return false
}

// Secret reports whether the name of a header suggests a credential, so that its value must not be shown.
func Secret(name string) bool {
	name = strings.ToLower(name)
	if name == "idempotency-key" {
		return false
	}
	for _, part := range []string{
		"auth", "cookie", "token", "secret", "key", "passw", "credential", "session", "signature", "jwt",
	} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

package oauth_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/oauth"
)

func TestTrustedAddresses(t *testing.T) {
	t.Parallel()
	for address, local := range map[string][2]bool{ // of a server elsewhere, of one on this machine
		"https://as.example.com/authorize?tenant=1":           {true, true},
		"https://10.0.0.5/token":                              {true, true},
		"http://as.example.com/":                              {false, false},
		"http://127.0.0.1:8080/":                              {false, true},
		"http://[::1]:8080/":                                  {false, true},
		"http://LOCALHOST/":                                   {false, true},
		"https://localhost/":                                  {false, true},
		"https://0.0.0.0/":                                    {false, true},
		"http://0.0.0.0/":                                     {false, false},
		"http://evil.localhost/":                              {false, false},
		"http://localhost.example.com/":                       {false, false},
		"http://127.0.0.1.example.com/":                       {false, false},
		"http://127.0.0.1@example.com/":                       {false, false},
		"https://user:password@as.example.com/":               {false, false},
		"https://as.example.com/#fragment":                    {false, false},
		"javascript:alert(1)":                                 {false, false},
		"javascript://as.example.com/%0aalert(1)":             {false, false},
		"data:text/html,x":                                    {false, false},
		"file:///etc/passwd":                                  {false, false},
		"-https://as.example.com":                             {false, false},
		"//as.example.com":                                    {false, false},
		"https:///path":                                       {false, false},
		"":                                                    {false, false},
		"https://as.example.com/\x1b[2J":                      {false, false},
		"https://as.example.com/" + strings.Repeat("x", 4096): {false, false},
	} {
		assert.Equal(t, local[0], oauth.Trusted(address, false) == nil, "elsewhere: %q", address)
		assert.Equal(t, local[1], oauth.Trusted(address, true) == nil, "here: %q", address)
		if err := oauth.Trusted(address, false); err != nil {
			require.True(t, fault.Has(err, fault.Forbidden), "%v", err)
			assert.Less(t, len(err.Error()), 400)
			assert.NotContains(t, err.Error(), "\x1b")
		}
	}
}

func TestResourceCoversServer(t *testing.T) {
	t.Parallel()
	const server = "https://mcp.example.com/v1/notes"
	for resource, want := range map[string]bool{
		server:                              true,
		server + "/":                        true,
		"https://mcp.example.com":           true,
		"https://mcp.example.com/":          true,
		"https://MCP.example.com:443/v1":    true,
		"https://mcp.example.com/v1/no":     false,
		"https://mcp.example.com/v1/notes2": false,
		"https://mcp.example.com/v2":        false,
		"https://example.com":               false,
		"https://mcp.example.com:8443":      false,
		"http://mcp.example.com/v1/notes":   false,
		server + "?a=b":                     false,
		server + "#a":                       false,
		"":                                  false,
	} {
		assert.Equal(t, want, oauth.Covers(resource, server), resource)
	}
	assert.Equal(t, server, oauth.Canonical("HTTPS://user:secret@MCP.example.com/v1/notes?key=secret#x"))
}

func TestWellKnownAddresses(t *testing.T) {
	t.Parallel()
	const root = "https://example.com/.well-known/"
	assert.Equal(t, []string{root + "oauth-protected-resource/mcp", root + "oauth-protected-resource"}, oauth.ResourceAddresses("https://example.com/mcp?x=y"))
	assert.Equal(t, []string{root + "oauth-protected-resource"}, oauth.ResourceAddresses("https://example.com/"))
	assert.Equal(t, []string{root + "oauth-authorization-server", root + "openid-configuration"}, oauth.IssuerAddresses("https://example.com"))
	assert.Equal(t, []string{root + "oauth-authorization-server/tenant", root + "openid-configuration/tenant", "https://example.com/tenant/.well-known/openid-configuration"},
		oauth.IssuerAddresses("https://example.com/tenant/"))
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for seconds, want := range map[string]time.Time{
		`3600`: now.Add(time.Hour), `"3600"`: now.Add(time.Hour), `1.5`: now.Add(1500 * time.Millisecond),
		``: {}, `null`: {}, `0`: {}, `-1`: {}, `"soon"`: {}, `{}`: {}, `"NaN"`: {},
		`1e300`: now.Add(87600 * time.Hour), `"Inf"`: now.Add(87600 * time.Hour),
	} {
		assert.Equal(t, want, oauth.Expiry(seconds, now), seconds)
	}
	assert.Equal(t, "invalid_grant", oauth.ErrorCode("invalid_grant"))
	assert.Equal(t, "none", oauth.ErrorCode("token access-123\x1b"))
}

func FuzzTrusted(f *testing.F) {
	f.Add("https://as.example.com/authorize", false)
	f.Add("http://127.0.0.1:1/", true)
	f.Fuzz(func(t *testing.T, address string, local bool) {
		if oauth.Trusted(address, local) != nil {
			return
		}
		lower := strings.ToLower(address)
		assert.True(t, strings.HasPrefix(lower, "https://") || local && strings.HasPrefix(lower, "http://"), "%q", address)
		assert.NotContains(t, address, "\x1b")
	})
}

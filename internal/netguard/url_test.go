package netguard_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
)

func TestEndpoint(t *testing.T) {
	t.Parallel()
	c := netguard.New(netguard.Config{})
	for raw, want := range map[string]string{
		"https://Example.COM":               "https://example.com:443",
		"http://example.com.:80/a":          "http://example.com:80",
		"HTTP://example.com:0080":           "http://example.com:80",
		"https://example.com:80":            "https://example.com:80",
		"https://bücher.example":            "https://xn--bcher-kva.example:443",
		"https://BÜCHER.example:8443":       "https://xn--bcher-kva.example:8443",
		"https://xn--bcher-kva.example":     "https://xn--bcher-kva.example:443",
		"https://8.8.8.8":                   "https://8.8.8.8:443",
		"https://[::ffff:8.8.8.8]":          "https://8.8.8.8:443",
		"https://８.8.8.8":                   "https://8.8.8.8:443",
		"https://[2606:4700:4700:0::1111]/": "https://[2606:4700:4700::1111]:443",
		"https://example.com:/":             "https://example.com:443",
	} {
		u, err := c.Parse(raw)
		require.NoError(t, err, raw)
		assert.Equal(t, want, netguard.Endpoint(u), raw)
	}
}

// Invalid URLs are refused; the error contains nothing of the URL.
func TestBadURLs(t *testing.T) {
	t.Parallel()
	c := netguard.New(netguard.Config{})
	for _, raw := range []string{
		"", "hunter2", "http://", "http:///hunter2", "ftp://hunter2.example", "http://u:hunter2@example.com", "http://hunter2@example.com",
		"http://example.com:hunter2", "http://a..hunter2", "http://-hunter2_!.example", "http://" + strings.Repeat("hunter2", 10) + ".example",
		"http://" + strings.Repeat("hunter2.", 40) + "example", "http://example.com/" + strings.Repeat("hunter2", 2000), "http://hunter2.0x1",
		"http://hunter2.08", "mailto:hunter2@example.com", "http://hunter2 .example", "http://[fe80::1%25hunter2]", "http://ex%41mple.hunter2.\u200b",
	} {
		_, err := c.Parse(raw)
		assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err), raw)
		e := fault.From(err)
		require.NotNil(t, e, raw)
		assert.NotContains(t, e.Error()+e.Hint, "hunter2")
	}
}

// A URL that Parse accepts is in normal form, and contains no private literal address.
func FuzzParse(f *testing.F) {
	for _, raw := range append(hostile("80"), public()...) {
		f.Add(raw)
	}
	c := netguard.New(netguard.Config{})
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := c.Parse(raw)
		if err != nil {
			return
		}
		again, err := c.Parse(u.String())
		require.NoError(t, err, u.String())
		assert.Equal(t, u.String(), again.String())
		assert.Nil(t, u.User)
		assert.Contains(t, []string{"http", "https"}, u.Scheme)
		assert.Equal(t, strings.ToLower(u.Host), u.Host)
		assert.False(t, strings.ContainsFunc(u.Host, func(r rune) bool { return r > '~' }))
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
			assert.True(t, addr.IsGlobalUnicast() && !addr.IsPrivate() && !addr.IsLoopback(), u.Host)
		}
	})
}

func TestIsLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "127.0.0.1": true, "127.255.0.9": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "::": false, "localhost.example.com": false, "10.0.0.1": false, "127.1": false, "0x7f000001": false,
	} {
		assert.Equal(t, want, netguard.IsLoopback(host), host)
	}
}

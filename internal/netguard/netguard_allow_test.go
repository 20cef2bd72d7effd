package netguard_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/netguard"
)

func TestAllow(t *testing.T) {
	t.Parallel()
	var c netguard.Config
	for _, entry := range []string{"10.1.2.3/8", "::1", "192.0.2.7", "Search.Internal", "localhost:8888", "[fd00::1]:80"} {
		var err error
		c, err = c.Allow(entry)
		require.NoError(t, err, entry)
	}
	for host, ports := range map[string]struct{ open, shut string }{
		"10.9.9.9": {open: "1"}, "::1": {open: "80"}, "192.0.2.7": {open: "80"}, "search.internal": {open: "443"}, "SEARCH.internal.": {open: "1"},
		"localhost": {"8888", "80"}, "fd00::1": {"80", "81"}, "fd00::2": {shut: "80"}, "11.0.0.1": {shut: "80"}, "example.com": {shut: "443"},
		"0x7f.1": {shut: "80"},
	} {
		if ports.open != "" {
			assert.True(t, c.Lists(host, ports.open), host)
		}
		if ports.shut != "" {
			assert.False(t, c.Lists(host, ports.shut), host)
		}
	}
	client := netguard.New(c)
	for url, ok := range map[string]bool{"http://10.9.9.9/": true, "http://[::1]/": true, "http://127.0.0.1/": false, "http://192.0.2.8/": false} {
		_, err := client.Parse(url)
		assert.Equal(t, ok, err == nil, url)
	}
	for _, entry := range []string{"", "10.0.0.0/40", "a b", "a:b", "a:0", "a:99999", "http://a", "fe80::1%eth0", "127.1", "*"} {
		_, err := c.Allow(entry)
		require.Error(t, err, entry)
	}
}

package policy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// reach is a call that reaches one target.
func reach(kind tools.TargetKind, name string, allow policy.Allow) *policy.Call {
	return &policy.Call{
		Spec:  &tools.Spec{Name: "HTTP_REQUEST", Effect: tools.Write, Gate: tools.InProgress, Approval: tools.ByIntent},
		State: statemachine.InProgress, Args: []byte(`{}`), Task: task, Workspace: workspace, Allow: allow,
		Intent: tools.Intent{Effect: tools.Read, Targets: []tools.Target{{Kind: kind, Name: name}}},
	}
}

// An allowed endpoint is open in every spelling, and no other endpoint is (S0-112).
func TestAllowedEndpoints(t *testing.T) {
	t.Parallel()
	p := newPolicy(t, policy.Config{})
	for _, tc := range []struct {
		allowed, name string
		want          bool
	}{
		{"http://Host:80/", "http://host:80", true},
		{"http://host", "http://host:80", true},
		{"HTTP://HOST.", "http://host:80", true},
		{"host", "http://host:80", true},
		{"host", "https://host:443", true},
		{"host:443", "https://host:443", true},
		{"https://host:0443", "https://host:443", true},
		{"https://bücher.example", "https://xn--bcher-kva.example:443", true},
		{"BÜCHER.example", "https://xn--bcher-kva.example:443", true},
		{"https://ｅxample.com", "https://example.com:443", true},
		{"https://[0:0::1]:8443", "https://[::1]:8443", true},
		{"[::1]", "http://[::1]:80", true},
		{"::1", "http://[::1]:80", true},
		{"::ffff:10.0.0.1", "http://10.0.0.1:80", true},
		{"ssh://git.example.com", "ssh://git.example.com:22", true},

		{"http://host", "https://host:443", false},
		{"https://host", "https://host:8443", false},
		{"host", "https://host:8443", false},
		{"host:443", "https://host:8443", false},
		{"https://host:80", "http://host:80", false},
		{"https://host/path", "https://host:443", false},
		{"https://host//", "https://host:443", false},
		{"https://host?x", "https://host:443", false},
		{"https://host#", "https://host:443", false},
		{"https://user@host", "https://host:443", false},
		{"https://evil@host", "https://evil:443", false},
		{"https://host:443@evil", "https://host:443", false},
		{"https://host:", "https://host:443", true},
		{"https://host:99999", "https://host:443", false},
		{"https://host:0", "https://host:443", false},
		{"https://h%6fst", "https://host:443", false},
		{"*", "https://host:443", false},
		{"*.example.com", "https://a.example.com:443", false},
		{"example.com", "https://a.example.com:443", false},
		{"", "https://host:443", false},
		{"/", "https://host:443", false},
		{"://host", "https://host:443", false},
		{"https://", "https://host:443", false},
		{" https://host", "https://host:443", false},
		{"127.1", "http://127.0.0.1:80", false},
		{"2130706433", "http://127.0.0.1:80", false},
		{"[host]", "https://host:443", false},
	} {
		ask, err := p.Decide(reach(tools.Endpoint, tc.name, policy.Allow{Endpoints: []string{tc.allowed}}))
		require.NoError(t, err)
		assert.Equal(t, tc.want, ask == nil, "%q opens %s", tc.allowed, tc.name)
	}
}

// The same for databases (S0-122).
func TestAllowedConnections(t *testing.T) {
	t.Parallel()
	p := newPolicy(t, policy.Config{})
	for _, tc := range []struct {
		allowed, name string
		want          bool
	}{
		{"postgres://db:5432/shop", "postgres://db:5432/shop", true},
		{"postgres://DB/shop", "postgres://db:5432/shop", true},
		{"postgresql://db./shop", "postgres://db:5432/shop", true},
		{"mariadb://db/shop", "mysql://db:3306/shop", true},
		{"sqlite:/root/a.db", "sqlite:/root/a.db", true},
		{"postgres://db", "postgres://db:5432/", true},

		{"postgres://db/Shop", "postgres://db:5432/shop", false},
		{"postgres://db", "postgres://db:5432/shop", false},
		{"postgres://db/", "postgres://db:5432/shop", false},
		{"postgres://db/shop?sslmode=disable", "postgres://db:5432/shop", false},
		{"postgres://db:5433/shop", "postgres://db:5432/shop", false},
		{"mysql://db/shop", "postgres://db:5432/shop", false},
		{"db/shop", "postgres://db:5432/shop", false},
		{"db", "postgres://db:5432/shop", false},
		{"sqlite:/root", "sqlite:/root/a.db", false},
		{"sqlite:/root/A.db", "sqlite:/root/a.db", false},
	} {
		ask, err := p.Decide(reach(tools.Connection, tc.name, policy.Allow{Connections: []string{tc.allowed}}))
		require.NoError(t, err)
		assert.Equal(t, tc.want, ask == nil, "%q opens %s", tc.allowed, tc.name)
	}
}

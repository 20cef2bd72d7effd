package policy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// An approval of a package, by the plan or a person, is for one version. If a plan names no version, the version that
// the project pins counts.
func TestVersionsOfPackages(t *testing.T) {
	t.Parallel()
	pkg := func(version, pinned string) tools.Target {
		return tools.Target{Kind: tools.Package, Name: "npm:demo", Version: version, Pinned: pinned}
	}
	for _, tc := range []struct {
		target  tools.Target
		allow   string
		scope   string
		asks    string
		granted string
	}{
		{target: pkg("2.0.0", "^1.0.0"), asks: "package npm:demo@2.0.0 (the project pins ^1.0.0)", granted: "package npm:demo@2.0.0"},
		{target: pkg("2.0.0", "^1.0.0"), allow: "npm:demo", asks: "package npm:demo@2.0.0 (the project pins ^1.0.0)", granted: "package npm:demo@2.0.0"},
		{target: pkg("2.0.0", "^1.0.0"), allow: "npm:demo@2.0.0"},
		{target: pkg("2.0.0", "^1.0.0"), scope: "package npm:demo", asks: "npm:demo@2.0.0", granted: "package npm:demo@2.0.0"},
		{target: pkg("2.0.0", "^1.0.0"), scope: "package npm:demo@2.0.0"},
		{target: pkg("2.0.0", ""), allow: "npm:demo"},
		{target: pkg("https://evil.example/x", "the registry"), allow: "npm:demo", asks: "npm:demo@https://evil.example/x (the project pins the registry)", granted: "package npm:demo@https://evil.example/x"},
		{target: pkg("https://evil.example/x", "the registry"), scope: "package npm:demo", asks: "npm:demo@https://evil.example/x", granted: "package npm:demo@https://evil.example/x"},
		{target: pkg("2.0.0", ""), allow: "npm:demo@1.0.0", asks: "npm:demo@2.0.0", granted: "package npm:demo@2.0.0"},
		{target: pkg("", ""), asks: "package npm:demo (its latest version)", granted: "package npm:demo"},
		{target: pkg("", ""), scope: "package npm:demo@2.0.0", asks: "npm:demo", granted: "package npm:demo"},
	} {
		c := policy.Call{
			Spec: &tools.Spec{Name: "PACKAGE_INSTALL", Effect: tools.Idempotent, Gate: tools.InProgress, Approval: tools.ByIntent}, State: statemachine.InProgress,
			Intent: tools.Intent{Targets: []tools.Target{tc.target}},
		}
		if tc.allow != "" {
			c.Allow.Packages = []string{tc.allow}
		}
		if tc.scope != "" {
			c.Scopes = []string{tc.scope}
		}
		p, err := policy.New(policy.Config{Root: t.TempDir()})
		require.NoError(t, err)
		ask, err := p.Decide(&c)
		require.NoError(t, err)
		if tc.asks == "" {
			assert.Nil(t, ask, "%+v", tc)
			continue
		}
		require.NotNil(t, ask, "%+v", tc)
		assert.Contains(t, ask.Reason, tc.asks)
		assert.Equal(t, []string{tc.granted}, ask.Scopes)
	}
}

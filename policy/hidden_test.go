package policy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/tools"
)

func veilPolicy(t *testing.T, rules string) (*policy.Policy, error) {
	t.Helper()
	parsed, err := policy.ParseRules("policy.yaml", []byte("version: 1\nrules:\n"+rules))
	require.NoError(t, err)
	return policy.New(policy.Config{Root: "/root", Rules: parsed})
}

func TestVeil(t *testing.T) {
	t.Parallel()
	p, err := veilPolicy(t, `
  - {name: a, action: deny, paths: ["secret/**", "*.pem", "src/*/gen/**", "/etc/orch/**", "/var/*/log"]}
  - {name: b, action: ask, paths: ["asked/**", "*.asked"]}
  - {name: c, action: allow, paths: ["allowed/**"]}
  - {name: d, action: deny, agents: ["agent:x"], paths: ["x/**"]}
  - {name: e, action: deny, tools: [FILE_READ], paths: ["read/**"]}
  - {name: f, action: deny, effects: [destructive], paths: ["kept/**"]}
`)
	require.NoError(t, err)
	bash := policy.Call{Spec: &tools.Spec{Name: "BASH_EXECUTE", Effect: tools.Write}, Agent: "agent:y"}
	veil := p.HiddenPaths(&bash)
	for path, hidden := range map[string]bool{
		"/root": false, "/root/secret": true, "/root/secret/a/b": true, "/root/secrets": false, "/root/a.pem": true, "/root/d/x.pem/y": true, "/other/a.pem": false,
		"/root/src/a/gen/z": true, "/root/src/gen": false, "/etc/orch/x": true, "/etc": false, "/var/a/log": true, "/root/asked/x": true, "/root/z/q.asked": true,
		"/root/allowed/x": false, "/root/x/y": false, "/root/read/y": false, "/root/kept/y": false,
	} {
		assert.Equal(t, hidden, veil.Hides(path), path)
	}
	assert.Equal(t, []string{"/root/secret", "/etc/orch", "/root/asked"}, veil.Paths())
	assert.Equal(t, []string{"/var/*/log"}, veil.OutsidePatterns())

	bash.Agent = "agent:x"
	assert.True(t, p.HiddenPaths(&bash).Hides("/root/x/y"))
	bash.Agent = ""
	assert.True(t, p.HiddenPaths(&bash).Hides("/root/x/y"), "it might be anybody")
	bash.Spec.Effect = tools.Destructive
	assert.True(t, p.HiddenPaths(&bash).Hides("/root/kept/y"))
	reads := policy.Call{Spec: &tools.Spec{Name: "FILE_READ", Effect: tools.Read}, Paths: map[string]string{"path": "/root/asked/a"}}
	assert.True(t, p.HiddenPaths(&reads).Hides("/root/read/y"))
	assert.False(t, p.HiddenPaths(&reads).Hides("/root/asked/a"), "the call names such a path, so somebody was asked")
	assert.True(t, p.HiddenPaths(&reads).Hides("/root/b.asked"), "which is another one")
	err = p.CheckDescendant(&bash, "path", "/root/dir/a.pem")
	assert.Equal(t, fault.Forbidden, fault.CodeOf(err))

	none, err := veilPolicy(t, "  - {name: a, action: deny, tools: [FILE_READ]}\n")
	require.NoError(t, err)
	assert.True(t, none.HiddenPaths(&bash).Empty())
}

// Patterns that cannot be hidden from a program make the policy file invalid.
func TestPatternsOutsideOfTheRootAreBounded(t *testing.T) {
	t.Parallel()
	_, err := veilPolicy(t, "  - {name: far, action: deny, paths: [\"/etc/**/x\"]}\n")
	assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
	assert.Equal(t, "paths", fault.From(err).Field)
	for _, pattern := range []string{"/etc/**", "/etc/*/x", "/root/**/x", "/r*/**/x"} {
		_, err := veilPolicy(t, "  - {name: near, action: deny, paths: [\""+pattern+"\"]}\n")
		assert.NoError(t, err, pattern)
	}
}

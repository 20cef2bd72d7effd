package policy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/policy"
)

func TestAllowSecrets(t *testing.T) {
	t.Parallel()
	p, err := policy.New(policy.Config{Root: "/r", AllowSecrets: []string{"EXAMPLE$", `^\.env\.example$`}})
	require.NoError(t, err)
	_, changed := p.Redact([]byte("AKIAIOSFODNN7EXAMPLE"))
	assert.False(t, changed)
	_, changed = p.Redact([]byte("AKIAIOSFODNN7EXAMPLF"))
	assert.True(t, changed)
	assert.False(t, p.IsSecretFile("/r/.env.example"))
	assert.True(t, p.IsSecretFile("/r/.env.local"))
}

package worker_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/policy"
)

func newPolicy(tb testing.TB, root *pathguard.Root) *policy.Policy {
	tb.Helper()
	p, err := policy.New(policy.Config{Root: root.Name()})
	require.NoError(tb, err)
	return p
}

package fault_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
)

func TestRewrite(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	e := fault.Wrap(fault.NotFound, cause, "a message").WithField("a.field").WithHint("a hint")
	got := e.Rewrite(strings.ToUpper)
	assert.Equal(t, []string{"A MESSAGE", "A.FIELD", "A HINT", ""}, []string{got.Message, got.Field, got.Hint, got.Reason})
	assert.Equal(t, fault.NotFound, got.Code)
	require.ErrorIs(t, got, cause)
	assert.Equal(t, "a message", e.Message, "the error itself stays")
}

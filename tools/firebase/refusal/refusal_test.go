package refusal_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// Each name of the S3 rules has the corresponding code of the registry (M-4).
func TestCodes(t *testing.T) {
	t.Parallel()
	for reason, number := range map[string]int{
		refusal.PermissionDenied:  -32101,
		refusal.NotFound:          -32200,
		refusal.Conflict:          -32201,
		refusal.ValidationError:   -32300,
		refusal.SizeLimitExceeded: -32300,
		refusal.InvalidPath:       -32302,
		refusal.InvalidDataType:   -32302,
		refusal.QuotaExceeded:     -32401,
		refusal.ConnectionError:   -32500,
		"NO_SUCH_REASON":          -32603,
	} {
		err := refusal.New(reason, "it cannot be: %w", io.EOF)
		assert.Equal(t, number, err.Code.RPC(), reason)
		assert.Equal(t, reason, err.Reason)
		assert.Equal(t, "it cannot be: EOF", err.Message)
		require.ErrorIs(t, err, io.EOF)
		assert.True(t, fault.Has(err, refusal.Code(reason)))
	}
}

func TestKindOf(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]any{
		"null": nil, "a boolean": true, "a number": 1.0, "a string": "", "an array": []any{}, "an object": map[string]any{},
		"value of the Go type int": 1,
	} {
		assert.Equal(t, want, refusal.KindOf(value))
	}
}

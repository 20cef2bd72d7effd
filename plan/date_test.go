package plan

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Times are formatted with a layout, and invalid times are rejected.
func TestDate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []any
		want any
	}{
		{[]any{"2026-11-22T23:30:00Z", "2006-01-02"}, "2026-11-22"},
		{[]any{"2026-11-22T23:30:00Z", "2006-01-02", "Europe/Zurich"}, "2026-11-23"},
		{[]any{"2026-11-22T23:30:00.5+02:00", "15:04", "UTC"}, "21:30"},
		{[]any{"2026-11-22", "Mon"}, "Sun"},
	} {
		got, err := date(tc.args...)
		require.NoError(t, err)
		assert.Equal(t, tc.want, got, tc.args)
	}
	for _, args := range [][]any{{"soon", "2006"}, {7, "2006"}, {"2026-11-22", 7}, {"2026-11-22", "2006", "Nowhere/Here"}, {"2026-11-22", "2006", "Local"}, {"2026-11-22", "2006", ""}, {}} {
		_, err := date(args...)
		assert.Error(t, err, args)
	}
}

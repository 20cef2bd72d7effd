package unseen_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/internal/unseen"
)

func TestIn(t *testing.T) {
	t.Parallel()
	for _, seen := range []string{
		"", "plain\n\ttext~", "naïve", "nai\u0308ve", "❤\ufe0f\u200d🔥", "1\ufe0f\u20e3", "👩🏽\u200d🚀", "‼\ufe0f", "क\u094d\u200dष", "字", "\u00a0",
		strings.Repeat("a"+strings.Repeat("\u0301", 8), 3), "\ufffd", "\xff",
	} {
		assert.False(t, unseen.In(seen), "%q", seen)
	}
	for _, hidden := range []string{
		"\x00", "\x1b[1m", "\x7f", "\u0085", "\u200b", "\u200c", "\u202e", "\u2066", "\u2028", "\u2029", "\ufeff", "\u00ad", "\ue000",
		"\U000e0041", "\U000e0002", "\U000e0100", "\ufe00", "\u034f", "\u115f", "\u1160", "\u3164", "\uffa0", "\u17b4", "\u2800", "\ufff0", "\ufffe",
		"\u200d", "a\u200db", "字\u200d", "🔥\u200d\u200d🔥", "\ufe0f", "ok\ufe0f", "❤\ufe0f\ufe0f", "🔥\u200d\ufe0f",
		"a" + strings.Repeat("\u0301", 9), "a" + strings.Repeat("\u20dd", 9),
	} {
		assert.True(t, unseen.In(hidden), "%q", hidden)
		assert.True(t, unseen.In("🔥 then "+hidden), "%q", hidden)
	}
}

package screen_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/cmd/orch/screen"
)

func TestEscape(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain text":     "plain text",
		"Grüße, 世界 🙂":    "Grüße, 世界 🙂",
		"a\nb\tc\r":      `a\nb\tc\r`,
		"\x1b[2Jgone":    `\x1b[2Jgone`,
		"\u009b31m":      `\x9b31m`,
		"a\u202eb":       `a\u202eb`,
		"a\u2028b":       `a\u2028b`,
		"\xff\xfe":       `\xff\xfe`,
		"real \ufffd!":   "real \ufffd!",
		"bell\a\x7f":     `bell\x07\x7f`,
		"a\u200bb\ufeff": `a\u200bb\ufeff`,
		"a\U000e0041":    `a\U000e0041`,
		"a\U000e0100":    `a\U000e0100`,
		"👩\u200d👧\ufe0f": "👩\u200d👧\ufe0f",
	} {
		assert.Equal(t, want, screen.Escape(in))
	}
	assert.Equal(t, "a\n\tb\\x1b", screen.EscapeLines("a\n\tb\x1b"))
}

func FuzzEscape(f *testing.F) {
	f.Add("\x1b]0;title\a")
	f.Add("a\u202eb\xff")
	f.Fuzz(func(t *testing.T, s string) {
		safe := screen.Escape(s)
		require.False(t, strings.ContainsFunc(safe, unicode.IsControl))
		data, err := json.Marshal(s)
		require.NoError(t, err)
		var before, after any
		require.NoError(t, json.Unmarshal(data, &before))
		require.NoError(t, json.Unmarshal(screen.EscapeJSON(data), &after))
		require.Equal(t, before, after)
	})
}

func TestEscapeJSONKeepsTheValue(t *testing.T) {
	t.Parallel()
	in := []byte("{\n\t\"a\": \"x\u009by\u202e\U000e0041\"\n}")
	out := screen.EscapeJSON(in)
	assert.NotContains(t, string(out), "\u009b")
	assert.NotContains(t, string(out), "\U000e0041")
	assert.JSONEq(t, string(in), string(out))
}

func TestClip(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "abc", screen.Clip("abc", 3))
	assert.Equal(t, "äb…", screen.Clip("äbcd", 3))
	assert.Equal(t, "abcd", screen.Clip("abcd", 0))
}

func TestTable(t *testing.T) {
	t.Parallel()
	var table screen.Table
	table.Row("ID", "NAME", "STATE")
	table.Row("1", "größer\x1b", "DONE")
	table.Row("22", "", "")
	var b strings.Builder
	require.NoError(t, table.Write(&b, 0))
	assert.Equal(t, "ID  NAME        STATE\n1   größer\\x1b  DONE\n22\n", b.String())
	b.Reset()
	require.NoError(t, table.Write(&b, 6))
	assert.Equal(t, "ID  N…\n1   g…\n22\n", b.String())
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"12µs": 12 * time.Microsecond, "840ms": 840 * time.Millisecond, "3.2s": 3249 * time.Millisecond,
		"59.9s": 59_990 * time.Millisecond, "4m05s": 245 * time.Second, "3h07m": 3*time.Hour + 7*time.Minute,
		"2d04h": 52 * time.Hour,
	} {
		assert.Equal(t, want, screen.Duration(d))
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for want, d := range map[string]time.Duration{"now": 0, "5s": 5 * time.Second, "12m": 12 * time.Minute, "47h": 47 * time.Hour, "9d": 9 * 24 * time.Hour} {
		assert.Equal(t, want, screen.Age(now, now.Add(-d)))
	}
	assert.Equal(t, "-", screen.Age(now, time.Time{}))
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 12: "12", 123: "123", 1234: "1,234", 123456: "123,456", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		assert.Equal(t, want, screen.Number(n))
	}
	assert.Equal(t, "1 task", screen.Plural(1, "task"))
	assert.Equal(t, "2,000 tasks", screen.Plural(2000, "task"))
}

func TestObject(t *testing.T) {
	t.Parallel()
	raw := json.RawMessage(`{"z":"one","a":{"k": [1, 2]},"text":"l1\nl2\n","n":12345678901234567890,"none":""}`)
	assert.Equal(t, []string{"z: one", `a: {"k":[1,2]}`, "text:", "  l1", "  l2", "n: 12345678901234567890", "none:"}, screen.Object(raw))
	assert.Equal(t, []string{"[1,2]"}, screen.Object(json.RawMessage(`[1, 2]`)))
	assert.Equal(t, []string{"a", "b"}, screen.Object(json.RawMessage(`"a\nb"`)))
}

func TestFrame(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	f := screen.NewFrame(&b, func() (int, int) { return 10, 4 })
	require.NoError(t, f.Draw([]string{"one", "a line that is too long"}))
	assert.Equal(t, "one\x1b[K\na line tha\x1b[K\n\x1b[J", b.String())
	b.Reset()
	require.NoError(t, f.Draw([]string{"1", "2", "3", "4", "5"}))
	assert.Equal(t, "\x1b[2A\r… 3 lines \x1b[K\n4\x1b[K\n5\x1b[K\n\x1b[J", b.String())
	b.Reset()
	require.NoError(t, f.Last([]string{"1", "2", "3", "4", "5"}))
	assert.Equal(t, "\x1b[3A\r1\x1b[K\n2\x1b[K\n3\x1b[K\n4\x1b[K\n5\x1b[K\n\x1b[J", b.String())
}

func TestStyledTextIsClippedByWhatIsSeen(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	f := screen.NewFrame(&b, func() (int, int) { return 4, 24 })
	require.NoError(t, f.Draw([]string{screen.Style{Color: true}.Good("abcdef")}))
	assert.Equal(t, "\x1b[32mabcd\x1b[0m\x1b[K\n\x1b[J", b.String())
	assert.Equal(t, "x", screen.Style{}.Bad("x"))
}

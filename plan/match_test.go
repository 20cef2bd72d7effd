package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A regular expression is bounded by the work that its size and the length of its text may make.
func TestMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, pattern any
		want          any
	}{
		{"abc", "^a.c$", true},
		{"abc", "x", false},
		{nil, "x", false},
		{"x", nil, false},
		{"abc", "(", "missing closing )"},
		{1, "x", "matches takes texts"},
		{"abc", true, "matches takes texts"},
		{"abc", strings.Repeat("a", maxPattern+1), errRegexp.Error()},
		{strings.Repeat("a", 1_000_000), "(a{0,990}){0,1}b", errRegexp.Error()},
		{strings.Repeat("a", 1_000_000), "^a+$", true},
	} {
		got, err := matches(c.text, c.pattern)
		if text, wrong := c.want.(string); wrong {
			require.ErrorContains(t, err, text)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, c.want, got)
	}
}

// A constant pattern is compiled once; a constant that is none is a problem of the plan, as before.
func TestMatchesInExpressions(t *testing.T) {
	t.Parallel()
	rules, err := CompileHook(`hook.body.s matches "^a+$" and not (hook.body.s matches hook.body.p)`, nil)
	require.NoError(t, err)
	chosen, err := rules.Chooses(HookInfo{Body: []byte(`{"s":"aaa","p":"b"}`)})
	require.NoError(t, err)
	assert.True(t, chosen)
	began := time.Now()
	_, err = rules.Chooses(HookInfo{Body: []byte(`{"s":"` + strings.Repeat("a", 900_000) + `","p":"(a{0,990}){0,1}b"}`)})
	require.ErrorContains(t, err, errRegexp.Error())
	assert.Less(t, time.Since(began), 5*time.Second)
	_, err = CompileHook(`hook.body.s matches "("`, nil)
	require.Error(t, err)
}

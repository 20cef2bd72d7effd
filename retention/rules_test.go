package retention_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/retention"
)

const day = 24 * time.Hour

func TestTheFirstRuleThatMatchesCounts(t *testing.T) {
	t.Parallel()
	rules := retention.Rules{
		Default: retention.Keep{Done: 365 * day, Failed: 730 * day, Workspaces: 30 * day, FailedWorkspaces: 90 * day},
		Rules: []retention.Rule{
			{Labels: map[string]string{"env": "prod", "team": "shop"}, Done: new(time.Duration(0))},
			{Labels: map[string]string{"env": "prod"}, Failed: new(5 * day), Workspaces: new(day)},
			{Name: "nightly-*", Done: new(7 * day)},
		},
	}
	for name, c := range map[string]struct {
		task   string
		labels map[string]string
		rule   int
		want   retention.Keep
	}{
		"both labels":      {"x", map[string]string{"env": "prod", "team": "shop"}, 1, retention.Keep{Failed: 730 * day, Workspaces: 30 * day, FailedWorkspaces: 90 * day}},
		"one label":        {"nightly-1", map[string]string{"env": "prod"}, 2, retention.Keep{Done: 365 * day, Failed: 5 * day, Workspaces: day, FailedWorkspaces: 90 * day}},
		"name":             {"nightly-1", nil, 3, retention.Keep{Done: 7 * day, Failed: 730 * day, Workspaces: 30 * day, FailedWorkspaces: 90 * day}},
		"no rule":          {"nightly", map[string]string{"env": "test"}, 0, rules.Default},
		"another label":    {"x", map[string]string{"team": "shop"}, 0, rules.Default},
		"without anything": {"", nil, 0, rules.Default},
	} {
		keep, rule := rules.For(c.task, c.labels)
		assert.Equal(t, c.rule, rule, name)
		assert.Equal(t, c.want, keep, name)
	}
	assert.Equal(t, retention.Keep{Done: 7 * day, Failed: 5 * day, Workspaces: day, FailedWorkspaces: 90 * day}, rules.Shortest(), "forever is the longest time")
	assert.Zero(t, retention.Rules{}.Shortest())
}

func TestParseTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"0": 0, "0d": 0, "30d": 30 * day, "1d12h": 36 * time.Hour, "90m": 90 * time.Minute, "36500d": 36500 * day} {
		got, err := retention.ParseTime(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "d", "30", "-5d", "-1h", "1y", "5d-6d", "36501d", "36500d1ns", "99999d", "876001h", "soon", "1d 2h"} {
		_, err := retention.ParseTime(text)
		require.Error(t, err, text)
	}
}

func FuzzParseTime(f *testing.F) {
	for _, text := range []string{"30d", "1d12h", "0", "36500d", "1.5h"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := retention.ParseTime(text)
		if err != nil || d == 0 {
			return
		}
		require.LessOrEqual(t, d, 36500*day)
		again, err := retention.ParseTime(retention.TimeText(d))
		require.NoError(t, err)
		require.Equal(t, d, again)
	})
}

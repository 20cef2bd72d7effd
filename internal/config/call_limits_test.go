package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
)

func TestCallLimits(t *testing.T) {
	t.Parallel()
	c, err := limitsOf(t, `[{tool: "github.*", rate: 30/1m, by: identity}, {queue: deploy, running: 1}, {rate: 5 / s, running: 4}, {"identity": "agent:*", "rate": "1/24h"}]`)
	require.NoError(t, err)
	assert.Equal(t, []config.CallLimit{
		{Tool: "github.*", Starts: 30, Window: time.Minute, By: "identity"},
		{Queue: "deploy", Running: 1},
		{Starts: 5, Window: time.Second, Running: 4},
		{Identity: "agent:*", Starts: 1, Window: 24 * time.Hour},
	}, c.CallLimits)
	c, err = limitsOf(t, "")
	require.NoError(t, err)
	assert.Empty(t, c.CallLimits)
}

func TestWrongCallLimits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`[{tool: X}]`:                                   "limit 1 limits nothing",
		`[{rate: 30}]`:                                  `limit 1: "30" is no rate`,
		`[{rate: 30/}]`:                                 `limit 1: "30/" is no rate`,
		`[{rate: x/1m}]`:                                `limit 1: "x/1m" is no rate`,
		`[{rate: 1/1m}, {rate: 30/1x}]`:                 `limit 2: "30/1x" is no rate`,
		`[{rate: 0/1m}]`:                                "limit 1: a rate of 0 calls; it may be 1 to 10000",
		`[{rate: 10001/1m}]`:                            "limit 1: a rate of 10001 calls; it may be 1 to 10000",
		`[{rate: 1/500ms}]`:                             "limit 1: a rate for 500ms; it may be 1s to 744h0m0s",
		`[{rate: 1/-1m}]`:                               `limit 1: "1/-1m" is no rate`,
		`[{rate: 1/1000h}]`:                             "limit 1: a rate for 1000h0m0s; it may be 1s to 744h0m0s",
		`[{running: 0}]`:                                "limit 1: running is 0, and may be 1 to 1000000",
		`[{running: -1}]`:                               "limit 1: running is -1, and may be 1 to 1000000",
		`[{running: 1, by: tool}]`:                      `limit 1: by is "tool", and may be identity or key`,
		`[{tool: "[", running: 1}]`:                     `limit 1: tool is no pattern: "["`,
		`[{identity: "a[", running: 1}]`:                `limit 1: identity is no pattern: "a["`,
		`[{tools: X, running: 1}]`:                      "the limits cannot be read: ",
		`{tool: X, running: 1}`:                         "the limits cannot be read: ",
		`[{running: 1e99}]`:                             "the limits cannot be read: ",
		"[" + strings.Repeat("{running: 1},", 65) + "]": "there are 65 limits, more than 64",
	} {
		_, err := limitsOf(t, text)
		require.Error(t, err, text)
		assert.Equal(t, fault.ValidationError, fault.CodeOf(err), text)
		assert.Contains(t, err.Error(), want, text)
	}
}

func limitsOf(t *testing.T, text string) (config.Config, error) {
	t.Helper()
	return config.Load(config.Sources{Getenv: env(map[string]string{"ORCH_CALL_LIMITS": text}), Dir: t.TempDir(), Home: t.TempDir()})
}

// FuzzCallLimits checks that any text is refused with a code, or gives limits within their bounds.
func FuzzCallLimits(f *testing.F) {
	for _, text := range []string{"", "[]", `[{tool: X, rate: 30/1m, running: 2, by: identity}]`, `[{rate: 1/s}]`, "[{", "- &a [*a]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := limitsOf(t, text)
		if err != nil {
			assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
			return
		}
		for _, l := range c.CallLimits {
			assert.True(t, l.Starts == 0 && l.Running > 0 || l.Starts > 0 && l.Window >= time.Second, "%+v", l)
		}
	})
}

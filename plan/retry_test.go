package plan_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/plan"
)

func TestRetryAllows(t *testing.T) {
	t.Parallel()
	three := &plan.Retry{MaxAttempts: 3}
	only := &plan.Retry{MaxAttempts: 3, On: []string{plan.ClassTimeout, plan.ClassDenied}}
	not := &plan.Retry{MaxAttempts: 3, NotOn: []string{plan.ClassToolError}}
	for _, tc := range []struct {
		retry   *plan.Retry
		class   string
		attempt int
		effect  plan.Effect
		want    bool
	}{
		{nil, plan.ClassToolError, 1, plan.EffectRead, false},
		{nil, plan.ClassTransport, 1, plan.EffectRead, true},
		{nil, plan.ClassTimeout, 2, plan.EffectIdempotent, true},
		{nil, plan.ClassWorkerLost, 3, plan.EffectRead, false},
		{nil, plan.ClassWorkerLost, 1, plan.EffectWrite, false},
		{nil, plan.ClassTransport, 1, "", false},
		{nil, plan.ClassRateLimited, 2, plan.EffectDestructive, true},
		{three, plan.ClassToolError, 2, plan.EffectWrite, true},
		{three, plan.ClassToolError, 3, plan.EffectWrite, false},
		{three, plan.ClassTimeout, 1, plan.EffectWrite, false},
		{three, plan.ClassHeartbeatLost, 1, plan.EffectIdempotent, true},
		{three, plan.ClassDenied, 1, plan.EffectRead, false},
		{three, plan.ClassInvalidArgs, 1, plan.EffectRead, false},
		{only, plan.ClassTimeout, 1, plan.EffectRead, true},
		{only, plan.ClassTimeout, 1, plan.EffectDestructive, false},
		{only, plan.ClassDenied, 1, plan.EffectWrite, true},
		{only, plan.ClassToolError, 1, plan.EffectRead, false},
		{not, plan.ClassToolError, 1, plan.EffectRead, false},
		{not, plan.ClassTransport, 1, plan.EffectRead, true},
	} {
		assert.Equal(t, tc.want, tc.retry.Allows(tc.class, tc.attempt, tc.effect), "%+v", tc)
	}
}

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	r := &plan.Retry{Initial: plan.Duration(time.Second), Max: plan.Duration(10 * time.Second), Factor: 3, Jitter: 0.5}
	assert.Equal(t, time.Second, r.Delay(1, 0))
	assert.Equal(t, 3*time.Second, r.Delay(2, 0))
	assert.Equal(t, 10*time.Second, r.Delay(4, 0))
	assert.Equal(t, 10*time.Second, r.Delay(1<<30, 0))
	assert.Equal(t, 750*time.Millisecond, r.Delay(1, 0.5))
	var absent *plan.Retry
	assert.Equal(t, 2*time.Second, absent.Delay(2, 0))
	assert.Equal(t, 900*time.Millisecond, absent.Delay(1, 0.5))
}

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1d": 24 * time.Hour, "1.5d": 36 * time.Hour, "2d30m": 48*time.Hour + 30*time.Minute, "3650d": 87600 * time.Hour,
	} {
		d, err := plan.ParseDuration(s)
		require.NoError(t, err, s)
		assert.Equal(t, want, d.Std())
		again, err := plan.ParseDuration(d.String())
		require.NoError(t, err)
		assert.Equal(t, d, again)
	}
	for _, s := range []string{"", "0s", "-1s", "5", "d", "1d-1h", "-1d", "3651d", "1e99d", "NaNd", "9999999h", "x"} {
		_, err := plan.ParseDuration(s)
		require.Error(t, err, s)
	}
}

package plan_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

func TestRetryAllows(t *testing.T) {
	t.Parallel()
	three := &plan.Retry{MaxAttempts: 3}
	only := &plan.Retry{MaxAttempts: 3, On: []string{fault.ClassTimeout, fault.ClassDenied}}
	not := &plan.Retry{MaxAttempts: 3, NotOn: []string{fault.ClassToolError}}
	for _, tc := range []struct {
		retry   *plan.Retry
		class   string
		attempt int
		effect  plan.Effect
		want    bool
	}{
		{nil, fault.ClassToolError, 1, plan.EffectRead, false},
		{nil, fault.ClassTransport, 1, plan.EffectRead, true},
		{nil, fault.ClassTimeout, 1, plan.EffectRead, false},
		{nil, fault.ClassTimeout, 1, plan.EffectIdempotent, false},
		{nil, fault.ClassHeartbeatLost, 2, plan.EffectIdempotent, true},
		{nil, fault.ClassWorkerLost, 3, plan.EffectRead, false},
		{nil, fault.ClassWorkerLost, 1, plan.EffectWrite, false},
		{nil, fault.ClassTransport, 1, "", false},
		{nil, fault.ClassRateLimited, 2, plan.EffectDestructive, true},
		{three, fault.ClassToolError, 2, plan.EffectWrite, true},
		{three, fault.ClassToolError, 3, plan.EffectWrite, false},
		{three, fault.ClassTimeout, 1, plan.EffectWrite, false},
		{three, fault.ClassTimeout, 2, plan.EffectRead, true},
		{three, fault.ClassHeartbeatLost, 1, plan.EffectIdempotent, true},
		{three, fault.ClassDenied, 1, plan.EffectRead, false},
		{three, fault.ClassInvalidArgs, 1, plan.EffectRead, false},
		{only, fault.ClassTimeout, 1, plan.EffectRead, true},
		{only, fault.ClassTimeout, 1, plan.EffectDestructive, false},
		{only, fault.ClassDenied, 1, plan.EffectWrite, true},
		{only, fault.ClassToolError, 1, plan.EffectRead, false},
		{not, fault.ClassToolError, 1, plan.EffectRead, false},
		{not, fault.ClassTransport, 1, plan.EffectRead, true},
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
	for s, why := range map[string]string{
		"": "is not a duration", "5": "is not a duration", "d": "is not a duration", "1d-1h": "is not a duration", "NaNd": "is not a duration",
		"1e99d": "is not a duration", "x": "is not a duration", "1h2d": "is not a duration", "1d1d": "is not a duration", "--1s": "is not a duration",
		"0s": "not between 1ns and 3650d", "0.1ns": "not between 1ns and 3650d", "3650d1s": "longer than 3650d",
		"-1s": "is negative", "-1d": "is negative", "-1d2h": "is negative", "-999999999999h": "is negative",
		"3651d": "longer than 3650d", "9999999h": "longer than 3650d", "999999999999999999h": "longer than 3650d", "1d9999999h": "longer than 3650d",
	} {
		_, err := plan.ParseDuration(s)
		require.ErrorContains(t, err, why, "%q", s)
	}
}

package uptime_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/internal/uptime"
)

func TestNow(t *testing.T) {
	t.Parallel()
	began, first := time.Now(), uptime.Now()
	assert.Positive(t, first)
	<-time.After(10 * time.Millisecond)
	passed := uptime.Now() - first
	assert.GreaterOrEqual(t, passed, 10*time.Millisecond)
	assert.LessOrEqual(t, passed, time.Since(began)+time.Millisecond)
}

func TestSteady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, slept := time.Now(), time.Duration(0)
		wall := began
		clock := uptime.Steady(func() time.Time { return wall }, func() time.Duration { return time.Since(began) + slept })
		<-time.After(time.Minute)
		assert.Equal(t, began.Add(time.Minute), clock())
		wall = began.Add(-time.Hour)
		assert.Equal(t, began.Add(time.Minute), clock(), "somebody sets the clock of the machine")
		slept = 8 * time.Hour
		<-time.After(time.Second)
		assert.Equal(t, began.Add(time.Minute+time.Second+slept), clock(), "the machine slept")
	})
}

func BenchmarkSteady(b *testing.B) {
	clock := uptime.Steady(time.Now, uptime.Now)
	for b.Loop() {
		clock()
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		uptime.Now()
	}
}

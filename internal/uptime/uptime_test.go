package uptime_test

import (
	"testing"
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

package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

// A call beyond the limit of its task waits for the minute of the task. One that a service refuses waits as long as the service says.
func TestRateOfTaskAndOfService(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		recent int
		reason string
		waits  time.Duration
	}{
		"the task":    {10, policy.ReasonRate, 40 * time.Second},
		"the service": {9, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := spec("BUSY", tools.Read)
				s.OpenWorld = true
				b := newBench(t, worker.Config{}, tools.Define(s, func(context.Context, *tools.Env, none) (none, error) {
					return none{}, fault.New(fault.RateLimited, "slow down").WithRetryAt(time.Now().Add(time.Second))
				}))
				defer b.run(t)()
				c := call("BUSY", "{}")
				c.Recent, c.RetryAfter = test.recent, 40*time.Second
				b.owner.calls <- []work.Call{c}
				o := <-b.owner.outcomes
				require.NotNil(t, o.Error)
				assert.Equal(t, fault.RateLimited, o.Error.Code)
				assert.Equal(t, test.reason, o.Error.Reason)
				assert.Equal(t, test.waits, o.RetryAfter)
			})
		})
	}
}

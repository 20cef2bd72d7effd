package orchestrator_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// What happens to the call of a lost worker depends on the effect of this particular call: a GET or a SELECT is
// repeated, although the tool could write. The effect that the plan declares takes precedence. A tool that does not determine
// effects per call is believed if its call does more than was known when it became ready, because an external tool may have
// changed.
func TestLostWorkerByIntent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		step, effect string
		doubt        bool
	}{
		{"tool: EITHER", "read", false},
		{"tool: EITHER", "idempotent", false},
		{"tool: EITHER", "write", true},
		{"tool: EITHER", "destructive", true},
		{"tool: EITHER", "", true},
		{"tool: EITHER", "harmless", true},
		{"tool: EITHER, effect: write", "read", true},
		{"tool: EITHER, effect: idempotent", "write", false},
		{"tool: WRITE", "read", true},
		{"tool: READ", "read", false},
		{"tool: READ", "idempotent", false},
		{"tool: READ", "write", true},
		{"tool: IDEM", "destructive", true},
		{"tool: READ, effect: read", "write", false},
	} {
		for how, begin := range map[string]func(n *node, c work.Call) error{
			"heartbeat": func(n *node, c work.Call) error {
				_, err := n.Heartbeat(context.Background(), work.Heartbeat{Worker: "w", Calls: []work.CallHeartbeat{{Ref: c.Ref, Tool: c.Tool, Effect: tc.effect}}})
				return err
			},
			"start": func(n *node, c work.Call) error {
				return n.Start(context.Background(), work.Started{Ref: c.Ref, Worker: "w", Effect: tc.effect})
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				n := start(t, memlog.New(memlog.Config{}), short)
				id := n.submit("orch: v1\nsteps:\n  - {id: a, " + tc.step + "}\n")
				require.NoError(t, begin(n, n.take("w")))
				<-time.After(3 * time.Second)
				if tc.doubt {
					assert.Equal(t, statemachine.StepInDoubt, n.step(id, "a").State, "%s %+v", how, tc)
					return
				}
				again := n.take("x")
				assert.Equal(t, 2, again.Attempt, "%s %+v", how, tc)
				require.NoError(t, n.report("x", again, `{}`))
				assert.Equal(t, statemachine.Done, n.result(id).State)
			})
		}
	}
}

// A GET that timed out is retried as the rule says, a POST is not.
func TestRetryByIntent(t *testing.T) {
	t.Parallel()
	for effect, want := range map[string]int{"read": 2, "write": 1} {
		synctest.Test(t, func(t *testing.T) {
			n := start(t, memlog.New(memlog.Config{}), short)
			id := n.submit("orch: v1\nsteps:\n  - {id: a, tool: EITHER, retry: {max_attempts: 3}}\n")
			c := n.take("w")
			require.NoError(t, n.Report(context.Background(), work.Outcome{
				Ref: c.Ref, Worker: "w", Effect: effect, Error: fault.New(fault.Timeout, "too slow"), Class: "timeout", StartedAt: time.Now(),
			}))
			if want > 1 {
				<-time.After(time.Minute)
				require.NoError(t, n.report("w", n.take("w"), `{}`))
			}
			assert.Equal(t, want, n.step(id, "a").Attempt, effect)
		})
	}
}

package orchestrator_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// A decision that is based on an old revision is refused if somebody else has decided since, and says who.
func TestStaleDecisions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		id := n.submit(guardedPlan)
		n.park("w", n.take("w"), ask())
		p := n.pending()
		rev := n.view(id).Rev
		assert.Equal(t, rev, p.TaskRev)
		_, err := n.Pause(n.ctx(), api.PauseRequest{ID: id, Actor: "user:bob", SeenRev: rev})
		require.NoError(t, err)

		stale := map[string]func() error{
			"decide": func() error {
				_, err := n.Decide(n.ctx(), api.DecideRequest{ID: p.ID, As: "granted", Actor: "user:ada", SeenRev: rev})
				return err
			},
			"cancel": func() error {
				_, err := n.Cancel(n.ctx(), api.CancelRequest{ID: id, Actor: "user:ada", SeenRev: rev})
				return err
			},
			"resume": func() error {
				_, err := n.Resume(n.ctx(), api.PauseRequest{ID: id, Actor: "user:ada", SeenRev: rev})
				return err
			},
			"resolve": func() error {
				_, err := n.Resolve(n.ctx(), api.ResolveRequest{ID: id, Step: "a", As: "failed", Actor: "user:ada", SeenRev: rev})
				return err
			},
			"say": func() error {
				_, err := n.Say(n.ctx(), api.SayRequest{ID: id, Text: "hi", Actor: "user:ada", SeenRev: rev})
				return err
			},
			"retry": func() error {
				_, err := n.Retry(n.ctx(), api.RetryRequest{ID: id, Actor: "user:ada", SeenRev: rev})
				return err
			},
			"redrive": func() error {
				_, err := n.Redrive(n.ctx(), api.RedriveRequest{ID: id, Actor: "user:ada", SeenRev: rev})
				return err
			},
		}
		for name, do := range stale {
			err := do()
			hasCode(t, err, fault.Conflict)
			assert.Equal(t, "STALE_REVISION", fault.From(err).Reason, name)
			assert.Contains(t, err.Error(), "user:bob paused the task at revision", name)
		}
		assert.True(t, n.view(id).Paused)
		assert.Equal(t, statemachine.ApprovalPending, n.pending().Status)

		_, err = n.Resume(n.ctx(), api.PauseRequest{ID: id, Actor: "user:bob", SeenRev: rev})
		require.NoError(t, err, "his own decisions are known to him")
		_, err = n.Decide(n.ctx(), api.DecideRequest{ID: p.ID, As: "granted", Actor: "user:ada", SeenRev: n.view(id).Rev})
		require.NoError(t, err, "nothing has changed since")
	})
}

func TestSeenRevisionThatDoesNotExist(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		id := n.submit(oneWrite)
		_, err := n.Cancel(n.ctx(), api.CancelRequest{ID: id, Actor: "user:ada", SeenRev: 1000})
		hasCode(t, err, fault.ValidationError)
		assert.Equal(t, "seen_rev", fault.From(err).Field)
		_, err = n.Pause(n.ctx(), api.PauseRequest{Node: true, Actor: "user:ada", SeenRev: 1})
		hasCode(t, err, fault.ValidationError)
		n.take("w")
		_, err = n.Cancel(n.ctx(), api.CancelRequest{ID: id, Actor: "user:ada", SeenRev: 1})
		require.NoError(t, err, "what workers do makes no decision stale")
	})
}

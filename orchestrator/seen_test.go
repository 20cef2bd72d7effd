package orchestrator_test

import (
	"encoding/json"
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

// An answer to a question that is based on an old revision is refused like any other decision.
func TestStaleAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, memlog.New(memlog.Config{}))
		id := n.submit(oneWrite)
		require.NoError(t, n.inquire("w", n.begun("w"), elicit("name")))
		q, rev := n.open(), n.view(id).Rev
		n.pause(api.PauseRequest{ID: id, Actor: "user:bob"})

		for name, r := range map[string]api.AnswerRequest{
			"a response": {Question: q.ID, Response: json.RawMessage(ada), Actor: "user:ada", SeenRev: rev},
			"a refusal":  {Question: q.ID, Declined: true, Actor: "user:ada", SeenRev: rev},
		} {
			_, err := n.Answer(n.ctx(), r)
			hasCode(t, err, fault.Conflict)
			assert.Equal(t, "STALE_REVISION", fault.From(err).Reason, name)
			assert.Contains(t, err.Error(), "user:bob paused the task at revision", name)
		}
		assert.Equal(t, q.ID, n.open().ID, "nothing was answered")

		_, err := n.Answer(n.ctx(), api.AnswerRequest{Question: q.ID, Response: json.RawMessage(ada), Actor: "user:ada", SeenRev: n.view(id).Rev})
		require.NoError(t, err)
		_, err = n.Resume(n.ctx(), api.PauseRequest{ID: id, Actor: "user:bob", SeenRev: rev})
		hasCode(t, err, fault.Conflict)
		assert.Contains(t, err.Error(), "user:ada answered a question at revision")
	})
}

package orchestrator_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
)

// The @last of a person is the newest task that they have submitted by a command, whatever others or they themselves have
// called since, also after a restart.
func TestLastOfSomebody(t *testing.T) {
	t.Parallel()
	log := memlog.New(memlog.Config{})
	n := start(t, log)
	from := func(actor, via string) func(*api.SubmitRequest) {
		return func(r *api.SubmitRequest) { r.Actor, r.Via = actor, via }
	}
	n.submit(setPlan, from("user:ada", "submit"))
	mine := n.submit(setPlan, from("user:ada", "submit"))
	n.submit(setPlan, from("user:ada", ""))
	theirs := n.submit(setPlan, from("user:bob", "submit"))
	newest := n.submit(setPlan, from("agent:eve", ""))
	for range 2 {
		for actor, want := range map[string]string{"user:ada": string(mine), "user:bob": string(theirs), "": string(newest)} {
			got, err := n.Find(n.ctx(), api.FindRequest{Text: "@last", Actor: actor})
			require.NoError(t, err)
			assert.Equal(t, want, string(got.ID), actor)
		}
		_, err := n.Find(n.ctx(), api.FindRequest{Text: "@last", Actor: "agent:eve"})
		hasCode(t, err, fault.NotFound)
		n.stop()
		n = start(t, log)
	}
}

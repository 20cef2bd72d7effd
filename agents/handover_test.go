package agents_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// jealous is an endlessOwner that refuses handovers to bob.
type jealous struct {
	endlessOwner

	taken []work.Outcome
}

func (j *jealous) Report(_ context.Context, o work.Outcome) error {
	if o.HandTo != nil && o.HandTo.Agent == "bob" {
		return fault.New(fault.Forbidden, "not to bob").WithField("hand_to")
	}
	j.taken = append(j.taken, o)
	return nil
}

// open are checks that accept every output.
type open struct{ gates }

func (open) Vet(output json.RawMessage) (json.RawMessage, error) { return output, nil }

// Data of a handover is passed with the call, within limits; nothing else is.
func TestDataOfHandovers(t *testing.T) {
	t.Parallel()
	j := &jealous{endlessOwner: endlessOwner{each: 1}}
	d := agents.NewDispatcher(j, open{gates{endlessOwner: &j.endlessOwner}}, agents.NewRegistry(agents.Config{}))
	ada := member("ada")
	got, err := d.Claim(t.Context(), ada, agents.Claim{Free: 1})
	require.NoError(t, err)
	ref := got.Calls[0].Ref
	cleo := &events.Agents{Agent: "cleo"}
	for _, r := range []agents.Report{
		{Result: json.RawMessage(`1`), Data: json.RawMessage(`1`)},
		{Error: "no", Data: json.RawMessage(`1`)},
		{HandTo: cleo, Data: json.RawMessage(`{`)},
		{HandTo: cleo, Data: json.RawMessage(`"` + strings.Repeat("x", 64<<10) + `"`)},
	} {
		r.Ref = ref
		err := d.Report(t.Context(), ada, r)
		require.Error(t, err)
		assert.Equal(t, "data", fault.From(err).Field)
	}
	require.NoError(t, d.Report(t.Context(), ada, agents.Report{Ref: ref, HandTo: cleo, Error: "tired", Data: json.RawMessage(`{"left":3}`)}))
	assert.JSONEq(t, `{"left":3}`, string(j.taken[0].Handed))
}

// A call with a refused handover stays assigned to its agent, counts against its limit, and can be ended otherwise.
func TestRefusedHandoverStaysWithTheAgent(t *testing.T) {
	t.Parallel()
	j := &jealous{endlessOwner: endlessOwner{each: 1}}
	d := agents.NewDispatcher(j, open{gates{endlessOwner: &j.endlessOwner}}, agents.NewRegistry(agents.Config{}))
	ada := member("ada")
	got, err := d.Claim(t.Context(), ada, agents.Claim{Free: 1})
	require.NoError(t, err)
	require.Len(t, got.Calls, 1)
	ref := got.Calls[0].Ref
	err = d.Report(t.Context(), ada, agents.Report{Ref: ref, HandTo: &events.Agents{Agent: "bob"}})
	assert.Equal(t, fault.Forbidden, fault.CodeOf(err))
	assert.Equal(t, "hand_to", fault.From(err).Field)
	given, _, _ := d.Known()
	assert.Equal(t, 1, given, "it has the call")

	require.NoError(t, d.Report(t.Context(), ada, agents.Report{Ref: ref, HandTo: &events.Agents{Agent: "cleo"}}))
	given, _, _ = d.Known()
	assert.Zero(t, given)
	require.Len(t, j.taken, 1)
	assert.Equal(t, "cleo", j.taken[0].HandTo.Agent)
	assert.False(t, j.taken[0].Unleased, "the agent was known to have it")
}

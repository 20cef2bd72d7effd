package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// dead is a session whose task ids say whether the task can be redriven.
type dead struct{ fakeSession }

func (*dead) Find(_ context.Context, r api.FindRequest) (api.FindReply, error) {
	if r.Text == "missing" {
		return api.FindReply{}, fault.New(fault.NotFound, "there is no task %s", r.Text).WithField("id").WithHint("look")
	}
	return api.FindReply{ID: events.TaskID(r.Text)}, nil
}

func (*dead) Redrive(_ context.Context, r api.RedriveRequest) (api.SubmitReply, error) {
	if r.ID == "doubt" {
		return api.SubmitReply{}, fault.New(fault.InDoubt, "it is unknown whether step a took effect").WithHint("orch resolve")
	}
	return api.SubmitReply{ID: "again-" + r.ID}, nil
}

// A task that cannot be redriven does not keep the others from being redriven.
func TestRedriveGoesOn(t *testing.T) {
	t.Parallel()
	p := newProbe(t, &dead{})
	assert.Equal(t, exitConflict, p.run(t.Context(), []string{"redrive", "doubt", "one", "missing", "two", "-d"}))
	assert.Equal(t, "again-one\nagain-two\n", p.out.String())
	assert.Equal(t, `error: doubt: it is unknown whether step a took effect (IN_DOUBT)
hint: orch resolve
error: missing: there is no task missing (NOT_FOUND)
hint: look
again-one submitted
again-two submitted
error: 2 of 4 tasks were not redriven (IN_DOUBT)
hint: see: orch list --dead
`, p.err.String())
}

func TestRedriveInJSON(t *testing.T) {
	t.Parallel()
	p := newProbe(t, &dead{})
	assert.Equal(t, exitNotFound, p.run(t.Context(), []string{"redrive", "missing", "doubt", "-d", "--json"}))
	assert.Empty(t, p.out.String())
	var fields []string
	for d := json.NewDecoder(p.err); ; {
		var e errorJSON
		err := d.Decode(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		fields = append(fields, e.Field)
	}
	assert.Equal(t, []string{"missing", "doubt", ""}, fields)
}

// A single task that cannot be redriven is the error of the command.
func TestRedriveOfOne(t *testing.T) {
	t.Parallel()
	p := newProbe(t, &dead{})
	assert.Equal(t, exitConflict, p.run(t.Context(), []string{"redrive", "doubt"}))
	assert.Equal(t, "error: it is unknown whether step a took effect (IN_DOUBT)\nhint: orch resolve\n", p.err.String())
}

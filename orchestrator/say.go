package orchestrator

import (
	"cmp"
	"context"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
)

// Say implements api.Tasks.
func (op *operations) Say(ctx context.Context, r api.SayRequest) (api.TaskView, error) {
	text, err := op.said(ctx, r)
	if err != nil {
		return api.TaskView{}, fault.From(err).WithField("text")
	}
	err = seen{r.ID, r.SeenRev, r.Actor}.change(ctx, op.reader, func(t *decide.Turn) error {
		if err := t.CheckOpen("say"); err != nil {
			return fault.From(err).WithHint("orch agent show %s names its turns, and orch fork %s --at STEP.tN goes on from one of them", r.ID, r.ID)
		}
		step, err := agentStep(&t.Reading, r.Step)
		if err != nil {
			return err
		}
		return t.Say(step, events.Message{Text: text, By: cmp.Or(r.Actor, decide.ActorNode)}, r.End)
	})
	if err != nil {
		return api.TaskView{}, err
	}
	return op.reader.Get(ctx, api.GetRequest{ID: r.ID})
}

// said returns the text of a message without secrets; zero for none.
func (op *operations) said(ctx context.Context, r api.SayRequest) (events.Value, error) {
	switch {
	case strings.TrimSpace(r.Text) == "" && r.End:
		return events.Value{}, nil
	case strings.TrimSpace(r.Text) == "":
		return events.Value{}, fault.New(fault.RequiredField, "is empty")
	case len(r.Text) > api.MaxSaid:
		return events.Value{}, tooMany("bytes", len(r.Text), api.MaxSaid)
	}
	raw, err := op.clean.normalize(decide.MustJSON(r.Text))
	if err != nil {
		return events.Value{}, err
	}
	return op.blobs.offload(ctx, raw)
}

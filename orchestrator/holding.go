package orchestrator

import (
	"context"
	"slices"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
)

// holder places and releases holds on tasks.
type holder struct {
	*core

	reader *reader
}

// PlaceHold implements api.Tasks.
func (h *holder) PlaceHold(ctx context.Context, r api.HoldRequest) (api.HoldsReply, error) {
	if err := h.serving(); err != nil {
		return api.HoldsReply{}, err
	}
	if err := checkHeld(r.IDs, r.Reason, r.Actor); err != nil {
		return api.HoldsReply{}, err
	}
	if strings.TrimSpace(r.Reason) == "" {
		return api.HoldsReply{}, fault.New(fault.RequiredField, "is missing").WithField("reason").WithHint("say why the tasks must stay")
	}
	reason, at := h.redactText(r.Reason), h.now()
	placed, err := h.cfg.Holds.Place(ctx, func() ([]api.Hold, error) {
		holds := make([]api.Hold, len(r.IDs))
		for i, id := range r.IDs {
			if err := h.reader.checkExists(ctx, id); err != nil {
				return nil, err
			}
			family, err := h.reader.relatives.familyOf(ctx, id)
			if err != nil {
				return nil, err
			}
			holds[i] = api.Hold{Task: id, Family: family, Reason: reason, By: r.Actor, At: at}
		}
		return holds, nil
	})
	return api.HoldsReply{Holds: placed}, err
}

// checkHeld checks the fields that requests about holds have in common.
func checkHeld(ids []events.TaskID, texts ...string) error {
	if len(ids) == 0 {
		return fault.New(fault.RequiredField, "is missing").WithField("ids")
	}
	if len(ids) > api.MaxHeld {
		return fault.New(fault.ValidationError, "names %d tasks, and at most %d are possible", len(ids), api.MaxHeld).WithField("ids")
	}
	for _, id := range ids {
		if _, err := events.ParseTaskID(string(id)); err != nil {
			return fault.From(err).WithField("ids")
		}
	}
	for i, name := range []string{"reason", "note"}[:min(2, len(texts))] {
		if len(texts[i]) > api.MaxHoldText {
			return fault.New(fault.ValidationError, "has %d bytes, and at most %d are possible", len(texts[i]), api.MaxHoldText).WithField(name)
		}
	}
	return nil
}

// redactText removes secrets from a text for people.
func (h *holder) redactText(text string) string {
	clean, _ := h.cfg.Redact([]byte(text))
	return string(clean)
}

// ReleaseHold implements api.Tasks.
func (h *holder) ReleaseHold(ctx context.Context, r api.ReleaseHoldRequest) (api.HoldsReply, error) {
	if err := h.serving(); err != nil {
		return api.HoldsReply{}, err
	}
	if err := checkHeld(r.IDs, r.Reason, r.Note); err != nil {
		return api.HoldsReply{}, err
	}
	reason := h.redactText(r.Reason)
	end := api.HoldRelease{By: r.Actor, At: h.now(), Note: h.redactText(r.Note)}
	released, err := h.cfg.Holds.Release(ctx, func(all []api.Hold) ([]api.Hold, error) {
		var chosen []api.Hold
		for _, id := range r.IDs {
			before := len(chosen)
			for _, one := range all {
				if one.Task == id && (reason == "" || one.Reason == reason) && !slices.Contains(chosen, one) {
					chosen = append(chosen, one)
				}
			}
			if len(chosen) == before && !slices.ContainsFunc(chosen, func(c api.Hold) bool { return c.Task == id }) {
				return nil, noHold(id, reason)
			}
		}
		return chosen, nil
	}, end)
	return api.HoldsReply{Holds: released}, err
}

func noHold(id events.TaskID, reason string) error {
	if reason != "" {
		return fault.New(fault.NotFound, "the task %s is not held for the reason %q", id, decide.Clip(reason)).WithField("reason").WithHint("orch hold list shows the reasons")
	}
	return fault.New(fault.NotFound, "the task %s is not held", id).WithField("ids").WithHint("orch hold list shows the tasks that are; the hold may be on another task of its family")
}

// Holds implements api.Tasks.
func (h *holder) Holds(_ context.Context, r api.HoldsRequest) (api.HoldsReply, error) {
	if err := h.serving(); err != nil {
		return api.HoldsReply{}, err
	}
	if r.Limit == 0 {
		r.Limit = api.MaxHeld
	}
	if r.Limit < 1 || r.Limit > api.MaxHeld {
		return api.HoldsReply{}, fault.New(fault.ValidationError, "must be 1 to %d", api.MaxHeld).WithField("limit")
	}
	all := h.cfg.Holds.List(r.Released)
	if r.Task != "" {
		all = slices.DeleteFunc(all, func(one api.Hold) bool { return one.Task != r.Task })
	}
	start := 0
	if r.Cursor != "" {
		start = slices.IndexFunc(all, func(one api.Hold) bool { return holdCursor(one) == r.Cursor }) + 1
		if start == 0 && !r.Released { // it was released meanwhile; the others are in order
			start = slices.IndexFunc(all, func(one api.Hold) bool { return holdCursor(one) > r.Cursor })
		}
		if start < 0 {
			start = len(all)
		}
	}
	reply := api.HoldsReply{Holds: append([]api.Hold{}, all[start:]...)}
	if len(reply.Holds) > r.Limit {
		reply.Holds = reply.Holds[:r.Limit]
		reply.Next = holdCursor(reply.Holds[r.Limit-1])
	}
	return reply, nil
}

// holdCursor returns the cursor after a hold.
func holdCursor(h api.Hold) string { return string(h.Task) + " " + h.Reason }

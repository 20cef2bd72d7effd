package rest

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Status is the answer of GET /status.
type Status struct {
	api.StatusReply

	// Role is the role of the caller.
	Role Role `json:"role"`
}

// writeStatus answers GET /status.
func (*Server) writeStatus(x *exchange, _ any) error {
	reply, err := x.api.Status(x.r.Context(), api.StatusRequest{})
	if err != nil {
		return err
	}
	reply.Identity = x.client.Name()
	writeJSON(x.w, http.StatusOK, Status{reply, x.client.Role()})
	return nil
}

// answerSubmitted answers with the location of a task: status 201 for a new one, 200 for one that existed.
func answerSubmitted(x *exchange, out any) {
	reply, ok := out.(api.SubmitReply)
	status := http.StatusCreated
	if !ok || reply.Existing {
		status = http.StatusOK
	}
	x.w.Header().Set("Location", Prefix+"/tasks/"+string(reply.ID))
	writeJSON(x.w, status, out)
}

// answerForked answers with the location of a new task; a dry run has none.
func answerForked(x *exchange, out any) {
	reply, ok := out.(api.ForkReply)
	if !ok || reply.ID == "" {
		writeJSON(x.w, http.StatusOK, out)
		return
	}
	x.w.Header().Set("Location", Prefix+"/tasks/"+string(reply.ID))
	status := http.StatusCreated
	if reply.Existing {
		status = http.StatusOK
	}
	writeJSON(x.w, status, out)
}

// holdsTag returns a text that differs for different holds.
func holdsTag(holds []api.Hold) string {
	sum := fnv.New64a()
	for _, h := range holds {
		_, _ = fmt.Fprintf(sum, "%s %q %d ", h.Task, h.Reason, h.At.UnixMicro()) // never fails
	}
	return strconv.FormatUint(sum.Sum64(), 36)
}

// answerTask answers with a task. A task that has ended has an entity tag, because it hardly changes any more.
func answerTask(x *exchange, out any) {
	t, ok := out.(api.TaskView)
	if !ok || !t.State.Terminal() {
		writeJSON(x.w, http.StatusOK, out)
		return
	}
	tag := `"` + strconv.FormatUint(t.Rev, 10) + `"`
	if t.Archived {
		tag = `"` + strconv.FormatUint(t.Rev, 10) + `-archived"`
	}
	if len(t.Holds) > 0 { // which change without the task
		tag = strings.TrimSuffix(tag, `"`) + "-held-" + holdsTag(t.Holds) + `"`
	}
	x.w.Header().Set("ETag", tag)
	if matchesTag(x.r.Header.Get("If-None-Match"), tag) {
		x.w.WriteHeader(http.StatusNotModified)
		return
	}
	writeJSON(x.w, http.StatusOK, out)
}

// matchesTag reports whether a header If-None-Match names an entity tag.
func matchesTag(header, tag string) bool {
	for known := range strings.SplitSeq(header, ",") {
		known = strings.TrimPrefix(strings.TrimSpace(known), "W/")
		if known == tag || known == "*" {
			return true
		}
	}
	return false
}

// writePlan answers GET /tasks/{id}/plan with the plan in the first commit of the task.
func (s *Server) writePlan(x *exchange, in any) error {
	r, ok := in.(*api.HistoryRequest)
	if !ok {
		return fault.New(fault.Internal, "a request has the wrong type")
	}
	page, err := x.api.History(x.r.Context(), api.HistoryRequest{ID: r.ID, From: 1, Limit: 1})
	if err != nil {
		return err
	}
	plan, ok := planIn(page)
	if !ok {
		return fault.New(fault.NotFound, "the history of the task has no plan")
	}
	text := plan.Raw
	if plan.Ref() != "" {
		if text, err = s.cfg.Blob(x.r.Context(), plan.Ref()); err != nil {
			return err
		}
	}
	writeJSON(x.w, http.StatusOK, text)
	return nil
}

// planIn returns the plan in a page of commits.
func planIn(page api.HistoryReply) (events.Value, bool) {
	for _, c := range page.Commits {
		for _, e := range c.Events {
			if sub, ok := e.Data.(*events.Submitted); ok {
				return sub.Plan, true
			}
		}
	}
	return events.Value{}, false
}

func needsBoth(in any) error {
	r, ok := in.(*api.DiffRequest)
	switch {
	case !ok || r.A == "":
		return fault.New(fault.RequiredField, "is required").WithField("a")
	case r.B == "":
		return fault.New(fault.RequiredField, "is required").WithField("b")
	}
	return nil
}

func needsName(in any) error {
	if r, ok := in.(*api.CheckpointRequest); ok && r.Name == "" {
		return fault.New(fault.RequiredField, "is required").WithField("name")
	}
	return nil
}

// checkpointList leaves an empty list for a task without checkpoints.
func checkpointList(_ *api.CheckpointRequest, r api.CheckpointReply) (api.CheckpointReply, error) {
	if r.Checkpoints == nil {
		r.Checkpoints = []api.CheckpointView{}
	}
	return r, nil
}

func snapshotOf(r *api.CheckpointRequest, reply api.CheckpointReply) (api.Snapshot, error) {
	if reply.Snapshot == nil {
		return api.Snapshot{}, fault.New(fault.NotFound, "there is no checkpoint %q", clip(r.ID)).WithField("cp")
	}
	return *reply.Snapshot, nil
}

func soleApproval(r *api.ApprovalsRequest, reply api.ApprovalsReply) (api.ApprovalView, error) {
	if len(reply.Approvals) == 0 {
		return api.ApprovalView{}, fault.New(fault.NotFound, "there is no approval %q", clip(r.ID)).WithField("id")
	}
	return reply.Approvals[0], nil
}

func soleQuestion(r *api.QuestionsRequest, reply api.QuestionsReply) (api.QuestionView, error) {
	if len(reply.Questions) == 0 {
		return api.QuestionView{}, fault.New(fault.NotFound, "there is no question %q", clip(r.ID)).WithField("id")
	}
	return reply.Questions[0], nil
}

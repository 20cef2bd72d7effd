package orchestrator

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// maxResponse limits the bytes of an answer.
const maxResponse = 256 << 10

// Questions implements api.Tasks.
func (rd *reader) Questions(ctx context.Context, r api.QuestionsRequest) (api.QuestionsReply, error) {
	if r.ID != "" {
		task, err := events.TaskOfQuestion(r.ID)
		if err != nil {
			return api.QuestionsReply{}, err
		}
		r.Task = task
	}
	ids, unread := []events.TaskID{r.Task}, 0
	if r.Task == "" {
		ids, unread = rd.openTasks((*statemachine.Task).HasOpenQuestion, func(a *sleeper) bool { return a.Unanswered })
	}
	reply := api.QuestionsReply{Questions: []api.QuestionView{}, Unread: unread}
	selected := func(q *statemachine.Question) bool {
		return q.ID == r.ID || (r.ID == "" && q.Status == statemachine.QuestionOpen)
	}
	for _, id := range ids {
		err := rd.engine.inspect(ctx, id, func(e *entry) error {
			reply.Questions = append(reply.Questions, questionsOf(e.task, selected)...)
			return nil
		})
		if err != nil && (r.Task != "" || !fault.Has(err, fault.NotFound)) {
			return reply, err
		}
	}
	switch {
	case r.ID == "":
	case len(reply.Questions) == 0:
		return reply, decide.NoQuestion(r.ID)
	case reply.Questions[0].Tool == models.CallTool:
		whole, err := rd.wholeRequest(ctx, reply.Questions[0])
		if err != nil {
			return reply, err
		}
		reply.Questions[0].Params = whole
	}
	slices.SortStableFunc(reply.Questions, func(a, b api.QuestionView) int { return a.ExpiresAt.Compare(b.ExpiresAt) })
	reply.Omitted = max(0, len(reply.Questions)-maxQuestions)
	reply.Questions = fitQuestions(reply.Questions[:len(reply.Questions)-reply.Omitted])
	return reply, nil
}

// maxQuestions limits the questions in one reply.
const maxQuestions = 1000

// fitQuestions replaces the parameters that do not fit into the reply.
func fitQuestions(views []api.QuestionView) []api.QuestionView {
	room := maxAnswer
	for i, v := range views {
		if room -= len(v.Params); room < 0 {
			room += len(v.Params)
			views[i].Params = omitted(len(v.Params))
		}
	}
	return views
}

// openQuestions returns the open questions of the task, and those to the model of its client that tasks below it ask.
func (t *viewer) openQuestions() []api.QuestionView {
	own := questionsOf(t.Task, func(q *statemachine.Question) bool { return q.Status == statemachine.QuestionOpen })
	return fitQuestions(append(own, clientModel{t.e.owner}.below(t.e)...))
}

// askedBy returns a function that selects the open questions of a step.
func askedBy(s *statemachine.Step) func(*statemachine.Question) bool {
	return func(q *statemachine.Question) bool {
		return q.Status == statemachine.QuestionOpen && slices.Contains(s.Questions, q.ID)
	}
}

// questionsOf returns the views of the questions of a task for which selected returns true.
func questionsOf(t *statemachine.Task, selected func(*statemachine.Question) bool) []api.QuestionView {
	var views []api.QuestionView
	for _, q := range t.Questions {
		if !selected(q) {
			continue
		}
		v := api.QuestionView{
			ID: q.ID, Task: t.ID, TaskName: t.Submitted.Name, Step: q.Step, Key: q.Key, Kind: q.Kind, Status: q.Status,
			Params: q.Params.Raw, AskedAt: q.AskedAt, ExpiresAt: q.ExpiresAt, Reason: q.Reason,
		}
		if s := t.Steps[q.Step]; s != nil {
			v.Tool = s.Tool
		}
		if q.Answer != nil {
			v.AnsweredBy, v.Action = q.Answer.By, q.Answer.Action
		}
		if !q.ClosedAt.IsZero() {
			v.ClosedAt = &q.ClosedAt
		}
		views = append(views, v)
	}
	return views
}

// Answer implements api.Tasks.
func (ap *approver) Answer(ctx context.Context, r api.AnswerRequest) (api.TaskView, error) {
	id, err := events.TaskOfQuestion(r.Question)
	switch {
	case err != nil:
		return api.TaskView{}, err
	case r.ID != "" && r.ID != id:
		return api.TaskView{}, decide.NoQuestion(r.Question)
	case r.Declined == (len(r.Response) > 0):
		return api.TaskView{}, fault.New(fault.ValidationError, "give a response, or decline").WithField("response")
	case len(r.Response) > maxResponse:
		return api.TaskView{}, fault.New(fault.ValidationError, "has more than %d bytes", maxResponse).WithField("response").WithReason("SIZE_LIMIT_EXCEEDED")
	}
	response, err := ap.clean.normalize(r.Response)
	if err != nil {
		return api.TaskView{}, fault.From(err).WithField("response")
	}
	err = seen{id, r.SeenRev, r.Actor}.change(ctx, ap.reader, func(t *decide.Turn) error {
		q := t.Task.Question(r.Question)
		if err := t.Questions().MayAnswer(q, r.Question); err != nil {
			return err
		}
		if r.Declined {
			t.Questions().Answer(q, actionDecline, declined(q.Kind))
			return nil
		}
		action, err := checkAnswer(q, response)
		if err == nil {
			t.Questions().Answer(q, action, response)
		}
		return err
	})
	if err != nil {
		return api.TaskView{}, err
	}
	return ap.reader.Get(ctx, api.GetRequest{ID: id})
}

// declined returns the MCP result of a declined question.
func declined(kind string) json.RawMessage {
	if kind == events.Elicitation {
		return json.RawMessage(`{"action":"decline"}`)
	}
	return json.RawMessage("null")
}

const (
	actionAccept  = "accept"
	actionDecline = "decline"
	actionCancel  = "cancel"
)

// checkAnswer checks that a response is a valid MCP result for a question, and returns its action. Otherwise it returns
// VALIDATION_ERROR with the invalid field.
func checkAnswer(q *statemachine.Question, response json.RawMessage) (string, error) {
	var a struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content"`
		Role    string          `json:"role"`
		Model   string          `json:"model"`
		Roots   []struct {
			URI string `json:"uri"`
		} `json:"roots"`
	}
	if err := json.Unmarshal(response, &a); err != nil || bytes.Equal(response, []byte("null")) {
		return "", fault.New(fault.ValidationError, "is not a result of the MCP request").WithField("response")
	}
	invalid := func(field, problem string) error {
		return fault.New(fault.ValidationError, "%s", problem).WithField(field)
	}
	switch q.Kind {
	case events.Elicitation:
		return a.Action, checkElicitation(q.Params.Raw, a.Action, a.Content)
	case events.Sampling:
		switch {
		case a.Role != "assistant" && a.Role != "user":
			return "", invalid("role", "must be assistant or user")
		case a.Model == "":
			return "", invalid("model", "must name the model")
		case len(a.Content) == 0 || (a.Content[0] != '{' && a.Content[0] != '['):
			return "", invalid("content", "must be a content block, or a list of them")
		}
	case events.Roots:
		if a.Roots == nil {
			return "", invalid("roots", "must be a list")
		}
		for _, root := range a.Roots {
			if !strings.HasPrefix(root.URI, "file://") {
				return "", invalid("roots", "must have URIs that begin with file://")
			}
		}
	}
	return "", nil
}

// checkElicitation checks the answer to an elicitation. Only an accepting answer contains the form.
func checkElicitation(params json.RawMessage, action string, content json.RawMessage) error {
	if !slices.Contains([]string{actionAccept, actionDecline, actionCancel}, action) {
		return fault.New(fault.ValidationError, "must be accept, decline or cancel").WithField("action")
	}
	var question struct {
		Mode   string          `json:"mode"`
		Schema json.RawMessage `json:"requestedSchema"`
	}
	if err := json.Unmarshal(params, &question); err != nil {
		return fault.Wrap(fault.Internal, err, "the question cannot be read")
	}
	switch {
	case action == actionAccept && question.Mode != "url":
		return plan.CheckContent(question.Schema, content)
	case len(content) > 0 && string(content) != "null":
		return fault.New(fault.ValidationError, "goes with an accepted form only").WithField("content")
	}
	return nil
}

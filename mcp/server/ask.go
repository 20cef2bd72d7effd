package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// question is a question of a task that a client may answer.
type question struct {
	// id identifies the question permanently, key only within the call that asks it.
	id, key string
	// method and params are the MCP request that asks the question.
	method string
	params json.RawMessage
	// kind decides how the answer is used.
	kind questionKind
	// task and step are set only for kind doubt.
	task events.TaskID
	step string
}

// questionKind decides how an answer is used.
type questionKind int

const (
	// askedByCall means that the answer goes to the call that has asked.
	askedByCall questionKind = iota
	// approval and doubt mean that the answer is a decision of a person.
	approval
	doubt
	// approvalPage means that the user was sent to the web page of an approval. The answer only says whether the user goes there.
	approvalPage
)

// The MCP requests that ask questions.
const (
	methodElicit = "elicitation/create"
	methodSample = "sampling/createMessage"
	methodRoots  = "roots/list"
)

// methodOf returns the MCP request for a kind of question.
func methodOf(kind string) string {
	switch kind {
	case events.Sampling:
		return methodSample
	case events.Roots:
		return methodRoots
	default:
		return methodElicit
	}
}

// pending returns those questions of a waiting task that the client may answer.
func (qs *questioner) pending(ctx context.Context, c client, id events.TaskID) ([]question, error) {
	t, err := qs.cfg.API.Get(ctx, api.GetRequest{ID: id})
	if err != nil {
		return nil, err
	}
	return qs.pendingOf(ctx, c, t)
}

// pendingOf is pending for a task that the caller has just read.
func (qs *questioner) pendingOf(ctx context.Context, c client, t api.TaskView) (answerable []question, err error) {
	all, err := qs.approvalsOf(ctx, c, t.ID)
	if err != nil {
		return nil, err
	}
	all = append(all, doubtsOf(t)...)
	for _, q := range t.Questions {
		asked := question{id: q.ID, key: q.Key, method: methodOf(q.Kind), params: orEmpty(q.Params)}
		if q.Task != t.ID { // a task below asks the model of the client
			asked.key = q.ID
		}
		all = append(all, asked)
	}
	for _, q := range all {
		if qs.mayAnswer(c, q) {
			answerable = append(answerable, q)
		}
	}
	return answerable, nil
}

// whole returns the questions with all of their parameters: the view of a task has only an excerpt of the request of an agent to the
// model of its client. Questions that were settled meanwhile are left out, and requests with tools for a client that accepts none.
func (qs *questioner) whole(ctx context.Context, c client, list []question) (all []question, err error) {
	for _, q := range list {
		if q.method != methodSample {
			all = append(all, q)
			continue
		}
		got, err := qs.cfg.API.Questions(ctx, api.QuestionsRequest{ID: q.id})
		if err != nil {
			return nil, err
		}
		q.params = orEmpty(got.Questions[0].Params)
		if got.Questions[0].Status == statemachine.QuestionOpen && (c.caps.Sampling.Tools != nil || !q.hasTools()) {
			all = append(all, q)
		}
	}
	return all, nil
}

// hasTools reports whether a request to the model of the client offers it tools.
func (q question) hasTools() bool {
	var p struct {
		Tools []json.RawMessage `json:"tools"`
	}
	decode(q.params, &p)
	return len(p.Tools) > 0
}

// isLink reports whether the user answers the question on a web page (url mode), not in a form.
func (q question) isLink() bool {
	mode, _ := q.page()
	return mode == "url"
}

// link returns the elicitation id of a question in url mode; empty for a form.
func (q question) link() string {
	_, id := q.page()
	return id
}

func (q question) page() (mode, id string) {
	var p struct {
		Mode string `json:"mode"`
		ID   string `json:"elicitationId"`
	}
	decode(q.params, &p)
	return p.Mode, p.ID
}

// mayAnswer reports whether a client may answer a question. Viewers answer nothing.
func (qs *questioner) mayAnswer(c client, q question) bool {
	if !c.who.Role.submits() {
		return false
	}
	switch q.method {
	case methodElicit:
		if q.isLink() {
			return c.caps.Elicitation != nil && c.caps.Elicitation.URL != nil
		}
		return c.showsForms() && (q.kind == askedByCall || c.who.Role.decides() && !qs.cfg.Consent.OutsideApprovals)
	case methodSample:
		return c.caps.Sampling != nil
	default:
		return c.roots
	}
}

// approvalsOf returns the pending approvals of a task: as forms if the client may decide them, else as links to their web pages.
// Only the forms for operators offer permanent grants.
func (qs *questioner) approvalsOf(ctx context.Context, c client, id events.TaskID) ([]question, error) {
	got, err := qs.cfg.API.Approvals(ctx, api.ApprovalsRequest{Task: id})
	if err != nil {
		return nil, err
	}
	var list []question
	for _, a := range got.Approvals {
		if c.who.Role != Operator {
			a.Lasting = nil
		}
		form := question{id: a.ID, key: a.ID, method: methodElicit, params: approvalForm(a), kind: approval}
		page := qs.cfg.Consent.ApprovalPage(a.ID)
		switch {
		case a.Status != statemachine.ApprovalPending:
		case len(a.Form) == 0 && (page == "" || qs.mayAnswer(c, form)):
			list = append(list, form)
		case page != "":
			list = append(list, question{id: a.ID, key: a.ID, method: methodElicit, params: approvalLink(a, page), kind: approvalPage})
		}
	}
	return list, nil
}

// approvalLink returns the parameters that send the user to the web page of an approval (S2-054).
func approvalLink(a api.ApprovalView, page string) json.RawMessage {
	return mustJSON(object{"mode": "url", "message": approvalText(a), "url": page, "elicitationId": a.ID})
}

// approvalForm returns the form of an approval (S2-053).
func approvalForm(a api.ApprovalView) json.RawMessage {
	return mustJSON(object{
		"mode": "form", "message": approvalText(a),
		"requestedSchema": object{
			"type": "object",
			"properties": object{
				"decision": object{"type": "string", "title": "Decision", "enum": decisionsFor(a)},
				"reason":   object{"type": "string", "title": "Reason", "description": "kept in the log", "maxLength": 1000},
			},
			"required": []string{"decision"},
		},
	})
}

// The prefixes of decisions that grant the named resource for longer than this call: for the session of the call, or for all
// later sessions of its user.
const (
	forSession = "approve for this session: "
	forGood    = "approve always: "
)

// decisionsFor returns the decisions that a form offers.
func decisionsFor(a api.ApprovalView) []string {
	choices := []string{"approve"}
	for _, offer := range a.Offers {
		choices = append(choices, forSession+offer)
	}
	for _, offer := range a.Lasting {
		choices = append(choices, forGood+offer)
	}
	return append(choices, "deny")
}

// maxShown is the most bytes of arguments that a form shows.
const maxShown = 2000

func approvalText(a api.ApprovalView) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (task %s, risk %s)", a.Description, a.TaskName, orNone(a.Risk))
	if a.Rationale != "" {
		b.WriteString("\n" + a.Rationale)
	}
	for _, part := range []json.RawMessage{a.Args, a.Calls} {
		if len(part) == 0 {
			continue
		}
		args := string(part)
		if len(args) > maxShown {
			args = strings.ToValidUTF8(args[:maxShown], "") + "… (orch approvals " + a.ID + " shows all)"
		}
		b.WriteString("\n" + args)
	}
	return b.String()
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// answer delivers the answer of the client. It returns false if the answer decides nothing; the question then remains open
// (S2-053).
func (qs *questioner) answer(ctx context.Context, c client, q question, response json.RawMessage) (bool, error) {
	switch q.kind {
	case approval:
		return qs.decide(ctx, c, q, response)
	case doubt:
		return qs.decideDoubt(ctx, c, q, response)
	case approvalPage:
		return false, nil
	default:
		_, err := qs.cfg.API.Answer(ctx, api.AnswerRequest{Question: q.id, Response: response, Actor: c.who.Name})
		if fault.Has(err, fault.Conflict) { // another answer was first
			err = nil
		}
		return err == nil, err
	}
}

// decide decides an approval according to a form. A declined form rejects the approval; a cancelled form decides nothing.
func (qs *questioner) decide(ctx context.Context, c client, q question, response json.RawMessage) (bool, error) {
	var r struct {
		Action  string `json:"action"`
		Content struct {
			Decision string `json:"decision"`
			Reason   string `json:"reason"`
		} `json:"content"`
	}
	if err := json.Unmarshal(response, &r); err != nil {
		return false, fault.New(fault.ValidationError, "is not an answer to a form").WithField(q.key)
	}
	as := "rejected"
	var opens, always []string
	offer, session := strings.CutPrefix(r.Content.Decision, forSession)
	lasting, good := strings.CutPrefix(r.Content.Decision, forGood)
	switch {
	case r.Action == "accept" && session:
		as, opens = "granted", []string{offer}
	case r.Action == "accept" && good && c.who.Role == Operator:
		as, always = "granted", []string{lasting}
	case r.Action == "accept" && r.Content.Decision == "approve":
		as = "granted"
	case r.Action == "accept" && r.Content.Decision == "deny", r.Action == "decline":
	case r.Action == "cancel":
		return false, nil
	default:
		return false, fault.New(fault.ValidationError, "must approve or deny").WithField(q.key)
	}
	reason := r.Content.Reason
	if reason == "" && as == "rejected" {
		reason = "denied in the MCP client"
	}
	_, err := qs.cfg.API.Decide(ctx, api.DecideRequest{ID: q.id, As: as, Reason: reason, Opens: opens, Always: always, Actor: c.who.Name})
	if fault.Has(err, fault.Conflict) { // another decision was first
		return true, nil
	}
	return err == nil, err
}

// inputRequired returns a result that sends questions to a client of 2026-07-28. The client repeats the call with its answers.
func (qs *questioner) inputRequired(c client, r *run, list []question) *mcp.CallToolResult {
	requests := mcp.InputRequestMap{}
	for _, q := range list {
		if request := inputRequest(q); request != nil {
			requests[q.key] = request
		}
	}
	return &mcp.CallToolResult{InputRequests: requests, RequestState: qs.seal.seal(c.who.Name, string(r.id)+" "+list[0].id)}
}

// inputRequest returns a question as a type of the SDK, nil if it cannot.
func inputRequest(q question) mcp.InputRequest {
	switch q.method {
	case methodElicit:
		p := &mcp.ElicitParams{}
		decode(q.params, p) // invalid parameters are dropped
		return p
	case methodSample:
		p := &mcp.CreateMessageWithToolsParams{}
		decode(q.params, p)
		return p
	case methodRoots:
		return &mcp.ListRootsParams{}
	default:
		return nil
	}
}

// resume continues a call after the client has answered its questions.
func (qs *questioner) resume(ctx context.Context, c client, r *run, p *mcp.CallToolParamsRaw) error {
	state, ok := qs.seal.open(c.who.Name, p.RequestState)
	if !ok {
		return invalidParams("requestState was not given out by this server, or not to this client")
	}
	id, _, _ := strings.Cut(state, " ")
	t, err := qs.taskOf(ctx, c.who, id)
	if err != nil {
		return err
	}
	if call := callOf(t); call == nil || call.Tool != p.Name {
		return invalidParams("requestState belongs to another call")
	}
	r.id, r.at, r.resumed = t.ID, t.CreatedAt, true
	r.ttl, _ = ttlOf(t.Labels)
	list, err := qs.pending(ctx, c, t.ID)
	if err == nil && p.Name == toolAskPeople && t.Session != "" { // its questions belong to its session
		var more []question
		more, err = qs.pending(ctx, c, t.Session)
		list = append(list, more...)
	}
	if err != nil {
		return err
	}
	_, err = qs.answerAll(ctx, c, list, p.InputResponses)
	return err
}

// answerAll delivers the answers in a call, by question key. It reports whether it has delivered any.
func (qs *questioner) answerAll(ctx context.Context, c client, list []question, given mcp.InputResponseMap) (bool, error) {
	answered := false
	for _, q := range list {
		response, ok := given[q.key]
		if !ok {
			continue
		}
		if _, err := qs.answer(ctx, c, q, mustJSON(response)); err != nil {
			return answered, err
		}
		answered = true
	}
	return answered, nil
}

// questioner reads the questions of tasks, and delivers the answers of clients.
type questioner struct {
	*core

	answers *presenter
	tools   *toolView
	// seal signs the state that clients carry between two rounds of a call.
	seal sealer
}

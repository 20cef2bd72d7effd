package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// questionPrefix is the prefix of the ids of requests that ask questions. The rest of the id contains the task and the question,
// signed for the identity and the session: so an answer is delivered to its question even after a restart of the node, and a
// client cannot forge an id.
const questionPrefix = "question:"

// questionID returns the id of the request that asks a question of the client of a session.
func (ds *relays) questionID(who Identity, session string, task events.TaskID, question string) string {
	return questionPrefix + ds.questions.seal.seal(sealOwner(who, session), string(task)+" "+question+" "+rand.Text()[:8])
}

func sealOwner(who Identity, session string) string { return who.Name + "\n" + session + "\nquestion" }

// openQuestionID returns the task and the question in the id of an answer. ok is false if questionID has not returned that id
// for the same identity and session.
func (ds *relays) openQuestionID(who Identity, session, id string) (task, question string, ok bool) {
	sealed, ok := strings.CutPrefix(id, questionPrefix)
	if !ok {
		return "", "", false
	}
	state, ok := ds.questions.seal.open(sealOwner(who, session), sealed)
	if parts := strings.Split(state, " "); ok && len(parts) == 3 {
		return parts[0], parts[1], true
	}
	return "", "", false
}

// handleReply delivers an answer to a question, and reopens the session of the client if necessary. It returns false for a
// message that answers no question.
func (f *versionRouter) handleReply(r *http.Request, p envelope) bool {
	who, session := requestIdentity(r), r.Header.Get(headerSession)
	if p.Method != nil || !f.s.relays.isReply(who, session, p) {
		return false
	}
	if f.s.clients.sessions.ownedBy(session, ownerOf(r)) == nil && !f.reopen(r, session) {
		return false
	}
	return f.s.relays.handleReply(context.WithoutCancel(r.Context()), who, session, p)
}

// isReply reports whether a message answers a question to the client of a session.
func (ds *relays) isReply(who Identity, session string, p envelope) bool {
	var id string
	_ = json.Unmarshal(p.ID, &id)
	_, _, ok := ds.openQuestionID(who, session, id)
	return ok
}

// handleReply delivers an answer to a question. It returns false for a message that answers no question.
func (ds *relays) handleReply(ctx context.Context, who Identity, session string, p envelope) bool {
	var id string
	_ = json.Unmarshal(p.ID, &id)
	task, question, ok := ds.openQuestionID(who, session, id)
	if !ok {
		return false
	}
	known := ds.clients.sessions.get(session)
	known.mu.Lock()
	d := known.relays[events.TaskID(task)] // a relay that ends during the reply still has to record it
	final := d != nil && d.sent[question].id == id
	known.mu.Unlock()
	accepted, err := ds.reply(ctx, who, session, task, sentReply{question, p.Result, final})
	if accepted == notAccepted {
		ds.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "mcp_question_not_answered", slog.String("question", question), slog.Any("error", err),
			slog.String("client", string(p.Error)))
	}
	if d != nil {
		d.recordAnswer(question, id, accepted, err)
	}
	return true
}

// replyOutcome is the outcome of the answer of a client.
type replyOutcome int

const (
	notAccepted replyOutcome = iota
	answerAccepted
	// pageOpened means that the user goes to a web page to answer there.
	pageOpened
)

// sentReply is the answer of a client to a question. The result of an error response is empty. final is set if the client will not
// answer the question again, because the answer is to the newest copy of it.
type sentReply struct {
	question string
	result   json.RawMessage
	final    bool
}

// reply delivers the answer of a client to a question. An empty result, and a form with invalid content are not accepted (S2-053): a
// person can answer again. A model cannot: what it does not answer is declined.
func (ds *relays) reply(ctx context.Context, who Identity, session, task string, r sentReply) (replyOutcome, error) {
	if len(r.result) == 0 && !r.final {
		return notAccepted, nil
	}
	t, err := ds.taskOf(ctx, who, task)
	if err != nil {
		return notAccepted, err
	}
	c := ds.askedClient(who, session, t.ID)
	list, err := ds.questions.pendingOf(ctx, c, t)
	if err != nil {
		return notAccepted, err
	}
	for _, q := range list {
		if q.id != r.question {
			continue
		}
		accepted, err := ds.replyTo(ctx, c, session, q, r.result)
		if accepted == notAccepted && q.method == methodSample && r.final && !isTemporary(err) {
			return ds.decline(ctx, c, q)
		}
		return accepted, err
	}
	ds.completePage(session, r.question, r.result)
	return answerAccepted, nil // another answer was first
}

// decline records that the model of a client does not answer a question.
func (ds *relays) decline(ctx context.Context, c client, q question) (replyOutcome, error) {
	_, err := ds.cfg.API.Answer(ctx, api.AnswerRequest{Question: q.id, Declined: true, Actor: c.who.Name})
	if err != nil && !fault.Has(err, fault.Conflict) {
		return notAccepted, err
	}
	return answerAccepted, nil
}

// completePage tells a client whose user has opened the page of an approval that the approval is already decided: the decision
// there can be faster than the message that the user goes there.
func (ds *relays) completePage(session, question string, result json.RawMessage) {
	var r mcp.ElicitResult
	decode(result, &r)
	if _, err := events.TaskOfApproval(question); err == nil && r.Action == "accept" && len(r.Content) == 0 {
		ds.notifyComplete(session, question)
	}
}

// replyTo delivers the answer of a client to an open question.
func (ds *relays) replyTo(ctx context.Context, c client, session string, q question, result json.RawMessage) (replyOutcome, error) {
	if len(result) == 0 {
		return notAccepted, nil
	}
	response, err := cleanResponse(q, result)
	if err != nil {
		return notAccepted, err
	}
	if q.kind == approvalPage {
		return opensPage(response), nil
	}
	accepted, err := ds.questions.answer(ctx, c, q, response)
	if link := q.link(); link != "" && err == nil {
		ds.notifyComplete(session, link)
	}
	if accepted {
		return answerAccepted, err
	}
	return notAccepted, err
}

// opensPage returns whether the user goes to the page of a link.
func opensPage(response json.RawMessage) replyOutcome {
	var r mcp.ElicitResult
	decode(response, &r)
	if r.Action == "accept" {
		return pageOpened
	}
	return notAccepted
}

// notifyComplete notifies a client that what its user did on a web page is complete (S2-054).
func (ds *relays) notifyComplete(session, link string) {
	ds.clients.streams.notify(session, "notifications/elicitation/complete", object{"elicitationId": link})
}

// askedClient returns the client of a session that was asked about a task.
func (ds *relays) askedClient(who Identity, session string, task events.TaskID) client {
	known := ds.clients.sessions.get(session)
	known.mu.Lock()
	defer known.mu.Unlock()
	if d := known.relays[task]; d != nil {
		return d.c
	}
	c := clientOfInitialize(known.Initialize)
	c.who = who
	return c
}

// clientOfInitialize returns the client described by an initialize request.
func clientOfInitialize(request json.RawMessage) client {
	var p struct {
		Params struct {
			Capabilities json.RawMessage `json:"capabilities"`
		} `json:"params"`
	}
	decode(request, &p)
	return clientWith(p.Params.Capabilities)
}

// clientWith returns a client with declared capabilities.
func clientWith(capabilities json.RawMessage) client {
	c := client{caps: &mcp.ClientCapabilities{}}
	decode(capabilities, c.caps)
	var declared map[string]any
	decode(capabilities, &declared)
	c.roots = declared["roots"] != nil
	return c
}

// cleanResponse returns the client's response to a question, without unknown fields.
func cleanResponse(q question, result json.RawMessage) (json.RawMessage, error) {
	var into any
	switch q.method {
	case methodElicit:
		into = &mcp.ElicitResult{}
	case methodSample:
		into = &mcp.CreateMessageWithToolsResult{}
	default:
		into = &mcp.ListRootsResult{}
	}
	if err := json.Unmarshal(result, into); err != nil {
		return nil, fault.New(fault.ValidationError, "is not a result of %s", q.method).WithField(q.key)
	}
	return json.Marshal(into)
}

// params returns the parameters of the request that asks a question.
func (d *relay) params(q question) (json.RawMessage, error) {
	request := inputRequest(q)
	if p, ok := request.(*mcp.ElicitParams); ok && p.Mode == "" {
		p.Mode = "form"
	}
	raw, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	d.session.mu.Lock()
	related := d.related
	d.session.mu.Unlock()
	if !related {
		return raw, nil
	}
	fields := fieldsOf(json.RawMessage(raw))
	fields["_meta"] = object{relatedTask: object{"taskId": string(d.task)}}
	return mustJSON(fields), nil
}

// isTemporary reports whether an answer was refused for a temporary reason, such as an unreachable node.
func isTemporary(err error) bool {
	return fault.Has(err, fault.Unavailable) || fault.Has(err, fault.Timeout)
}

package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// questionPrefix begins the ids of the requests that put questions. The rest is signed: an answer is that to its own question, also
// after a restart of the node, and no other process, session or identity can have given the id out.
const questionPrefix = "question:"

// questionID is the id of the request that puts a question to the client of a session.
func (ds *relays) questionID(who Identity, session string, task events.TaskID, question string) string {
	return questionPrefix + ds.questions.seal.seal(sealOwner(who, session), string(task)+" "+question+" "+rand.Text()[:8])
}

func sealOwner(who Identity, session string) string { return who.Name + "\n" + session + "\nquestion" }

// openQuestionID is what the id of an answer says of its question; false for an id that was not given out for one.
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

// handleReply takes the answer to a question, for which its session is opened again if need be; false for any other message.
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

// isReply reports whether a message answers a question that was put to the client of a session.
func (ds *relays) isReply(who Identity, session string, p envelope) bool {
	var id string
	_ = json.Unmarshal(p.ID, &id)
	_, _, ok := ds.openQuestionID(who, session, id)
	return ok
}

// handleReply takes a message that answers a question; false when it is none.
func (ds *relays) handleReply(ctx context.Context, who Identity, session string, p envelope) bool {
	var id string
	_ = json.Unmarshal(p.ID, &id)
	task, question, ok := ds.openQuestionID(who, session, id)
	if !ok {
		return false
	}
	taken, err := ds.reply(ctx, who, session, task, question, p.Result)
	if !taken {
		ds.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "mcp_question_not_answered", slog.String("question", question), slog.Any("error", err),
			slog.String("client", string(p.Error)))
	}
	known := ds.clients.sessions.get(session)
	known.mu.Lock()
	d := known.relays[events.TaskID(task)]
	known.mu.Unlock()
	if d != nil {
		d.recordAnswer(question, id, taken, err)
	}
	return true
}

// reply hands over the answer of a client to a question; false when that decides nothing. A client that says it cannot, or fills a
// form in wrongly, has decided nothing, as one whose user puts the form away (S2-053).
func (ds *relays) reply(ctx context.Context, who Identity, session, task, question string, result json.RawMessage) (bool, error) {
	if len(result) == 0 {
		return false, nil
	}
	t, err := ds.taskOf(ctx, who, task)
	if err != nil {
		return false, err
	}
	c := ds.askedClient(who, session, t.ID)
	list, err := ds.questions.pendingOf(ctx, c, t)
	if err != nil {
		return false, err
	}
	for _, q := range list {
		if q.id != question {
			continue
		}
		response, err := cleanResponse(q, result)
		if err != nil {
			return false, err
		}
		taken, err := ds.questions.answer(ctx, c, q, response)
		if link := q.link(); link != "" && err == nil { // S2-054
			ds.clients.streams.notify(session, "notifications/elicitation/complete", object{"elicitationId": link})
		}
		return taken, err
	}
	return true, nil // somebody else was first
}

// askedClient is the client of a session that was asked about a task.
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

// clientOfInitialize is the client that has opened a session with a request.
func clientOfInitialize(request json.RawMessage) client {
	var p struct {
		Params struct {
			Capabilities json.RawMessage `json:"capabilities"`
		} `json:"params"`
	}
	decode(request, &p)
	return clientThat(p.Params.Capabilities)
}

// clientThat is a client that has declared capabilities.
func clientThat(capabilities json.RawMessage) client {
	c := client{caps: &mcp.ClientCapabilities{}}
	decode(capabilities, c.caps)
	var declared map[string]any
	decode(capabilities, &declared)
	c.roots = declared["roots"] != nil
	return c
}

// cleanResponse is the result of a request that puts a question, without what does not belong there.
func cleanResponse(q question, result json.RawMessage) (json.RawMessage, error) {
	var into any
	switch q.method {
	case methodElicit:
		into = &mcp.ElicitResult{}
	case methodSample:
		into = &mcp.CreateMessageResult{}
	default:
		into = &mcp.ListRootsResult{}
	}
	if err := json.Unmarshal(result, into); err != nil {
		return nil, fault.New(fault.ValidationError, "is no result of %s", q.method).WithField(q.key)
	}
	return json.Marshal(into)
}

// params are the parameters of the request that puts a question.
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

// isPassing reports whether an answer was refused for a reason that passes, such as a node that is away.
func isPassing(err error) bool {
	return fault.Has(err, fault.Unavailable) || fault.Has(err, fault.Timeout)
}

package destinations

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// The types of events.
const (
	TaskSubmitted = "task.submitted"
	TaskStarted   = "task.started"
	TaskBlocked   = "task.blocked"
	TaskPaused    = "task.paused"
	TaskResumed   = "task.resumed"
	TaskCompleted = "task.completed"
	TaskFailed    = "task.failed"
	TaskCancelled = "task.cancelled"

	ApprovalRequested = "approval.requested"
	ApprovalGranted   = "approval.granted"
	ApprovalRejected  = "approval.rejected"
	ApprovalExpired   = "approval.expired"

	QuestionAsked    = "question.asked"
	QuestionAnswered = "question.answered"
	QuestionExpired  = "question.expired"

	// Test is the type of the deliveries of orch destination test.
	Test = "orch.test"
)

// Types returns the types of events that a definition can ask for.
func Types() []string {
	return []string{
		TaskSubmitted, TaskStarted, TaskBlocked, TaskPaused, TaskResumed, TaskCompleted, TaskFailed, TaskCancelled,
		ApprovalRequested, ApprovalGranted, ApprovalRejected, ApprovalExpired, QuestionAsked, QuestionAnswered, QuestionExpired,
	}
}

// TypeOf returns the type of an event of the log; "" if no destination hears of it.
func TypeOf(kind events.Kind) string {
	switch kind {
	case events.TaskSubmitted:
		return TaskSubmitted
	case events.TaskStarted:
		return TaskStarted
	case events.TaskBlocked, events.TaskExpired:
		return TaskBlocked
	case events.TaskPaused:
		return TaskPaused
	case events.TaskResumed, events.TaskUnblocked:
		return TaskResumed
	case events.TaskFinished, events.TaskFinalized:
		return TaskCompleted
	case events.TaskFailed, events.TaskRejected:
		return TaskFailed
	case events.TaskCancelled:
		return TaskCancelled
	case events.ApprovalRequested:
		return ApprovalRequested
	case events.ApprovalGranted:
		return ApprovalGranted
	case events.ApprovalRejected:
		return ApprovalRejected
	case events.ApprovalExpired:
		return ApprovalExpired
	case events.QuestionAsked:
		return QuestionAsked
	case events.QuestionAnswered:
		return QuestionAnswered
	case events.QuestionExpired:
		return QuestionExpired
	default:
		return ""
	}
}

// Event is the body of a delivery.
type Event struct {
	Type string `json:"type"`
	// Timestamp is when it happened.
	Timestamp time.Time `json:"timestamp"`
	Data      Data      `json:"data"`
}

// Data says what has happened. It holds no inputs, arguments, results and messages of errors: they may be large or confidential.
type Data struct {
	Task string `json:"task,omitempty"`
	Name string `json:"name,omitempty"`
	// Revision is the revision of the task with which it happened.
	Revision  uint64            `json:"revision,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Requestor string            `json:"requestor,omitempty"`
	// Reason is what somebody has said about a cancellation, a pause or a decision.
	Reason string `json:"reason,omitempty"`
	// Block is why a task is blocked: dependency, input, resource, error or expired.
	Block     string     `json:"block,omitempty"`
	ErrorCode fault.Code `json:"error_code,omitempty"`
	Approval  *Approval  `json:"approval,omitempty"`
	Question  *Question  `json:"question,omitempty"`
	// URL is the page of the task, of the approval or of the question, if the node has one.
	URL string `json:"url,omitempty"`
}

// Approval describes an approval. All but the id and the approver is only in approval.requested.
type Approval struct {
	ID          string     `json:"id"`
	Step        string     `json:"step,omitempty"`
	Type        string     `json:"type,omitempty"`
	Tool        string     `json:"tool,omitempty"`
	Risk        string     `json:"risk,omitempty"`
	Description string     `json:"description,omitempty"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
	Approver    string     `json:"approver,omitempty"`
}

// Question describes a question. All but the id, the action and who has answered is only in question.asked.
type Question struct {
	ID   string `json:"id"`
	Step string `json:"step,omitempty"`
	// Kind is elicitation for a question to a person, sampling or roots for one to the client.
	Kind      string     `json:"kind,omitempty"`
	Message   string     `json:"message,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	// By is who has answered, Action is accept, decline or cancel. What was answered is in no body.
	By     string `json:"by,omitempty"`
	Action string `json:"action,omitempty"`
}

// messageOf returns the text of a question to a person; empty for others, and for one that is stored apart because it is large.
func messageOf(q *events.Question) string {
	var params struct{ Message string }
	if q.Kind != events.Elicitation || json.Unmarshal(q.Params.Raw, &params) != nil {
		return ""
	}
	return params.Message
}

// Facts are what a delivery says about the task of an event.
type Facts struct {
	Name, Requestor string
	Labels          map[string]string
	// Internal is set for an internal task (events.OwnPrefix), such as a part of a for_each; destinations do not hear of it.
	Internal bool
	// Hops is how many deliveries of destinations have led to the task, as its hook has recorded it. Parent is its parent; empty for none.
	Hops   int
	Parent events.TaskID
}

// FactsOf returns the facts of the first commit of a task.
func FactsOf(first *events.Commit) Facts {
	f := Facts{Requestor: first.Actor}
	for _, e := range first.Events {
		if s, ok := e.Data.(*events.Submitted); ok {
			f.Name, f.Labels, f.Internal = s.Name, s.Labels, strings.HasPrefix(s.Name, events.OwnPrefix)
			if s.Hook != nil {
				f.Hops = s.Hook.Hops
			}
			if s.Parent != nil {
				f.Parent = s.Parent.Task
			}
		}
	}
	return f
}

const (
	// maxText bounds a text in a body, MaxBody a body, in bytes.
	maxText = 500
	// MaxBody is the size from which a body leaves out the labels, in bytes.
	MaxBody = 20 << 10
)

// New returns the event at an index of a commit; false if destinations do not hear of it. redact removes secrets from texts.
func New(c *events.Commit, index int, f Facts, redact func(string) string) (Event, bool) {
	if index < 0 || index >= len(c.Events) || f.Internal {
		return Event{}, false
	}
	of := c.Events[index]
	e := Event{Type: TypeOf(of.Kind), Timestamp: c.At, Data: Data{
		Task: string(c.Task), Name: redact(f.Name), Revision: c.Rev, Labels: f.Labels, Requestor: f.Requestor,
	}}
	text := func(s string) string { return fault.Clip(redact(s), maxText) }
	switch d := of.Data.(type) {
	case *events.Moved:
		e.Data.Block = d.Block
		if e.Type == TaskCancelled { // other reasons are messages of errors
			e.Data.Reason = text(d.Reason)
		}
		if d.Error != nil {
			e.Data.ErrorCode = d.Error.Code
		}
	case *events.Paused:
		e.Data.Reason = text(d.Reason)
	case *events.Approval:
		e.Data.Approval = &Approval{
			ID: d.ID, Step: d.Step, Type: d.Type, Tool: d.Tool, Risk: d.Risk, Description: text(d.Description), ExpiresAt: &d.ExpiresAt,
		}
	case *events.Decision:
		e.Data.Approval, e.Data.Reason = &Approval{ID: d.ID, Approver: d.Approver}, text(d.Reason)
	case *events.Elapsed:
		e.Data.Approval = &Approval{ID: d.ID}
	case *events.Question:
		e.Data.Question = &Question{ID: d.ID, Step: d.Step, Kind: d.Kind, Message: text(messageOf(d)), ExpiresAt: &d.ExpiresAt}
	case *events.Answer:
		e.Data.Question = &Question{ID: d.ID, By: d.By, Action: d.Action}
	case *events.Unanswered:
		e.Data.Question = &Question{ID: d.ID}
	}
	return e, e.Type != ""
}

// Encode returns the body of a delivery.
func (e Event) Encode() ([]byte, error) {
	data, err := json.Marshal(e)
	if err == nil && len(data) > MaxBody {
		e.Data.Labels = nil
		data, err = json.Marshal(e)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "an event cannot be encoded")
	}
	return data, nil
}

// ID returns the id of the delivery of an event, which names its place in the log. So a delivery has the same id after a crash.
func ID(task events.TaskID, rev uint64, index int) string {
	return strings.Join([]string{string(task), strconv.FormatUint(rev, 10), strconv.Itoa(index)}, "-")
}

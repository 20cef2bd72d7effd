package httpapi

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/orch-dev/orch/fault"
)

// errorResponse is ErrorResponse of the S3 rules (S3-130). Its data has additional fields.
type errorResponse struct {
	Code    int       `json:"code"`
	Message string    `json:"message"`
	Data    errorData `json:"data"`
}

type errorData struct {
	// Name is the name of the code in fault.Registry.
	Name fault.Code `json:"name"`
	// Field is the name of the invalid input, Value its value, without secrets.
	Field string          `json:"field,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
	// Reason is the name that the S3 rules give the error, or the name of the code. For the codes of JSON-RPC itself, which have
	// fixed messages, Reason describes the problem.
	Reason     string `json:"reason"`
	Suggestion string `json:"suggestion,omitempty"`
	// Task, Approval and Question are those of Reply.
	Task     string `json:"task,omitempty"`
	Approval string `json:"approval,omitempty"`
	Question string `json:"question,omitempty"`
	// ApprovalID repeats Approval with the name that the S0 rules require, Rule is that of Reply (S0-004).
	ApprovalID string `json:"approval_id,omitempty"`
	Rule       string `json:"rule,omitempty"`
	// RetryAt is when to retry.
	RetryAt *time.Time `json:"retry_at,omitempty"`
	// RetryAfter is RetryAt in seconds from now (S0-113).
	RetryAfter *int `json:"retry_after,omitempty"`
	// Request is the id of the request in the log of the node.
	Request string `json:"request_id,omitempty"`
}

// standardMessage returns the standard message of a code of JSON-RPC itself, "" for other codes.
func standardMessage(c fault.Code) string {
	switch c {
	case fault.ParseError:
		return "Parse error"
	case fault.InvalidRequest:
		return "Invalid Request"
	case fault.MethodNotFound:
		return "Method not found"
	case fault.InvalidParams:
		return "Invalid params"
	case fault.Internal:
		return "Internal error"
	default:
		return ""
	}
}

// errorOf converts an error to a response. params are the params of the request, from which it takes the value of the invalid field.
func (e *endpoint) errorOf(err error, params json.RawMessage, request string, reply Reply) *errorResponse {
	f := fault.From(err).Rewrite(e.redact)
	out := &errorResponse{Code: f.Code.RPC(), Message: f.Message, Data: errorData{
		Name: f.Code, Field: f.Field, Reason: f.Reason, Suggestion: f.Hint, Task: reply.Task, Approval: reply.Approval, Question: reply.Question,
		ApprovalID: reply.Approval, Rule: reply.Rule, Request: request,
	}}
	if f.Reason == "" {
		out.Data.Reason = string(f.Code)
	}
	if !f.RetryAt.IsZero() {
		out.Data.RetryAt = new(f.RetryAt.UTC())
		out.Data.RetryAfter = new(f.RetryAfter(time.Now()))
	}
	if message := standardMessage(f.Code); message != "" {
		out.Message = message
		if f.Code != fault.Internal {
			out.Data.Reason = f.Sentence()
		}
	}
	if inRange(out.Code, validation) && f.Field != "" {
		out.Data.Value = e.valueOf(params, f.Field)
	}
	return out
}

// redact removes secrets from a text.
func (e *endpoint) redact(text string) string {
	clean, _ := e.cfg.Redact([]byte(text))
	return string(clean)
}

// validation is the start of the range of codes for invalid inputs: -32300 to -32399.
const validation = -32300

func inRange(code, begin int) bool { return code <= begin && code > begin-100 }

// maxShown is the most bytes of a value in an error.
const maxShown = 256

var hidden = json.RawMessage(`"[redacted]"`)

// valueOf returns the value of a field, such as filters.owner or labels[2], for an error; nil if there is none.
func (e *endpoint) valueOf(params json.RawMessage, field string) json.RawMessage {
	value := params
	for _, part := range strings.FieldsFunc(field, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		if value = member(value, part); value == nil {
			return nil
		}
		if secretName(part) {
			return hidden
		}
	}
	clean, changed := e.cfg.Redact(value)
	switch {
	case changed || !json.Valid(clean):
		return hidden
	case len(clean) > maxShown:
		return json.RawMessage(strconv.Quote("(" + strconv.Itoa(len(clean)) + " bytes)"))
	default:
		return clean
	}
}

// member returns a member of an object, or an element of a list, nil if there is none.
func member(value json.RawMessage, name string) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(value, &object) == nil {
		return object[name]
	}
	var list []json.RawMessage
	if i, err := strconv.Atoi(name); err == nil && json.Unmarshal(value, &list) == nil && i >= 0 && i < len(list) {
		return list[i]
	}
	return nil
}

// secretName reports whether the name of a field indicates a secret.
func secretName(name string) bool {
	letters := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
	for _, word := range []string{"password", "passwd", "passphrase", "secret", "token", "credential", "apikey", "privatekey", "authorization"} {
		if strings.Contains(letters, word) {
			return true
		}
	}
	return false
}

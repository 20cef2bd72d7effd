package hooks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"

	"github.com/orch-dev/orch/fault"
)

// idForm is the form of the ids of deliveries.
var idForm = regexp.MustCompile(`^[!-~]{1,128}$`)

// body are the fields of bodies that say which delivery it is. All may be missing.
type body struct {
	ID        string `json:"id"`
	Type      string `json:"type"`
	EventID   string `json:"event_id"`
	TriggerID string `json:"trigger_id"`
	Challenge string `json:"challenge"`
	Event     struct {
		Type string `json:"type"`
	} `json:"event"`
}

// read reads the fields that are there with the right type.
func read(data json.RawMessage) body {
	var b body
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return b
	}
	for name, to := range map[string]any{
		"id": &b.ID, "type": &b.Type, "event_id": &b.EventID, "trigger_id": &b.TriggerID, "challenge": &b.Challenge, "event": &b.Event,
	} {
		if raw, found := fields[name]; found {
			_ = json.Unmarshal(raw, to) // a field of another type is none
		}
	}
	return b
}

// IDOf returns the id of a delivery, which its repetitions have too; empty if the provider has none and the sender has sent no
// Idempotency-Key. raw is the body as it arrived, data the same as JSON. Errors: VALIDATION_ERROR for a delivery without its id.
func IDOf(p Provider, h Headers, raw []byte, data json.RawMessage) (string, error) {
	var id, name string
	switch b := read(data); p {
	case GitHub:
		id, name = h[headerGitHubID], headerGitHubID
	case Stripe:
		id, name = b.ID, "id of the body"
	case Slack: // commands and interactions have no event
		id, name = firstOf(b.EventID, b.TriggerID, digestOf(h[headerSlackTime], raw)), "event_id of the body"
	case Standard:
		id, name = h[headerStandardID], headerStandardID
	default:
		if id, name = h[headerIdempotency], headerIdempotency; id == "" {
			return "", nil
		}
	}
	switch {
	case id == "":
		return "", fault.New(fault.ValidationError, "the delivery has no %s", name)
	case !idForm.MatchString(id):
		return "", fault.New(fault.ValidationError, "the %s is not 1 to 128 visible characters of ASCII", name)
	default:
		return id, nil
	}
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// digestOf returns an id that follows from a time and a body.
func digestOf(at string, raw []byte) string {
	sum := sha256.Sum256(append([]byte(at+":"), raw...))
	return "sha256-" + hex.EncodeToString(sum[:16])
}

// EventOf returns what the sender calls the kind of a delivery, such as push; empty if it is not known.
func EventOf(p Provider, h Headers, data json.RawMessage) string {
	var event string
	switch b := read(data); p {
	case GitHub:
		event = h[headerGitHubEvent]
	case Slack:
		event = firstOf(b.Event.Type, b.Type)
	default:
		event = b.Type
	}
	if !idForm.MatchString(event) {
		return ""
	}
	return event
}

// Greeting returns whether a delivery only asks whether the hook is there, and the challenge that the sender expects in the answer.
func Greeting(p Provider, h Headers, data json.RawMessage) (challenge string, is bool) {
	switch p {
	case GitHub:
		return "", h[headerGitHubEvent] == "ping"
	case Slack:
		b := read(data)
		const longest = 1024
		return b.Challenge, b.Type == "url_verification" && len(b.Challenge) <= longest
	default:
		return "", false
	}
}

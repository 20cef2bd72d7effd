package decide

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// Clock formats a time for a sentence.
func Clock(at time.Time) string { return at.Format("2006-01-02 15:04:05 MST") }

// Clip truncates a text from a client for a message.
func Clip(s string) string { return fault.Clip(s, 64) }

// times returns n as "once" or "n times".
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}

// count returns a number of things, such as 1 call or 2 calls.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return strconv.Itoa(n) + " " + thing
}

func joinOrNone(list []string) string {
	if len(list) == 0 {
		return "nothing beside the call"
	}
	return strings.Join(list, ", ")
}

// dropDuplicateKeys removes duplicate keys of an object, so that people see the values that take effect.
func dropDuplicateKeys(raw json.RawMessage) json.RawMessage {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return raw
	}
	return MustJSON(v)
}

// MustJSON encodes values that can always be encoded: maps, strings and decoded JSON.
func MustJSON(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return data
}

// SecretIn returns the error for a field that contains a secret. rule is the rule that found it.
func SecretIn(field, rule string) error {
	return fault.New(fault.SecretDetected, "holds what looks like a secret (%s); the log keeps everything permanently", rule).
		WithField(field).WithHint("let the tool read it from the environment or a file of the worker")
}

// QueueName returns the name of a queue; "" is the default queue.
func QueueName(name string) string {
	if name == "" {
		return work.DefaultQueue
	}
	return name
}

// WantedAgents returns a text that describes the agents that a call waits for.
func WantedAgents(a *events.Agents) string {
	text := "an agent"
	if a.Agent != "" {
		text = "the agent " + a.Agent
	}
	if a.Type != "" {
		text += " of the type " + a.Type
	}
	if len(a.Requires) > 0 {
		text += " capable of " + strings.Join(a.Requires, ", ")
	}
	return text
}

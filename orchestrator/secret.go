package orchestrator

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/plan"
)

// secretPlace returns the position of a secret in a plan: the name of an argument for a single call, the path of a field for a
// plan as JSON, the line for a plan as text. It returns "plan" if the secret is in no single field or line.
func (cl *cleaner) secretPlace(text []byte) string {
	var p struct {
		Steps []map[string]json.RawMessage `json:"steps"`
	}
	var lines string
	switch {
	case json.Unmarshal(text, &lines) == nil:
		return cl.secretLine(lines)
	case json.Unmarshal(text, &p) != nil:
		return "plan"
	}
	for i, step := range p.Steps {
		var id string
		_ = json.Unmarshal(step["id"], &id) // a step without an id gets its index as name
		position := "steps[" + strconv.Itoa(i) + "]"
		part := cl.secretPart(step)
		switch {
		case part == "":
			continue
		case part != "with":
			return position + "." + part
		}
		var args map[string]json.RawMessage
		_ = json.Unmarshal(step["with"], &args) // without fields, the secret is in the value as a whole
		switch arg := cl.secretPart(args); {
		case arg == "":
			return position + ".with"
		case id == plan.CallID && len(p.Steps) == 1:
			return arg
		default:
			return position + ".with." + arg
		}
	}
	return "plan"
}

// secretPart returns the name of the first field that contains a secret. Some secrets are recognized only by the name of the
// field, so the name is searched together with the value.
func (cl *cleaner) secretPart(fields map[string]json.RawMessage) string {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field, err := json.Marshal(map[string]json.RawMessage{name: fields[name]})
		if err != nil {
			continue
		}
		if _, found := cl.cfg.FindSecret(field); found {
			return name
		}
	}
	return ""
}

// secretLine returns "plan:" and the number of the first line that contains a secret.
func (cl *cleaner) secretLine(text string) string {
	n := 0
	for line := range strings.Lines(text) {
		n++
		if _, found := cl.cfg.FindSecret([]byte(line)); found {
			return "plan:" + strconv.Itoa(n)
		}
	}
	return "plan"
}

package orchestrator

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/plan"
)

// secretPlace returns the part of a plan that contains a secret: an argument by name for a single call, by path for a step, a
// line number for a text. It returns "plan" if no single part contains it.
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
		way := "steps[" + strconv.Itoa(i) + "]"
		part := cl.secretPart(step)
		switch {
		case part == "":
			continue
		case part != "with":
			return way + "." + part
		}
		var args map[string]json.RawMessage
		_ = json.Unmarshal(step["with"], &args) // then the secret is in the whole value
		switch arg := cl.secretPart(args); {
		case arg == "":
			return way + ".with"
		case id == plan.CallID && len(p.Steps) == 1:
			return arg
		default:
			return way + ".with." + arg
		}
	}
	return "plan"
}

// secretPart returns the name of the first field that contains a secret, with its name or by itself.
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

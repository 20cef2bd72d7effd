package schedules

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/orch-dev/orch/fault"
)

// MaxText bounds the text of a definition.
const MaxText = 256 << 10

// Definition is a Spec with what its firings submit.
type Definition struct {
	Spec

	// Plan is the plan of the tasks: in a file, its path or the plan itself.
	Plan json.RawMessage `json:"plan,omitempty"`
	// Inputs are the inputs of each task.
	Inputs json.RawMessage `json:"inputs,omitempty"`
	// Note says what the schedule is for.
	Note string `json:"note,omitempty"`
}

// Parse reads a definition in YAML or JSON and checks it. It accepts each of cron, interval and calendar as one value or as a
// list. Errors: PARSE_ERROR; those of Compile; INVALID_PARAMS for an unknown field. They name the field.
func Parse(data []byte) (Definition, error) {
	var d Definition
	if len(data) > MaxText {
		return d, fault.New(fault.ValidationError, "the definition has %d bytes; the limit is %d", len(data), MaxText)
	}
	var tree, more any
	documents := yaml.NewDecoder(bytes.NewReader(data))
	if err := documents.Decode(&tree); err != nil && !errors.Is(err, io.EOF) {
		return d, fault.New(fault.ParseError, "the definition is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if documents.Decode(&more) == nil {
		return d, fault.New(fault.ParseError, "the file has several documents").WithHint("a file defines one schedule")
	}
	normal, err := json.Marshal(tree)
	if err != nil {
		return d, fault.Wrap(fault.ParseError, err, "the definition has keys that are not texts")
	}
	if err := decodeDefinition(normal, &d); err != nil {
		return d, err
	}
	_, err = Compile(d.Spec)
	return d, err
}

func decodeDefinition(data []byte, d *Definition) error {
	if d := bytes.TrimSpace(data); len(d) == 0 || d[0] != '{' {
		return fault.New(fault.ParseError, "the definition is not an object").WithHint("such as plan: report.yaml and cron: 30 2 * * *")
	}
	return object(data, "", map[string]func(json.RawMessage, string) error{
		"cron":     list(&d.Cron, value[string]),
		"interval": list(&d.Interval, decodeInterval),
		"calendar": list(&d.Calendar, decodeCalendar),
		"timezone": into(&d.Timezone), "overlap": into(&d.Overlap), "jitter": into(&d.Jitter), "note": into(&d.Note),
		"from": instant(&d.From), "until": instant(&d.Until), "catch_up": into(&d.CatchUp),
		"plan": raw(&d.Plan), "inputs": raw(&d.Inputs),
	})
}

func decodeInterval(data json.RawMessage, field string, i *Interval) error {
	if bytes.HasPrefix(data, []byte(`"`)) {
		return value(data, field+".every", &i.Every)
	}
	return object(data, field, map[string]func(json.RawMessage, string) error{"every": into(&i.Every), "offset": into(&i.Offset)})
}

func decodeCalendar(data json.RawMessage, field string, c *Calendar) error {
	return object(data, field, map[string]func(json.RawMessage, string) error{
		"minute": into(&c.Minute), "hour": into(&c.Hour), "day": into(&c.Day),
		"month": into(&c.Month), "weekday": into(&c.Weekday), "year": into(&c.Year),
	})
}

// object decodes the members of an object with the functions of its fields.
func object(data json.RawMessage, path string, fields map[string]func(json.RawMessage, string) error) error {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return fault.New(fault.InvalidFormat, "is not an object").WithField(path)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) { // the same error for the same input
		field := name
		if path != "" {
			field = path + "." + name
		}
		decode := fields[name]
		if decode == nil {
			return fault.New(fault.InvalidParams, "is not known").WithField(clip(field)).WithHint("known are %s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		if string(members[name]) == "null" {
			return fault.New(fault.InvalidFormat, "has no value").WithField(field)
		}
		if err := decode(members[name], field); err != nil {
			return err
		}
	}
	return nil
}

// value decodes a value of a field.
func value[T any](data json.RawMessage, field string, target *T) error {
	if err := json.Unmarshal(data, target); err != nil {
		return fault.New(fault.InvalidFormat, "%s", problem(err)).WithField(field)
	}
	return nil
}

// problem returns the sentence about a value that cannot be decoded.
func problem(err error) string {
	if strings.HasPrefix(err.Error(), "json: ") {
		return "has the wrong type"
	}
	return err.Error()
}

func into[T any](target *T) func(json.RawMessage, string) error {
	return func(data json.RawMessage, field string) error { return value(data, field, target) }
}

func raw(target *json.RawMessage) func(json.RawMessage, string) error {
	return func(data json.RawMessage, _ string) error { *target = data; return nil }
}

func instant(target **time.Time) func(json.RawMessage, string) error {
	return func(data json.RawMessage, field string) error {
		var at time.Time
		if json.Unmarshal(data, &at) != nil {
			return fault.New(fault.InvalidFormat, "is not a time such as 2026-12-24T18:00:00Z").WithField(field)
		}
		*target = &at
		return nil
	}
}

// list decodes one value, or an array of them.
func list[T any](target *[]T, decode func(json.RawMessage, string, *T) error) func(json.RawMessage, string) error {
	return func(data json.RawMessage, field string) error {
		items := []json.RawMessage{data}
		if bytes.HasPrefix(data, []byte("[")) {
			if err := value(data, field, &items); err != nil {
				return err
			}
		}
		*target = make([]T, len(items))
		for i, item := range items {
			if err := decode(item, at(field, i), &(*target)[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

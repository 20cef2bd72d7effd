package schedules

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/definition"
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
	file := definition.Kind{Name: "schedule", Example: "plan: report.yaml and cron: 30 2 * * *", Most: MaxText}
	fields, err := file.Read(data)
	if err != nil {
		return d, err
	}
	if err := decodeDefinition(fields, &d); err != nil {
		return d, err
	}
	_, err = Compile(d.Spec)
	return d, err
}

func decodeDefinition(data json.RawMessage, d *Definition) error {
	return object(data, "", map[string]definition.Decode{
		"cron":     list(&d.Cron, definition.Value[string]),
		"interval": list(&d.Interval, decodeInterval),
		"calendar": list(&d.Calendar, decodeCalendar),
		"timezone": definition.Into(&d.Timezone), "overlap": definition.Into(&d.Overlap), "jitter": definition.Into(&d.Jitter), "note": definition.Into(&d.Note),
		"from": instant(&d.From), "until": instant(&d.Until), "catch_up": definition.Into(&d.CatchUp),
		"plan": definition.Into(&d.Plan), "inputs": definition.Into(&d.Inputs),
	})
}

func decodeInterval(data json.RawMessage, field string, i *Interval) error {
	if bytes.HasPrefix(data, []byte(`"`)) {
		return definition.Value(data, field+".every", &i.Every)
	}
	return object(data, field, map[string]definition.Decode{"every": definition.Into(&i.Every), "offset": definition.Into(&i.Offset)})
}

func decodeCalendar(data json.RawMessage, field string, c *Calendar) error {
	return object(data, field, map[string]definition.Decode{
		"minute": definition.Into(&c.Minute), "hour": definition.Into(&c.Hour), "day": definition.Into(&c.Day),
		"month": definition.Into(&c.Month), "weekday": definition.Into(&c.Weekday), "year": definition.Into(&c.Year),
	})
}

// object decodes an object, whose members all have a value.
func object(data json.RawMessage, path string, fields map[string]definition.Decode) error {
	strict := map[string]definition.Decode{}
	for name, decode := range fields {
		strict[name] = func(data json.RawMessage, field string) error {
			if string(data) == "null" {
				return fault.New(fault.InvalidFormat, "has no value").WithField(field)
			}
			return decode(data, field)
		}
	}
	return definition.Object(data, path, strict)
}

func instant(target **time.Time) definition.Decode {
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
func list[T any](target *[]T, decode func(json.RawMessage, string, *T) error) definition.Decode {
	return func(data json.RawMessage, field string) error {
		items := []json.RawMessage{data}
		if bytes.HasPrefix(data, []byte("[")) {
			if err := definition.Value(data, field, &items); err != nil {
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

// CheckName returns an INVALID_FORMAT error unless a schedule may have a name.
func CheckName(name string) error { return definition.CheckName("schedule", name) }

package destinations

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/internal/definition"
)

// Definition says where events are delivered, and which.
type Definition struct {
	// URL takes the deliveries. It is https, or http at a loopback address.
	URL string `json:"url"`
	// Events are types, such as task.failed, or groups, such as approval.*; empty for all.
	Events []string `json:"events,omitempty"`
	// Labels are labels that the task must have.
	Labels map[string]string `json:"labels,omitempty"`
	// When is an expression that chooses events. It sees the body of the delivery as hook.body; empty for all.
	When string `json:"when,omitempty"`
	// Note says what the destination is for.
	Note string `json:"note,omitempty"`
}

// Limits of a definition.
const (
	// MaxText bounds a definition, in bytes.
	MaxText = 16 << 10
	// MaxEvents bounds Definition.Events.
	MaxEvents = 32
	// MaxLabels bounds Definition.Labels.
	MaxLabels = 32
	// MaxURL bounds the URL, in bytes.
	MaxURL = 2048
)

// Parse reads a definition in YAML or JSON and checks it. Errors: PARSE_ERROR, INVALID_PARAMS for an unknown field, and those of Check.
// They name the field.
func Parse(data []byte) (Definition, error) {
	var d Definition
	fields, err := definition.Kind{Name: "destination", Example: "url: https://example.com/orch and events: [task.failed]", Most: MaxText}.Read(data)
	if err != nil {
		return d, err
	}
	err = definition.Object(fields, "", map[string]definition.Decode{
		"url": definition.Into(&d.URL), "events": definition.Into(&d.Events), "labels": definition.Into(&d.Labels),
		"when": definition.Into(&d.When), "note": definition.Into(&d.Note),
	})
	if err != nil {
		return d, err
	}
	return d, d.Check()
}

// CheckName returns an INVALID_FORMAT error unless a destination may have a name.
func CheckName(name string) error { return definition.CheckName("destination", name) }

// CheckSecret returns an error unless a text is a secret of Standard Webhooks: whsec_ and base64 of 24 to 64 bytes.
func CheckSecret(secret string) error {
	if err := hooks.CheckSecret(hooks.Standard, secret); err != nil {
		return err
	}
	if n := hooks.KeySize(hooks.Standard, secret); n < 24 || n > 64 {
		return fault.New(fault.ValidationError, "is base64 of %d bytes; 24 to 64 are allowed", n).WithField("secret").
			WithHint("echo whsec_$(openssl rand -base64 32) makes one")
	}
	return nil
}

// Check returns the first problem of a definition. It does not look into the URL and the expression.
func (d *Definition) Check() error {
	switch {
	case d.URL == "":
		return fault.New(fault.RequiredField, "is missing").WithField("url").WithHint("such as https://example.com/orch")
	case len(d.URL) > MaxURL:
		return fault.New(fault.ValidationError, "has %d bytes, the limit is %d", len(d.URL), MaxURL).WithField("url")
	case len(d.Events) > MaxEvents:
		return fault.New(fault.ValidationError, "there are %d types, the limit is %d", len(d.Events), MaxEvents).WithField("events")
	case len(d.Labels) > MaxLabels:
		return fault.New(fault.ValidationError, "there are %d labels, the limit is %d", len(d.Labels), MaxLabels).WithField("labels")
	case len(d.Note) > hooks.MaxNote:
		return fault.New(fault.ValidationError, "has %d bytes, the limit is %d", len(d.Note), hooks.MaxNote).WithField("note")
	case d.size() > MaxText:
		return fault.New(fault.ValidationError, "the definition has %d bytes, the limit is %d", d.size(), MaxText).WithField("when")
	}
	for _, one := range d.Events {
		if !knownEvents(one) {
			return fault.New(fault.ValidationError, "%q is not a type of events", fault.Clip(one, longest)).WithField("events").
				WithHint("use %s, task.*, approval.* or question.*", strings.Join(Types(), ", "))
		}
	}
	return nil
}

// longest bounds a text of a request in an error, in bytes.
const longest = 60

func (d *Definition) size() int {
	data, _ := json.Marshal(d) // texts only
	return len(data)
}

// knownEvents reports whether something is a type or a group of types.
func knownEvents(one string) bool {
	return slices.ContainsFunc(Types(), func(typ string) bool { return covers(one, typ) })
}

// covers reports whether an element of Definition.Events covers a type.
func covers(one, typ string) bool {
	group, isGroup := strings.CutSuffix(one, "*")
	return one == typ || isGroup && strings.HasSuffix(group, ".") && strings.HasPrefix(typ, group)
}

// Wants reports whether a definition asks for events of a type, of a task with labels. Its expression may still leave them out.
func (d *Definition) Wants(typ string, labels map[string]string) bool {
	if len(d.Events) > 0 && !slices.ContainsFunc(d.Events, func(one string) bool { return covers(one, typ) }) {
		return false
	}
	for key, value := range d.Labels {
		if has, found := labels[key]; !found || has != value {
			return false
		}
	}
	return true
}

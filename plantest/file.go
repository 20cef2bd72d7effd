package plantest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/yamlerror"
)

// MaxSource bounds a test file in bytes, MaxCases its cases.
const (
	MaxSource = 4 << 20
	MaxCases  = 1000
)

// File is a test file.
type File struct {
	// Plan is the file of the plan, relative to the test file.
	Plan string `yaml:"plan"`
	// Now is the start time of the cases; default is the start of 2026, UTC.
	Now   time.Time `yaml:"now"`
	Cases []Case    `yaml:"cases"`
}

// Case is one run of the plan.
type Case struct {
	Name   string         `yaml:"name"`
	Inputs map[string]any `yaml:"inputs"`
	// Results are the results of calls, by step or by tool.
	Results map[string]Results `yaml:"results"`
	// Approvals are the decisions of people, by step.
	Approvals map[string]Decision `yaml:"approvals"`
	// Signals are sent at the start of the task, by name.
	Signals map[string]any `yaml:"signals"`
	// Hook is the delivery, Schedule the firing that starts the task; at most one of them.
	Hook     *Delivery `yaml:"hook"`
	Schedule *Firing   `yaml:"schedule"`
	Expect   Expect    `yaml:"expect"`
}

// Delivery is the value of hook in expressions.
type Delivery struct {
	// Name and ID are "test" by default.
	Name    string            `yaml:"name"`
	ID      string            `yaml:"delivery"`
	Subject string            `yaml:"subject"`
	Headers map[string]string `yaml:"headers"`
	Body    any               `yaml:"body"`
}

// Firing is the value of schedule in expressions.
type Firing struct {
	// Name is "test" by default, Time the start of the case.
	Name string    `yaml:"name"`
	Time time.Time `yaml:"time"`
}

// Result is the result of a call: an output or an error.
type Result struct {
	Output any    `yaml:"output"`
	Error  *Error `yaml:"error"`
}

// Error is the error of a failed call.
type Error struct {
	Code    string `yaml:"code"`
	Message string `yaml:"message"`
	// Class is the class for retry rules; default is tool_error.
	Class string `yaml:"class"`
}

// Results are the results of the attempts of a call, in order. The last result is also used for all further attempts.
type Results []Result

// UnmarshalYAML accepts one result or a list.
func (r *Results) UnmarshalYAML(n *yaml.Node) error {
	var all []Result
	var err error
	if n.Kind == yaml.SequenceNode {
		err = decodeStrict(n, &all)
	} else {
		all = make([]Result, 1)
		err = decodeStrict(n, &all[0])
	}
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("line %d: a list of results has at least one", n.Line)
	}
	*r = all
	return err
}

// Decision is the decision of a person about an approval.
type Decision struct {
	// As is granted, rejected, or expire if nobody decides.
	As     string `yaml:"as"`
	By     string `yaml:"by"`
	Reason string `yaml:"reason"`
	Form   any    `yaml:"form"`
}

// The decisions.
const (
	granted  = "granted"
	rejected = "rejected"
	expire   = "expire"
)

// UnmarshalYAML accepts a decision with details, or only its name.
func (d *Decision) UnmarshalYAML(n *yaml.Node) error {
	type fields Decision // without UnmarshalYAML
	var full fields
	if n.Kind == yaml.ScalarNode {
		full.As = n.Value
	} else if err := decodeStrict(n, &full); err != nil {
		return err
	}
	switch full.As {
	case granted, rejected, expire:
	default:
		return fmt.Errorf("line %d: %q is none of granted, rejected, expire", n.Line, full.As)
	}
	if full.By == "" {
		full.By = "user:tester"
	}
	if full.Reason == "" && full.As == rejected {
		full.Reason = "the test says so"
	}
	*d = Decision(full)
	return nil
}

// Expect is the expected outcome of a case. Fields that are not set are not checked.
type Expect struct {
	// State is the state of the task; default is DONE.
	State string `yaml:"state"`
	// Outputs are the outputs of the plan, Steps the states of steps, Calls the arguments of the last call of each
	// step.
	Outputs map[string]any    `yaml:"outputs"`
	Steps   map[string]string `yaml:"steps"`
	Calls   map[string]any    `yaml:"calls"`
	// Error is a substring of the error of the task.
	Error string `yaml:"error"`
	// Took is the duration by the clock of the case.
	Took string `yaml:"took"`
}

// decodeStrict decodes a node and rejects unknown keys.
func decodeStrict(n *yaml.Node, to any) error {
	src, err := yaml.Marshal(n)
	if err != nil {
		return err
	}
	dec := yaml.NewDecoder(bytes.NewReader(src))
	dec.KnownFields(true)
	if err := dec.Decode(to); err != nil {
		return fmt.Errorf("line %d: %s", n.Line, yamlerror.Text(err))
	}
	return nil
}

// Read parses a test file. It returns INVALID_FORMAT with the line and the key.
func Read(name string, src []byte) (*File, error) {
	f := &File{}
	dec := yaml.NewDecoder(bytes.NewReader(src))
	dec.KnownFields(true)
	if err := dec.Decode(f); err != nil {
		return nil, fault.New(fault.InvalidFormat, "%s: %s", name, yamlerror.Text(err)).WithHint("docs/reference/plan-tests.md describes tests of plans")
	}
	if f.Now.IsZero() {
		f.Now = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	}
	return f, f.check(name)
}

func (f *File) check(name string) error {
	bad := func(field, text string) error {
		return fault.New(fault.ValidationError, "%s: %s", name, text).WithField(field)
	}
	switch {
	case f.Plan == "":
		return bad("plan", "the file of the plan is missing")
	case len(f.Cases) == 0 || len(f.Cases) > MaxCases:
		return bad("cases", fmt.Sprintf("must be 1 to %d cases", MaxCases))
	}
	for i, c := range f.Cases {
		if c.Name == "" {
			return bad(fmt.Sprintf("cases[%d].name", i), "a case has a name")
		}
		if c.Hook != nil && c.Schedule != nil {
			return bad(fmt.Sprintf("cases[%d].schedule", i), "a task has a hook or a schedule, not both")
		}
		if c.Expect.Took == "" {
			continue
		}
		if _, err := time.ParseDuration(c.Expect.Took); err != nil {
			return bad(fmt.Sprintf("cases[%d].expect.took", i), fmt.Sprintf("%q is not a duration", c.Expect.Took))
		}
	}
	return nil
}

// rawOf encodes a value of a file as JSON.
func rawOf(v any) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fault.New(fault.InvalidFormat, "a value has no form in JSON: %v", err)
	}
	return raw, nil
}

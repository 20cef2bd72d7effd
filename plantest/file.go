package plantest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/orch-dev/orch/fault"
)

// MaxSource bounds a file of tests, MaxCases its cases.
const (
	MaxSource = 4 << 20
	MaxCases  = 1000
)

// File is a file of tests.
type File struct {
	// Plan is the file of the plan, relative to this one.
	Plan string `yaml:"plan"`
	// Now is when the cases begin; default is the start of 2026, UTC.
	Now   time.Time `yaml:"now"`
	Cases []Case    `yaml:"cases"`
}

// Case is one run of the plan.
type Case struct {
	Name   string         `yaml:"name"`
	Inputs map[string]any `yaml:"inputs"`
	// Results are those of calls, by step or by tool.
	Results map[string]Results `yaml:"results"`
	// Approvals say how people decide, by step.
	Approvals map[string]Decision `yaml:"approvals"`
	// Signals are sent when the task begins, by name.
	Signals map[string]any `yaml:"signals"`
	Expect  Expect         `yaml:"expect"`
}

// Result is what a call gives: an output or an error.
type Result struct {
	Output any    `yaml:"output"`
	Error  *Error `yaml:"error"`
}

// Error is why a call fails.
type Error struct {
	Code    string `yaml:"code"`
	Message string `yaml:"message"`
	// Class is that of retry rules; default is tool_error.
	Class string `yaml:"class"`
}

// Results are those of the attempts of a call, in order; the last one is that of all further ones.
type Results []Result

// UnmarshalYAML reads one result or a list.
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

// Decision is what a person says to an approval.
type Decision struct {
	// As is granted, rejected, or expire for nobody's answer.
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

// UnmarshalYAML reads a decision with its details, or alone.
func (d *Decision) UnmarshalYAML(n *yaml.Node) error {
	type bare Decision
	var full bare
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

// Expect is how a case ends. What it does not name may be as it is.
type Expect struct {
	// State is that of the task; default is DONE.
	State string `yaml:"state"`
	// Outputs are those of the plan, Steps the states of steps, Calls the arguments of the last call of steps.
	Outputs map[string]any    `yaml:"outputs"`
	Steps   map[string]string `yaml:"steps"`
	Calls   map[string]any    `yaml:"calls"`
	// Error is a part of the error of the task.
	Error string `yaml:"error"`
	// Took is how long it takes by the clock of the case.
	Took string `yaml:"took"`
}

// decodeStrict decodes a node and refuses keys that the target has not.
func decodeStrict(n *yaml.Node, to any) error {
	src, err := yaml.Marshal(n)
	if err != nil {
		return err
	}
	dec := yaml.NewDecoder(bytes.NewReader(src))
	dec.KnownFields(true)
	if err := dec.Decode(to); err != nil {
		return fmt.Errorf("line %d: %s", n.Line, inWords(err))
	}
	return nil
}

// Read reads a file of tests. INVALID_FORMAT names the line and the key.
func Read(name string, src []byte) (*File, error) {
	f := &File{}
	dec := yaml.NewDecoder(bytes.NewReader(src))
	dec.KnownFields(true)
	if err := dec.Decode(f); err != nil {
		return nil, fault.New(fault.InvalidFormat, "%s: %s", name, inWords(err)).WithHint("docs/reference/plan-tests.md says what a test of a plan is")
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
		if c.Expect.Took == "" {
			continue
		}
		if _, err := time.ParseDuration(c.Expect.Took); err != nil {
			return bad(fmt.Sprintf("cases[%d].expect.took", i), fmt.Sprintf("%q is not a duration", c.Expect.Took))
		}
	}
	return nil
}

var unknownKey = regexp.MustCompile(`field (\S+) not found in type \S+`)

// inWords says an error of YAML in the words of a user.
func inWords(err error) string {
	text := err.Error()
	if list, ok := errors.AsType[*yaml.TypeError](err); ok {
		text = strings.Join(list.Errors, "; ")
	}
	return unknownKey.ReplaceAllString(strings.TrimPrefix(text, "yaml: "), `unknown key "$1"`)
}

// rawOf returns a value of a file as JSON.
func rawOf(v any) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fault.New(fault.InvalidFormat, "a value has no form in JSON: %v", err)
	}
	return raw, nil
}

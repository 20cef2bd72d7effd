package replay

import (
	"regexp"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// Scheme begins the names of models that answer from a record.
const Scheme = "replay:"

// strictly ends the name of a model that answers only the recorded requests.
const strictly = "?strict"

// Name is the name of a model that answers from a record, such as replay:TASK_01JD0000000000000000000000/review?strict.
type Name struct {
	// Task is the id of the recorded task. Step is the key of its agent step; "" if it has only one.
	Task, Step string
	// Strict refuses requests that differ from the recorded ones.
	Strict bool
}

var taskForm = regexp.MustCompile(`^TASK_[0-9A-HJKMNP-TV-Z]{26}$`)

// ParseName returns the parts of the name of a model that begins with [Scheme].
func ParseName(model string) (Name, error) {
	body, strict := strings.CutSuffix(strings.TrimPrefix(model, Scheme), strictly)
	task, step, named := strings.Cut(body, "/")
	switch {
	case !taskForm.MatchString(task):
		return Name{}, misnamed("%q is not the id of a task", task)
	case named && step == "" || strings.ContainsAny(step, "?/"):
		return Name{}, misnamed("%q is not the key of a step", step)
	}
	return Name{Task: task, Step: step, Strict: strict}, nil
}

func misnamed(format string, args ...any) error {
	return fault.New(fault.ValidationError, format, args...).WithField("agent.model").
		WithHint("write %sTASK_ID, %sTASK_ID/STEP, or one of them with %s", Scheme, Scheme, strictly)
}

// String returns the name of the model.
func (n Name) String() string {
	name := Scheme + n.Task
	if n.Step != "" {
		name += "/" + n.Step
	}
	if n.Strict {
		name += strictly
	}
	return name
}

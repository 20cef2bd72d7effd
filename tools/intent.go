package tools

import (
	"context"
	"encoding/json"

	"github.com/orch-dev/orch/fault"
)

// TargetKind is a kind of thing outside of the root that a call acts on.
type TargetKind string

// The kinds of targets, with the form of their names.
const (
	// Endpoint is where a request goes: scheme://host:port, in lower case, with the port always written.
	Endpoint TargetKind = "endpoint"
	// Connection is a database: scheme://host:port/name, or sqlite:/absolute/path. Never a user or password.
	Connection TargetKind = "connection"
	// Branch is a branch of a remote repository: remote/branch.
	Branch TargetKind = "branch"
	// Package is a package of a package manager: manager:name.
	Package TargetKind = "package"
)

// Target is one thing outside of the root that a call acts on.
type Target struct {
	Kind TargetKind `json:"kind"`
	Name string     `json:"name"`
	// Version is the version of a package, a range or a tag; "" is the latest.
	Version string `json:"version,omitempty"`
	// Pinned is what the project permits of a package when that is not the version of the target.
	Pinned string `json:"pinned,omitempty"`
	// Known is true when the project itself names the target, such as a package in its manifest (S0-141).
	Known bool `json:"known,omitempty"`
	// Force is true for a change that throws away what is there, such as a forced push (S0-108).
	Force bool `json:"force,omitempty"`
	// Note is what people should know of the target before they open it.
	Note string `json:"note,omitempty"`
}

// File is a file that a call would use.
type File struct {
	// Field is the input that names it, Path its real absolute path.
	Field  string `json:"field"`
	Path   string `json:"path"`
	Access Access `json:"access"`
}

// Intent is what one call would do, as far as that depends on its arguments and on what the tool finds.
// It states facts; package policy decides about them.
type Intent struct {
	// Effect is the effect of this very call, empty for that of the contract.
	Effect Effect `json:"effect,omitempty"`
	// Reason says in a few words why the effect is what it is: "DELETE FROM", "forced push".
	Reason  string   `json:"reason,omitempty"`
	Targets []Target `json:"targets,omitempty"`
	// Files are files that the call would use although no input field is a path, such as the one of a database.
	Files []File `json:"files,omitempty"`
	// Command is a shell command that the call would run, to be judged like one of BASH_EXECUTE (S0-136).
	Command string `json:"command,omitempty"`
}

// Intender is a tool that can say what a call would do. Intent changes nothing and is asked with checked
// arguments, before the policy decides.
type Intender interface {
	Intent(ctx context.Context, env *Env, args json.RawMessage) (Intent, error)
}

// DefineIntent is Define for a tool whose calls differ in what they do. intend has no side effects.
func DefineIntent[In, Out any](spec Spec, intend Func[In, Intent], do Func[In, Out]) Tool {
	t := &intender[In, Out]{intend: intend}
	t.tool = tool[In, Out]{spec: spec, do: do, input: onceShape[In](), output: onceShape[Out]()}
	return t
}

type intender[In, Out any] struct {
	tool[In, Out]

	intend Func[In, Intent]
}

// Intent decodes the arguments and says what the call would do.
func (t *intender[In, Out]) Intent(ctx context.Context, env *Env, args json.RawMessage) (Intent, error) {
	in, err := t.decode(args)
	if err != nil {
		return Intent{}, err
	}
	intent, err := t.intend(ctx, env, in)
	if err != nil {
		return Intent{}, fault.From(err)
	}
	return intent, nil
}

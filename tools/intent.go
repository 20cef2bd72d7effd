package tools

import (
	"context"
	"encoding/json"

	"github.com/orch-dev/orch/fault"
)

// TargetKind is a kind of resource outside of the root that a call acts on.
type TargetKind string

// The kinds of targets, with the form of their names.
const (
	// Endpoint is the destination of a request: scheme://host:port, in lower case, always with the port.
	Endpoint TargetKind = "endpoint"
	// Connection is a database: scheme://host:port/name, or sqlite:/absolute/path. Never a user or password.
	Connection TargetKind = "connection"
	// Branch is a branch of a remote repository: remote/branch.
	Branch TargetKind = "branch"
	// Package is a package of a package manager: manager:name.
	Package TargetKind = "package"
)

// Target is one resource outside of the root that a call acts on.
type Target struct {
	Kind TargetKind `json:"kind"`
	Name string     `json:"name"`
	// Version is the version of a package, a range or a tag; "" is the latest.
	Version string `json:"version,omitempty"`
	// Pinned is the version of the package that the project permits, if it differs from Version.
	Pinned string `json:"pinned,omitempty"`
	// Known is true when the project itself names the target, such as a package in its manifest (S0-141).
	Known bool `json:"known,omitempty"`
	// Force is true for a change that discards existing data, such as a forced push (S0-108).
	Force bool `json:"force,omitempty"`
	// Note is a warning for people who approve the target.
	Note string `json:"note,omitempty"`
}

// File is a file that a call would access.
type File struct {
	// Field is the input field that names the file, Path its real absolute path.
	Field  string `json:"field"`
	Path   string `json:"path"`
	Access Access `json:"access"`
}

// Intent describes what one call would do, as far as that depends on its arguments and on the state that the tool
// finds. It contains only facts; package policy decides on them.
type Intent struct {
	// Effect is the effect of this call; empty means Spec.Effect.
	Effect Effect `json:"effect,omitempty"`
	// Reason explains the effect in a few words: "DELETE FROM", "forced push".
	Reason  string   `json:"reason,omitempty"`
	Targets []Target `json:"targets,omitempty"`
	// Files are files that the call would access and that no path field names, such as a database file.
	Files []File `json:"files,omitempty"`
	// Command is a shell command that the call would run. The policy checks it like a command of BASH_EXECUTE (S0-136).
	Command string `json:"command,omitempty"`
}

// Intender is a tool that can describe a call in advance. The node calls Intent with checked arguments before the
// policy decides. Intent has no side effects.
type Intender interface {
	Intent(ctx context.Context, env *Env, args json.RawMessage) (Intent, error)
}

// DefineIntent is like Define, for a tool whose effect or targets depend on the call. intend returns the Intent of a
// call and has no side effects.
func DefineIntent[In, Out any](spec Spec, intend Func[In, Intent], do Func[In, Out]) Tool {
	t := &intender[In, Out]{intend: intend}
	t.tool = tool[In, Out]{spec: spec, do: do, input: onceShape[In](), output: onceShape[Out]()}
	return t
}

type intender[In, Out any] struct {
	tool[In, Out]

	intend Func[In, Intent]
	// effectOf is what WithEffect added; nil for none.
	effectOf func(In) Effect
}

// WithEffect adds to a tool of DefineIntent the effect that a call has by its arguments alone, so that a plan can be checked before
// there is a call. effectOf gets the zero value for arguments that are not known, and returns "" if the effect depends on them.
func WithEffect[In, Out any](t Tool, effectOf func(In) Effect) Tool {
	if own, ok := t.(*intender[In, Out]); ok {
		own.effectOf = effectOf
	}
	return t
}

// EffectOf implements Effecter.
func (t *intender[In, Out]) EffectOf(args json.RawMessage) Effect {
	var in In
	if t.effectOf == nil || json.Unmarshal(args, &in) != nil {
		return ""
	}
	return t.effectOf(in)
}

// Effecter is a tool that may know the effect of a call from some of its arguments.
type Effecter interface {
	// EffectOf returns the effect of a call with arguments, of which those that are not known are left out; "" if it is not known.
	EffectOf(args json.RawMessage) Effect
}

// EffectOf returns the effect of a call of a tool as far as it follows from its arguments: that of an Effecter, or else of the tool.
func EffectOf(t Tool, args json.RawMessage) Effect {
	if own, ok := t.(Effecter); ok {
		if effect := own.EffectOf(args); effect != "" {
			return effect
		}
	}
	return t.Spec().Effect
}

// Intent implements Intender.
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

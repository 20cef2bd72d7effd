package tools

import (
	"encoding/json"

	"github.com/orch-dev/orch/statemachine"
)

// Annotations are the hints of MCP about a tool (S0-010).
type Annotations struct {
	Title           string `json:"title,omitempty"`
	ReadOnlyHint    bool   `json:"readOnlyHint"`
	DestructiveHint bool   `json:"destructiveHint"`
	IdempotentHint  bool   `json:"idempotentHint"`
	OpenWorldHint   bool   `json:"openWorldHint"`
}

// Description is the entry of a tool in the catalogue, generated from the same data that the dispatcher enforces
// (S0-011).
type Description struct {
	Name        string               `json:"name"`
	Title       string               `json:"title,omitempty"`
	Purpose     string               `json:"purpose"`
	Conditions  []string             `json:"conditions,omitempty"`
	Effect      Effect               `json:"effect"`
	States      []statemachine.State `json:"states"`
	Approval    Approval             `json:"approval"`
	Paths       []Path               `json:"paths,omitempty"`
	Annotations Annotations          `json:"annotations"`
	Inputs      json.RawMessage      `json:"inputs"`
	Outputs     json.RawMessage      `json:"outputs"`
	Errors      []string             `json:"errors,omitempty"`
	// Example contains the arguments of an example call.
	Example json.RawMessage `json:"example,omitempty"`
}

// Annotate derives the hints from a Spec.
func Annotate(s Spec) Annotations {
	return Annotations{
		Title:           s.Title,
		ReadOnlyHint:    s.Effect == Read,
		DestructiveHint: s.Effect == Destructive || s.MayDestroy || s.Approval == IfDestructive || s.Approval == Always,
		IdempotentHint:  s.Effect == Read || s.Effect == Idempotent,
		OpenWorldHint:   s.OpenWorld,
	}
}

// Describe returns the description of a tool.
func Describe(t Tool) Description {
	s := t.Spec()
	return Description{
		Name:        s.Name,
		Title:       s.Title,
		Purpose:     s.Purpose,
		Conditions:  s.Conditions,
		Effect:      s.Effect,
		States:      s.Gate.States(),
		Approval:    s.Approval,
		Paths:       s.Paths,
		Annotations: Annotate(s),
		Inputs:      t.InputSchema(),
		Outputs:     t.OutputSchema(),
		Errors:      s.Errors,
		Example:     json.RawMessage(s.Example),
	}
}

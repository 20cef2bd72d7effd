package plan

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/orch-dev/orch/fault"
)

// CallID is the id of the one step of [FromCall].
const CallID = "call"

// maxArguments bounds the arguments of one call, in bytes, so that its plan has at most MaxNormalised.
const maxArguments = MaxNormalised - 4<<10

// FromCall returns a plan that makes one call of a tool. The arguments are data: `${{` in them is not evaluated. Empty
// args mean no arguments. The output of the plan is {"result": the output of the tool}. The name of the tool is checked
// when the plan is compiled.
func FromCall(tool string, args json.RawMessage) (*Plan, error) {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	v, err := decodeValue(args)
	if err != nil {
		return nil, fault.New(fault.ValidationError, "is not valid JSON: %v", err).WithField("arguments")
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, fault.New(fault.ValidationError, "must be an object").WithField("arguments")
	}
	p := &Plan{
		Orch: Version, Name: tool, Priority: PriorityNormal, Limits: Limits{MaxSteps: defaultMaxSteps},
		Steps:   []*Step{{ID: CallID, Kind: KindTool, Tool: tool, With: escapeAll(object), OnError: OnErrorFail}},
		Outputs: map[string]any{"result": "${{ steps." + CallID + ".output }}"},
	}
	if utf8.ValidString(tool) {
		p.normal, err = encode(callForm{p.Limits, tool, p.Orch, p.Outputs, p.Priority, []callStep{{CallID, OnErrorFail, tool, object}}})
	}
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the plan of a call cannot be encoded")
	}
	if len(args) > maxArguments {
		return nil, fault.New(fault.ValidationError, "have %d bytes, the limit is %d", len(args), maxArguments).WithField("arguments").
			WithReason("SIZE_LIMIT_EXCEEDED").WithHint("put large data into a file and pass its path")
	}
	return p, nil
}

// callForm is the normal form of the plan of a call. Its fields are sorted by key, so that one encoding gives the
// normal form. This matters because every call of an MCP client is such a plan.
type callForm struct {
	Limits   Limits         `json:"limits"`
	Name     string         `json:"name,omitempty"`
	Orch     string         `json:"orch"`
	Outputs  map[string]any `json:"outputs"`
	Priority Priority       `json:"priority"`
	Steps    []callStep     `json:"steps"`
}

type callStep struct {
	ID      string         `json:"id"`
	OnError OnError        `json:"on_error"`
	Tool    string         `json:"tool,omitempty"`
	With    map[string]any `json:"with"`
}

// escapeAll escapes all strings in v, in place, so that v as a template evaluates to the original value. It returns the
// result.
func escapeAll(v any) any {
	switch v := v.(type) {
	case string:
		return escape(v)
	case []any:
		for i := range v {
			v[i] = escapeAll(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = escapeAll(v[key])
		}
	}
	return v
}

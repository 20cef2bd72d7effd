package tools

import (
	"slices"

	"github.com/orch-dev/orch/fault"
)

// SourceName returns the name of an error code in the S4 rules, or "" when it has none (S4-010).
func SourceName(code fault.Code) string {
	switch code {
	case fault.OutsideRoot:
		return "OutsideRoot"
	case fault.NotFound:
		return "NotFound"
	case fault.PatchFailed:
		return "PatchFailed"
	case fault.ReadOnly:
		return "ReadOnly"
	case fault.Forbidden:
		return "PermissionDenied"
	case fault.CommandNotAllowed:
		return "CommandNotAllowed"
	default:
		return ""
	}
}

// ErrorText returns the text of a failed tool call: the name of the error, the field, the message. The name is that of
// the S4 rules if Spec.Errors lists it, as in "OutsideRoot: path: the path leads outside the root"; otherwise it is the
// error code (M-4). The errors of a tool and of the checks before it have the same form.
func ErrorText(spec Spec, err error) string {
	e := fault.From(err)
	if e == nil {
		return ""
	}
	name := SourceName(e.Code)
	if name == "" || !slices.Contains(spec.Errors, name) {
		return e.Error()
	}
	if e.Field == "" {
		return name + ": " + e.Message
	}
	return name + ": " + e.Field + ": " + e.Message
}

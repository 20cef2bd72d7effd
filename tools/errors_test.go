package tools_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// S4-010: the text starts with the name in the source document of the tool.
func TestErrorText(t *testing.T) {
	t.Parallel()
	spec := tools.Spec{Errors: []string{"OutsideRoot", "NotFound", "PatchFailed", "ReadOnly", "PermissionDenied", "CommandNotAllowed"}}
	seed000 := tools.Spec{Errors: []string{"NOT_FOUND", "PERMISSION_DENIED"}}
	for code, name := range map[fault.Code]string{
		fault.OutsideRoot: "OutsideRoot", fault.NotFound: "NotFound", fault.PatchFailed: "PatchFailed", fault.ReadOnly: "ReadOnly",
		fault.Forbidden: "PermissionDenied", fault.CommandNotAllowed: "CommandNotAllowed", fault.Conflict: "CONFLICT",
	} {
		err := fault.New(code, "no")
		assert.Equal(t, name+": no", tools.ErrorText(spec, err))
		assert.Equal(t, string(code)+": no", tools.ErrorText(seed000, err))
		assert.Equal(t, name+": path: no", tools.ErrorText(spec, err.WithField("path")))
	}
	assert.Empty(t, tools.ErrorText(spec, nil))
	assert.Equal(t, "INTERNAL: an internal error occurred", tools.ErrorText(spec, errors.New("hunter2")))
}

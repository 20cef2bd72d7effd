package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
)

// X-13 and S3-160: one name, one code, each in its range.
func TestRegistryIsUnique(t *testing.T) {
	t.Parallel()
	names, codes := map[fault.Code]bool{}, map[int]bool{}
	for _, e := range fault.Registry() {
		assert.False(t, names[e.Code], "name %s stands twice", e.Code)
		assert.False(t, codes[e.RPC], "code %d stands twice", e.RPC)
		assert.NotEmpty(t, e.Meaning)
		assert.False(t, e.RPC <= -32000 && e.RPC >= -32099, "%s mints a code of the reserved range", e.Code)
		names[e.Code], codes[e.RPC] = true, true
		assert.Equal(t, e.RPC, e.Code.RPC())
	}
}

func TestCodeOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		want fault.Code
	}{
		{nil, ""},
		{errors.New("x"), fault.Internal},
		{fault.New(fault.Conflict, "x"), fault.Conflict},
		{fmt.Errorf("outer: %w", fault.New(fault.Gone, "x")), fault.Gone},
		{context.Canceled, fault.Cancelled},
		{context.DeadlineExceeded, fault.Timeout},
		{fs.ErrNotExist, fault.NotFound},
		{fs.ErrPermission, fault.Forbidden},
	} {
		assert.Equal(t, tc.want, fault.CodeOf(tc.err), "%v", tc.err)
	}
}

func TestSentence(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "it broke", fault.New(fault.Internal, "it broke").Sentence())
	assert.Equal(t, "path is empty", fault.New(fault.InvalidFormat, "is empty").WithField("path").Sentence())
	assert.Equal(t, "limit must be 1", fault.New(fault.ValidationError, "must be 1").WithField("limit").Sentence())
	assert.Equal(t, "path: it is gone", fault.New(fault.NotFound, "it is gone").WithField("path").Sentence())
}

func TestErrorIsMatchesByCode(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("outer: %w", fault.New(fault.NotFound, "no task %s", "T"))
	require.ErrorIs(t, err, &fault.Error{Code: fault.NotFound})
	require.NotErrorIs(t, err, &fault.Error{Code: fault.Conflict})
	assert.True(t, fault.Has(err, fault.NotFound))
	assert.False(t, fault.Has(nil, fault.NotFound))
}

func TestFromHidesInternalCauses(t *testing.T) {
	t.Parallel()
	e := fault.From(errors.New("password is hunter2"))
	assert.NotContains(t, e.Error(), "hunter2")
	assert.Nil(t, fault.From(nil))
	data, err := json.Marshal(fault.New(fault.RequiredField, "is missing").WithField("file_path").WithHint("add it"))
	require.NoError(t, err)
	assert.JSONEq(t, `{"name":"REQUIRED_FIELD","message":"is missing","field":"file_path","hint":"add it"}`, string(data))
}

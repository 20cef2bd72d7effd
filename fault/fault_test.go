package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"sync"
	"testing"
	"time"

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

// S3-160, A-06: every code of orch is in the range of its kind.
func TestCodesLieInTheirRanges(t *testing.T) {
	t.Parallel()
	ranges := map[int][]fault.Code{
		-32100: {
			fault.Unauthorized, fault.Forbidden, fault.TokenExpired, fault.ApprovalRequired, fault.ApprovalRejected, fault.ApprovalExpired,
			fault.ToolDisabled, fault.OutsideRoot, fault.ReadOnly, fault.CommandNotAllowed, fault.SecretDetected, fault.ProtectedPath,
		},
		-32200: {
			fault.NotFound, fault.Conflict, fault.Gone, fault.StateNotAllowed, fault.PatchFailed, fault.NotUnique, fault.Cancelled,
			fault.DataLoss, fault.InDoubt, fault.NewerStore, fault.NewerRequest,
		},
		-32300: {fault.ValidationError, fault.RequiredField, fault.InvalidFormat, fault.InvalidPlan},
		-32400: {fault.RateLimited, fault.QuotaExceeded, fault.DiskFull},
		-32500: {
			fault.FirebaseError, fault.GithubError, fault.Timeout, fault.ToolUnavailable, fault.ExecFailed, fault.NetworkError,
			fault.DatabaseError, fault.Unavailable, fault.WorkerLost, fault.ToolFailed,
		},
		-32600: {fault.ParseError, fault.InvalidRequest, fault.MethodNotFound, fault.InvalidParams, fault.Internal},
	}
	kind := map[fault.Code]int{}
	for first, codes := range ranges {
		for _, code := range codes {
			kind[code] = first
		}
	}
	assert.Len(t, kind, len(fault.Registry()), "every code has a kind")
	for _, e := range fault.Registry() {
		first, ok := kind[e.Code]
		require.True(t, ok, "%s", e.Code)
		if first == -32600 {
			assert.Contains(t, []int{-32700, -32600, -32601, -32602, -32603}, e.RPC, "%s", e.Code)
			continue
		}
		assert.LessOrEqual(t, e.RPC, first, "%s", e.Code)
		assert.Greater(t, e.RPC, first-100, "%s", e.Code)
	}
	// The numbers of the specification.
	for code, number := range map[fault.Code]int{
		fault.Unauthorized: -32100, fault.Forbidden: -32101, fault.TokenExpired: -32102, fault.NotFound: -32200, fault.Conflict: -32201,
		fault.Gone: -32202, fault.ValidationError: -32300, fault.RequiredField: -32301, fault.InvalidFormat: -32302, fault.RateLimited: -32400,
		fault.QuotaExceeded: -32401, fault.FirebaseError: -32500, fault.GithubError: -32501, fault.Timeout: -32502,
	} {
		assert.Equal(t, number, code.RPC(), "%s", code)
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

func TestRetryAfterIsInWholeSeconds(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e := fault.New(fault.RateLimited, "slow down").WithRetryAt(now.Add(1500 * time.Millisecond))
	assert.Equal(t, 2, e.RetryAfter(now))
	assert.Equal(t, 0, e.RetryAfter(now.Add(time.Hour)), "it is over")
}

// What one request says about an error that others hold too is not seen by them: an error is copied before it is changed.
func TestSharedErrorsAreNotChanged(t *testing.T) {
	t.Parallel()
	shared := fault.New(fault.NotFound, "it is gone").WithField("path").WithHint("make it")
	before := *shared
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	var requests sync.WaitGroup
	for i := range 8 {
		requests.Go(func() {
			field := strconv.Itoa(i)
			got := fault.From(fmt.Errorf("request %d: %w", i, shared)).WithField(field).WithHint("hint %d", i).WithReason("R" + field).WithRetryAt(at.Add(time.Duration(i)))
			assert.Equal(t, &fault.Error{Code: fault.NotFound, Message: "it is gone", Field: field, Hint: "hint " + field, Reason: "R" + field, RetryAt: at.Add(time.Duration(i))}, got)
		})
	}
	requests.Wait()
	assert.Equal(t, before, *shared)
}

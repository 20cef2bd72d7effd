package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/fault"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{limitError(time.Second), "timeout"},
		{context.DeadlineExceeded, "timeout"},
		{fault.New(fault.Timeout, "x"), "timeout"},
		{fault.New(fault.NetworkError, "x"), "transport"},
		{fault.New(fault.Unavailable, "x"), "transport"},
		{fault.New(fault.ToolUnavailable, "x"), "transport"},
		{fault.New(fault.RateLimited, "x"), "rate_limited"},
		{fault.New(fault.QuotaExceeded, "x"), "rate_limited"},
		{fault.New(fault.StateNotAllowed, "x"), "denied"},
		{fault.New(fault.ApprovalRequired, "x"), "denied"},
		{fault.New(fault.OutsideRoot, "x"), "denied"},
		{fault.New(fault.SecretDetected, "x"), "denied"},
		{fault.New(fault.RequiredField, "x"), "invalid_args"},
		{fault.New(fault.ValidationError, "x"), "invalid_args"},
		{fmt.Errorf("outer: %w", fault.New(fault.InvalidFormat, "x")), "invalid_args"},
		{fault.Wrap(fault.NotFound, errNoTool, "x"), "tool_not_found"},
		{fault.New(fault.NotFound, "no such file"), "tool_error"},
		{fault.New(fault.ExecFailed, "x"), "tool_error"},
		{errors.New("x"), "tool_error"},
		{context.Canceled, "cancelled"},
		{fault.New(fault.Cancelled, "x"), "cancelled"},
		{stopping(), "shutdown"},
		{fault.New(fault.Unavailable, "the worker is stopping"), "transport"},
	} {
		assert.Equal(t, tc.want, classify(tc.err), "%v", tc.err)
	}
}

func TestClassifyKnowsEveryCode(t *testing.T) {
	t.Parallel()
	classes := []string{
		"timeout", "transport", "tool_error", "rate_limited", "denied", "invalid_args", "tool_not_found", "cancelled",
	}
	for _, e := range fault.Registry() {
		assert.Contains(t, classes, classify(fault.New(e.Code, "x")), "%s", e.Code)
	}
}

func TestBackoffGrowsToABound(t *testing.T) {
	t.Parallel()
	for n, longest := range map[int]time.Duration{
		0: 20 * time.Millisecond, 1: 40 * time.Millisecond, 3: 160 * time.Millisecond, 7: 2 * time.Second, 1000: 2 * time.Second,
	} {
		for range 100 {
			d := backoff(n)
			assert.GreaterOrEqual(t, d, longest/2)
			assert.LessOrEqual(t, d, longest)
		}
	}
}

package orchestrator_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
)

// asks is a plan that waits for count approvals, each with a text of size bytes to show.
func asks(count, size int, priority string) string {
	var b strings.Builder
	b.WriteString("orch: v1\nsteps:\n")
	for i := range count {
		fmt.Fprintf(&b, "  - {id: a%d, approve: {description: go, priority: %s, show: %q}}\n", i, priority, strings.Repeat("x", size))
	}
	return b.String()
}

// submitAsking submits such a plan and waits until it has opened all its approvals: on a slow machine one turn does not.
func (n *node) submitAsking(count, size int, priority string, change ...func(*api.SubmitRequest)) {
	n.t.Helper()
	id := n.submit(asks(count, size, priority), change...)
	require.Eventually(n.t, func() bool {
		r, err := n.Approvals(n.ctx(), api.ApprovalsRequest{Task: id})
		return err == nil && len(r.Approvals) == count
	}, time.Minute, time.Millisecond)
}

// A submitter with very many approvals does not displace those of others from the list.
func TestApprovalsOfManySubmitters(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	for range 3 {
		n.submitAsking(400, 1, "critical", by("agent:loud"))
	}
	n.submitAsking(2, 1, "low", by("user:ada"))
	n.submitAsking(1, 1, "high", by("agent:calm"))

	count := func(r api.ApprovalsRequest) (each map[string]int, reply api.ApprovalsReply) {
		reply, err := n.Approvals(t.Context(), r)
		require.NoError(t, err)
		each = map[string]int{}
		for _, a := range reply.Approvals {
			each[a.Submitter]++
		}
		return each, reply
	}
	each, reply := count(api.ApprovalsRequest{})
	assert.Equal(t, map[string]int{"agent:loud": 997, "user:ada": 2, "agent:calm": 1}, each)
	assert.Equal(t, 203, reply.Omitted)
	assert.Equal(t, "critical", reply.Approvals[0].Priority)
	assert.Equal(t, "low", reply.Approvals[999].Priority, "the most urgent ones in front")

	each, reply = count(api.ApprovalsRequest{Limit: 4})
	assert.Equal(t, map[string]int{"agent:loud": 2, "user:ada": 1, "agent:calm": 1}, each)
	assert.Equal(t, 1199, reply.Omitted)
	each, reply = count(api.ApprovalsRequest{Submitter: "user:ada"})
	assert.Equal(t, map[string]int{"user:ada": 2}, each)
	assert.Zero(t, reply.Omitted)
	each, _ = count(api.ApprovalsRequest{Submitter: "user:nobody"})
	assert.Empty(t, each)

	for _, limit := range []int{-1, 1001} {
		_, err := n.Approvals(t.Context(), api.ApprovalsRequest{Limit: limit})
		hasCode(t, err, fault.ValidationError)
		assert.Equal(t, "limit", fault.From(err).Field)
	}
}

// Large parts of many approvals do not make the answer too large. Each approval alone has them.
func TestApprovalsWithMuchToShow(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	for range 8 {
		n.submitAsking(1, 600_000, "low")
	}
	reply, err := n.Approvals(t.Context(), api.ApprovalsRequest{})
	require.NoError(t, err)
	require.Len(t, reply.Approvals, 8)
	raw, err := json.Marshal(reply)
	require.NoError(t, err)
	assert.Less(t, len(raw), 4<<20)
	assert.NotContains(t, string(reply.Approvals[0].Details), "$omitted")
	last := reply.Approvals[7]
	assert.Contains(t, string(last.Details), `"$omitted"`)
	alone, err := n.Approvals(t.Context(), api.ApprovalsRequest{ID: last.ID})
	require.NoError(t, err)
	assert.Greater(t, len(alone.Approvals[0].Details), 600_000)
}

package bus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

func TestGroupTakesNoMore(t *testing.T) {
	t.Parallel()
	now := time.Now()
	next := uint64(0)
	publish := func(after uint64) (uint64, error) {
		assert.Equal(t, next, after)
		next += 3
		return next, nil
	}
	for name, refusal := range map[string]error{
		"":          nil,
		"conflict":  fault.New(fault.Conflict, "another process was first"),
		"no answer": fault.New(fault.Unavailable, "no answer"),
	} {
		g := &archiveGroup{until: now.Add(time.Hour)}
		next = 0
		if refusal != nil {
			ok, err := g.add(func(uint64) (uint64, error) { return 0, refusal })
			assert.False(t, ok, name)
			assert.Equal(t, name != "conflict", err != nil, name)
		}
		taken := 0
		for range 2 * groupSize {
			ok, err := g.add(publish)
			require.NoError(t, err)
			if ok {
				taken++
			}
		}
		assert.Equal(t, map[bool]int{true: groupSize, false: 0}[refusal == nil], taken, name)
	}
	old := &archiveGroup{until: now.Add(-time.Second)}
	ok, err := old.add(publish)
	require.NoError(t, err)
	assert.False(t, ok, "an old group")
}

func TestGroupsAreForgotten(t *testing.T) {
	t.Parallel()
	var all archiveGroups
	now := time.Now()
	first := all.get("first", now)
	assert.Same(t, first, all.get("first", now.Add(time.Second)))
	for range 3 * maxGroups {
		all.get(string(events.NewTaskID(now)), now.Add(2*groupOpen))
	}
	assert.LessOrEqual(t, len(all.bySubject), maxGroups)
	assert.NotSame(t, first, all.get("first", now))
}

func TestIsGroupSubject(t *testing.T) {
	t.Parallel()
	for _, subject := range groupSubjects("TASK_01M8N44KHXXD63JH4N4QSCGA93") {
		assert.True(t, isGroupSubject(subject), subject)
	}
	for _, subject := range []string{
		"", "orch.ar.group.", "orch.ar.group.01M8N4", "orch.ar.group.01M8N44KHXXD", "orch.ar.group.01m8n44", "orch.ar.group.01M8N4U",
		"orch.ar.20261130.01M8N44", "orch.ar.group.01M8N4\n", "orch.ev.group.01M8N44",
	} {
		assert.False(t, isGroupSubject(subject), subject)
	}
}

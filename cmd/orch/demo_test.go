package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
)

const demoHistory = `{"rev":1,"events":[{"kind":"task.submitted","data":{"name":"repair"}},{"kind":"turn.requested","data":{"step":"agent","turn":1}}]}
{"rev":2,"events":[{"kind":"step.called","data":{"step":"agent.t1.m"}},{"kind":"turn.answered","data":{"step":"agent","turn":1,"usage":{"input":9,"output":4}}},{"kind":"step.called","data":{"step":"agent.t1.c1"}}]}
`

func TestDemoReadsTurns(t *testing.T) {
	t.Parallel()
	turns, err := parseTurns(demoHistory)
	require.NoError(t, err)
	assert.Len(t, turns, 3)
	assert.Equal(t, 1, requestsOf(turns, 1))
	answers := answersOf(turns)
	require.Len(t, answers, 1)
	assert.Equal(t, 9, answers[0].Data.Usage.Input)
	_, err = parseTurns("no JSON\n")
	assert.True(t, fault.Has(err, fault.Internal))
}

func TestDemoChecksAnswers(t *testing.T) {
	t.Parallel()
	turns, err := parseTurns(demoHistory)
	require.NoError(t, err)
	before := answersOf(turns)
	other := []demoTurn{before[0]}
	other[0].Data.Usage.Output = 5
	twice := append([]demoTurn{turns[1]}, turns...)
	tests := map[string]struct {
		before, after []demoTurn
		want          string
	}{
		"recorded":     {before, turns, ""},
		"other tokens": {other, turns, "the answers before the crash were"},
		"lost":         {before, nil, "the answers before the crash were"},
		"asked twice":  {before, twice, "turn 1 was asked for 2 times"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := checkRecorded(tc.before, tc.after)
			if tc.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

func TestDemoEnvironment(t *testing.T) {
	t.Parallel()
	got := demoEnviron([]string{"PATH=/bin", "HOME=/home/ada", "ORCH_SERVER=nats://a", "GIT_DIR=/g", "XDG_CONFIG_HOME=/x"}, "/d")
	assert.Equal(t, []string{"PATH=/bin", "HOME=/d/home", "ORCH_DATA_DIR=/d/data", "GIT_CONFIG_NOSYSTEM=1"}, got)
}

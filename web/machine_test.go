package web_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/statemachine"
)

// row is a transition as fold.ts reads it.
type row[S any] struct {
	From []S `json:"from"`
	To   S   `json:"to"`
}

// machine is the content of src/machine.json.
type machine struct {
	States   []statemachine.State                        `json:"states"`
	Terminal []statemachine.State                        `json:"terminal"`
	Task     map[events.Kind]row[statemachine.State]     `json:"task"`
	Step     map[events.Kind]row[statemachine.StepState] `json:"step"`
}

func tables() machine {
	m := machine{
		States: statemachine.States(),
		Task:   map[events.Kind]row[statemachine.State]{}, Step: map[events.Kind]row[statemachine.StepState]{},
	}
	for _, s := range m.States {
		if s.Terminal() {
			m.Terminal = append(m.Terminal, s)
		}
	}
	for _, t := range statemachine.Table() {
		m.Task[t.Kind] = row[statemachine.State]{t.From, t.To}
	}
	for _, t := range statemachine.StepTable() {
		m.Step[t.Kind] = row[statemachine.StepState]{t.From, t.To}
	}
	return m
}

// The fold of the page works with the tables of the program.
func TestTheTablesOfThePageAreCurrent(t *testing.T) {
	t.Parallel()
	want, err := json.MarshalIndent(tables(), "", "  ")
	require.NoError(t, err)
	golden(t, "src/machine.json", append(want, '\n'))
}

// golden compares a file with what it must contain. ORCH_UPDATE_GOLDEN writes it anew.
func golden(t *testing.T, file string, want []byte) {
	t.Helper()
	if os.Getenv("ORCH_UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(file, want, 0o600))
	}
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, have), "%s is out of date: make golden", file)
}

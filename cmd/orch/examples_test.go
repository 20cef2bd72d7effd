package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEveryExampleRuns checks that the story of the examples has all of them.
func TestEveryExampleRuns(t *testing.T) {
	t.Parallel()
	story, err := os.ReadFile("testdata/script/node/examples.txtar")
	require.NoError(t, err)
	plans, err := filepath.Glob("../../examples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, plans)
	for _, plan := range plans {
		runs := regexp.MustCompile(`orch submit examples/` + regexp.QuoteMeta(filepath.Base(plan)) + `\s`).Match(story)
		assert.True(t, runs, "%s is not in the story", plan)
	}
}

// TestEveryExampleAgentRuns checks that the story of the examples has the agents with a folder of their own.
func TestEveryExampleAgentRuns(t *testing.T) {
	t.Parallel()
	story, err := os.ReadFile("testdata/script/node/examples.txtar")
	require.NoError(t, err)
	folders, err := filepath.Glob("../../examples/*-agent")
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	for _, folder := range folders {
		assert.Contains(t, string(story), "exec sh examples/"+filepath.Base(folder)+"/setup.sh")
	}
}

package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/retention"
)

func TestRetainRules(t *testing.T) {
	t.Parallel()
	var c config.Config
	require.NoError(t, config.Parse(&c, "config.yaml", []byte(`
retain:
  - {where: {label: {env: prod}, name: "nightly-*"}, done: 30d, failed: 365d}
  - workspaces: 0
    failed_workspaces: 1d12h
`), "/home/ada", "/home/ada"))
	const day = 24 * time.Hour
	assert.Equal(t, []retention.Rule{
		{Labels: map[string]string{"env": "prod"}, Name: "nightly-*", Done: new(30 * day), Failed: new(365 * day)},
		{Workspaces: new(time.Duration(0)), FailedWorkspaces: new(36 * time.Hour)},
	}, c.Retention.Rules)

	for text, want := range map[string]string{
		"retain: 5":                                            "the rules cannot be read",
		"retain: {done: 5d}":                                   "the rules cannot be read",
		"retain: [{done: 5d, keep: 3d}]":                       `unknown key "keep"`,
		"retain: [{where: {state: DONE}}]":                     `unknown key "state"`,
		"retain: [{where: {name: x}}]":                         "rule 1 gives no time",
		"retain: [{done: 5d}, {done: 5 days}]":                 `done of rule 2: "5 days" is not a time`,
		"retain: [{failed_workspaces: -5d}]":                   "failed_workspaces of rule 1",
		"retain: [{where: {name: '['}, done: 5d}]":             "where.name of rule 1",
		"retain: [" + strings.Repeat("{done: 5d},", 101) + "]": "more than 100",
	} {
		err := config.Parse(&config.Config{}, "config.yaml", []byte(text), "/home/ada", "/home/ada")
		require.ErrorContains(t, err, want, text)
		assert.Equal(t, "config.yaml:1:9", fault.From(err).Field, text)
	}
	err := config.Parse(&config.Config{}, "config.yaml", []byte("retain: [{done: 5d}]"), "/home/ada/project", "/home/ada")
	require.ErrorContains(t, err, "a project may not set retain")
}

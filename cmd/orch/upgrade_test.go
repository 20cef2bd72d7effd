package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
)

// The versions of the nodes of a cluster say which of them a finalized store would keep out.
func TestMemberText(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]api.MemberVersion{
		"alpha:71 is active: orch 0.2.0, knows it":                      {Name: "alpha:71", Active: true, Version: "0.2.0", Known: 2},
		"beta:70 stands by: orch 0.1.0, knows no store of version 2":    {Name: "beta:70", Version: "0.1.0"},
		"gamma:5 stands by: orch 0.3.0, knows it":                       {Name: "gamma:5", Version: "0.3.0", Known: 3},
		"\\x1b[2J:1 stands by: orch 0.1.0, knows no store of version 2": {Name: "\x1b[2J:1", Version: "0.1.0", Known: 1},
	} {
		assert.Equal(t, want, memberText(m, 2))
	}
}

// A store of a cluster is replaced by no restore, and none reaches a node elsewhere.
func TestRestoreRefusals(t *testing.T) {
	t.Parallel()
	for hint, cfg := range map[string]config.Config{
		"nats stream rm": {Storage: config.Storage{NATS: "nats://127.0.0.1:1"}},
		"--server":       {Server: "nats://127.0.0.1:1"},
	} {
		c := &dataCommands{&connector{env: &env{cfg: cfg}}}
		err := c.restore(t.Context(), "a.backup", true)
		assert.True(t, fault.Has(err, fault.InvalidParams), "%v", err)
		assert.Contains(t, fault.From(err).Hint, hint)
	}
}

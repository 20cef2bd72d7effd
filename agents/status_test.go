package agents_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
)

// M-2, S3-107: each status, its bounds, and the precedence of statuses.
func TestStatus(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		load agents.Load
		want agents.Status
	}{
		"nothing to do":         {agents.Load{Max: 2}, agents.Idle},
		"some":                  {agents.Load{Current: 1, Max: 2}, agents.Active},
		"all":                   {agents.Load{Current: 2, Max: 2}, agents.Busy},
		"more than all":         {agents.Load{Current: 3, Max: 2}, agents.Busy},
		"a moment before":       {agents.Load{Silence: 90*time.Second - 1, Max: 2}, agents.Idle},
		"silent":                {agents.Load{Silence: 90 * time.Second, Max: 2}, agents.Offline},
		"four failures":         {agents.Load{Streak: 4, Current: 1, Max: 2}, agents.Active},
		"five failures":         {agents.Load{Streak: 5, Max: 2}, agents.Error},
		"says so":               {agents.Load{Failing: true, Max: 2}, agents.Error},
		"error before busy":     {agents.Load{Failing: true, Current: 2, Max: 2}, agents.Error},
		"offline before error":  {agents.Load{Silence: time.Hour, Failing: true, Current: 2, Max: 2}, agents.Offline},
		"busy before active":    {agents.Load{Current: 1, Max: 1}, agents.Busy},
		"offline before others": {agents.Load{Silence: time.Hour, Max: 1}, agents.Offline},
	} {
		assert.Equal(t, test.want, test.load.Status(), name)
	}
}

func profile(change func(*agents.Profile)) agents.Profile {
	p := agents.Profile{
		Type: "developer", Version: "1.0.0", Capabilities: []agents.Capability{{Name: "build", Category: "code"}},
		MaxTasks: 2, Timeout: time.Minute,
	}
	if change != nil {
		change(&p)
	}
	return p
}

// S3-085: each bound, one step to each side, with the field that is named.
func TestProfile(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		name   string
		change func(*agents.Profile)
		field  string
		code   fault.Code
	}{
		"good":                {"ada", nil, "", ""},
		"longest name":        {strings.Repeat("a", 50), nil, "", ""},
		"short name":          {"ab", nil, "agentInfo.name", fault.InvalidFormat},
		"long name":           {strings.Repeat("a", 51), nil, "agentInfo.name", fault.InvalidFormat},
		"name with a dot":     {"a.da", nil, "agentInfo.name", fault.InvalidFormat},
		"type":                {"ada", func(p *agents.Profile) { p.Type = "cook" }, "agentInfo.type", fault.ValidationError},
		"version":             {"ada", func(p *agents.Profile) { p.Version = "1.0" }, "agentInfo.version", fault.InvalidFormat},
		"longest description": {"ada", func(p *agents.Profile) { p.Description = strings.Repeat("ä", 500) }, "", ""},
		"description":         {"ada", func(p *agents.Profile) { p.Description = strings.Repeat("ä", 501) }, "agentInfo.description", fault.ValidationError},
		"creator":             {"ada", func(p *agents.Profile) { p.Creator = strings.Repeat("x", 257) }, "agentInfo.creator", fault.ValidationError},
		"no capability":       {"ada", func(p *agents.Profile) { p.Capabilities = nil }, "capabilities", fault.RequiredField},
		"many capabilities":   {"ada", func(p *agents.Profile) { p.Capabilities = make([]agents.Capability, 65) }, "capabilities", fault.ValidationError},
		"nameless":            {"ada", func(p *agents.Profile) { p.Capabilities[0].Name = "" }, "capabilities", fault.InvalidFormat},
		"control character":   {"ada", func(p *agents.Profile) { p.Capabilities[0].Name = "a\x1fb" }, "capabilities", fault.InvalidFormat},
		"no tasks":            {"ada", func(p *agents.Profile) { p.MaxTasks = 0 }, "configuration.maxConcurrentTasks", fault.ValidationError},
		"most tasks":          {"ada", func(p *agents.Profile) { p.MaxTasks = 1000 }, "", ""},
		"many tasks":          {"ada", func(p *agents.Profile) { p.MaxTasks = 1001 }, "configuration.maxConcurrentTasks", fault.ValidationError},
		"shortest timeout":    {"ada", func(p *agents.Profile) { p.Timeout = time.Second }, "", ""},
		"short timeout":       {"ada", func(p *agents.Profile) { p.Timeout = 999 * time.Millisecond }, "configuration.timeout", fault.ValidationError},
		"long timeout":        {"ada", func(p *agents.Profile) { p.Timeout = 25 * time.Hour }, "configuration.timeout", fault.ValidationError},
		"retries":             {"ada", func(p *agents.Profile) { p.MaxRetries = -1 }, "configuration.retryPolicy.maxRetries", fault.ValidationError},
		"backoff":             {"ada", func(p *agents.Profile) { p.Backoff = -1 }, "configuration.retryPolicy.backoffMs", fault.ValidationError},
	} {
		p := profile(test.change)
		err := p.Check(test.name)
		if test.code == "" {
			require.NoError(t, err, name)
			continue
		}
		assert.Equal(t, test.code, fault.CodeOf(err), "%s: %v", name, err)
		assert.Equal(t, test.field, fault.From(err).Field, name)
	}
}

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
)

// Invalid flags for an agent are reported before any node is used.
func TestFlagsOfAgentsAreChecked(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"no tasks":            {[]string{"agents", "register", "dee", "--capability", "x", "--max-tasks", "0"}, []string{"error: --max-tasks: 0 is not a valid number of concurrent calls", "hint: use 1 to 1000"}},
		"too many tasks":      {[]string{"agents", "register", "dee", "--capability", "x", "--max-tasks", "1001"}, []string{"--max-tasks: 1001"}},
		"negative time":       {[]string{"agents", "register", "dee", "--capability", "x", "--call-timeout", "-5s"}, []string{"error: --call-timeout: -5s is not a valid time limit of a call", "hint: use 1s to 24h"}},
		"long time":           {[]string{"agents", "register", "dee", "--capability", "x", "--call-timeout", "25h"}, []string{"--call-timeout: 25h0m0s"}},
		"retries":             {[]string{"agents", "register", "dee", "--capability", "x", "--retries", "-1"}, []string{"error: --retries: -1 is not a valid number of retries: it must be 0 to 100"}},
		"bad name":            {[]string{"agents", "register", "d e", "--capability", "x"}, []string{`error: NAME: "d e" is not a valid name of an agent`, "hint: use 3 to 50 letters"}},
		"bad type":            {[]string{"agents", "register", "dee", "--capability", "x", "--type", "cook"}, []string{"error: --type:"}},
		"bad version":         {[]string{"agents", "register", "dee", "--capability", "x", "--version", "1"}, []string{"error: --version:"}},
		"empty capability":    {[]string{"agents", "register", "dee", "--capability", ":x"}, []string{"error: --capability: a capability has a name and a category"}},
		"no capability":       {[]string{"agents", "register", "dee"}, []string{"error: --capability: an agent has at least one"}},
		"run: bad name":       {[]string{"agent", "run", "--name", "d e", "--capability", "x", "--exec", "--", "true"}, []string{"error: --name:"}},
		"run: no tasks":       {[]string{"agent", "run", "--name", "dee", "--capability", "x", "--max-tasks", "0", "--exec", "--", "true"}, []string{"error: --max-tasks:"}},
		"run: other scheme":   {[]string{"agent", "run", "--name", "dee", "--url", "ftp://x", "--exec", "--", "true"}, []string{`error: --url: "ftp://x" is not the address of a node`, "hint: write it as http://HOST:PORT"}},
		"run: no scheme":      {[]string{"agent", "run", "--name", "dee", "--url", "localhost:7424", "--exec", "--", "true"}, []string{"error: --url:"}},
		"run: no host":        {[]string{"agent", "run", "--name", "dee", "--url", "http://:7424", "--exec", "--", "true"}, []string{"error: --url:"}},
		"run: empty address":  {[]string{"agent", "run", "--name", "dee", "--url", "", "--exec", "--", "true"}, []string{"error: --url:"}},
		"run: negative drain": {[]string{"agent", "run", "--name", "dee", "--drain", "-5s", "--exec", "--", "true"}, []string{"error: --drain must be positive, not -5s", "hint: use a time such as 10s"}},
		"run: no drain":       {[]string{"agent", "run", "--name", "dee", "--drain", "0", "--exec", "--", "true"}, []string{"error: --drain must be positive, not 0s"}},
		"run: no programs":    {[]string{"agent", "run", "--name", "dee", "--concurrency", "0", "--exec", "--", "true"}, []string{"error: --concurrency: 0 is not a valid number of programs", "hint: use 1 to 1000"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProbe(t)
			assert.Equal(t, exitUsage, p.run(t.Context(), test.args))
			for _, want := range test.want {
				assert.Contains(t, p.err.String(), want)
			}
		})
	}
}

// The limits in the messages are those of a registration.
func TestBoundsOfCallTimeout(t *testing.T) {
	t.Parallel()
	profile := func(d time.Duration) *agents.Profile {
		return &agents.Profile{Type: "specialist", Version: "1.0.0", Capabilities: asCapabilities([]string{"x"}), MaxTasks: 1, Timeout: d}
	}
	require.NoError(t, profile(time.Second).Check("dee"))
	require.NoError(t, profile(24*time.Hour).Check("dee"))
	assert.True(t, fault.Has(profile(time.Second-1).Check("dee"), fault.ValidationError))
	assert.True(t, fault.Has(profile(24*time.Hour+1).Check("dee"), fault.ValidationError))
}

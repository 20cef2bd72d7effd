package config

import (
	"errors"
	"io"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/orch-dev/orch/internal/yamlerror"
)

// Agent is an agent implemented by a command.
type Agent struct {
	// Command is the program with its arguments.
	Command []string
	// Timeout ends the program; 0 is the default of the tool.
	Timeout time.Duration
	// Network allows the program to reach other machines.
	Network bool
}

// parseAgents parses agents by type, as YAML or JSON: {reviewer: {command: [review], timeout: 10m}}.
func parseAgents(text string, at place) (map[string]Agent, error) {
	var given map[string]struct {
		Command []string `yaml:"command"`
		Timeout string   `yaml:"timeout"`
		Network bool     `yaml:"network"`
	}
	dec := yaml.NewDecoder(strings.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&given); err != nil && !errors.Is(err, io.EOF) {
		return nil, at.invalid("the agents cannot be read: %s", yamlerror.Text(err)).
			WithHint("write them as {reviewer: {command: [review, --brief], timeout: 10m, network: false}}")
	}
	if len(given) == 0 {
		return nil, nil
	}
	form := regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	agents := map[string]Agent{}
	for name, g := range given {
		if !form.MatchString(name) {
			return nil, at.invalid("%q is no type of an agent: use letters, digits, - and _, at most 64", name)
		}
		if len(g.Command) == 0 || g.Command[0] == "" || strings.ContainsAny(g.Command[0], "{}") {
			return nil, at.invalid("the agent %s needs a command that begins with its program", name)
		}
		agent := Agent{Command: g.Command, Network: g.Network}
		if g.Timeout != "" {
			var err error
			if agent.Timeout, err = time.ParseDuration(g.Timeout); err != nil || agent.Timeout <= 0 {
				return nil, at.invalid("the timeout %q of the agent %s is no duration", g.Timeout, name).WithHint("write it as 30s or 5m")
			}
		}
		agents[name] = agent
	}
	return agents, nil
}

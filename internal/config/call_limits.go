package config

import (
	"errors"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/orch-dev/orch/internal/yamlerror"
)

// CallLimit bounds how many of the calls that match all of its patterns start within a time, or run at the same time.
type CallLimit struct {
	// Tool, Queue, Provider, Identity and Key are patterns of path.Match; empty matches all. Key is for `limits.key` of plans.
	Tool, Queue, Provider, Identity, Key string
	// Starts is how many calls may start within any Window; 0 for no limit.
	Starts int
	Window time.Duration
	// Running is how many calls may run at the same time; 0 for no limit.
	Running int
	// By is identity or key if every identity or every key has the limit for itself.
	By string
}

const (
	maxCallLimits = 64
	// maxStarts limits CallLimit.Starts: the time of each start is kept.
	maxStarts = 10_000
	// maxRunning limits CallLimit.Running.
	maxRunning = 1_000_000
	minWindow  = time.Second
	maxWindow  = 31 * 24 * time.Hour
)

// callLimits parses limits, as YAML or JSON: [{tool: HTTP_REQUEST, rate: 30/1m}, {queue: deploy, running: 1}].
func (p place) callLimits(text string) ([]CallLimit, error) {
	var given []struct {
		Tool     string `yaml:"tool"`
		Queue    string `yaml:"queue"`
		Provider string `yaml:"provider"`
		Identity string `yaml:"identity"`
		Key      string `yaml:"key"`
		Rate     string `yaml:"rate"`
		Running  *int   `yaml:"running"`
		By       string `yaml:"by"`
	}
	dec := yaml.NewDecoder(strings.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&given); err != nil && !errors.Is(err, io.EOF) {
		return nil, p.invalid("the limits cannot be read: %s", yamlerror.Text(err)).
			WithHint("write them as [{tool: HTTP_REQUEST, rate: 30/1m}, {queue: deploy, running: 1}]")
	}
	if len(given) > maxCallLimits {
		return nil, p.invalid("there are %d limits, more than %d", len(given), maxCallLimits)
	}
	var all []CallLimit
	for i, g := range given {
		l := CallLimit{Tool: g.Tool, Queue: g.Queue, Provider: g.Provider, Identity: g.Identity, Key: g.Key, By: g.By}
		if err := p.patterns(i+1, l); err != nil {
			return nil, err
		}
		switch {
		case g.By != "" && g.By != "identity" && g.By != "key":
			return nil, p.invalid("limit %d: by is %q, and may be identity or key", i+1, g.By)
		case g.Rate == "" && g.Running == nil:
			return nil, p.invalid("limit %d limits nothing", i+1).WithHint("add rate, such as 30/1m, or running, such as 4")
		case g.Running != nil && (*g.Running < 1 || *g.Running > maxRunning):
			return nil, p.invalid("limit %d: running is %d, and may be 1 to %d", i+1, *g.Running, maxRunning).WithHint("to forbid calls, write a rule of the policy")
		case g.Running != nil:
			l.Running = *g.Running
		}
		if g.Rate != "" {
			var err error
			if l.Starts, l.Window, err = p.rate(i+1, g.Rate); err != nil {
				return nil, err
			}
		}
		all = append(all, l)
	}
	return all, nil
}

// patterns checks the patterns of a limit, by its number from 1.
func (p place) patterns(n int, l CallLimit) error {
	for _, f := range [][2]string{{"tool", l.Tool}, {"queue", l.Queue}, {"provider", l.Provider}, {"identity", l.Identity}, {"key", l.Key}} {
		if _, err := path.Match(f[1], ""); err != nil {
			return p.invalid("limit %d: %s is no pattern: %q", n, f[0], f[1]).WithHint("use a name, or * for any part of one")
		}
	}
	return nil
}

// rate parses a rate such as 30/1m.
func (p place) rate(n int, text string) (starts int, window time.Duration, err error) {
	count, per, _ := strings.Cut(text, "/")
	starts, wrong := strconv.Atoi(strings.TrimSpace(count))
	if per = strings.TrimSpace(per); per != "" && !strings.ContainsAny(per[:1], "0123456789") {
		per = "1" + per // 30/m
	}
	window, noTime := time.ParseDuration(per)
	switch {
	case wrong != nil || noTime != nil:
		return 0, 0, p.invalid("limit %d: %q is no rate", n, text).WithHint("write it as 30/1m: how many calls may start within which time")
	case starts < 1 || starts > maxStarts:
		return 0, 0, p.invalid("limit %d: a rate of %d calls; it may be 1 to %d", n, starts, maxStarts)
	case window < minWindow || window > maxWindow:
		return 0, 0, p.invalid("limit %d: a rate for %s; it may be %s to %s", n, window, minWindow, maxWindow)
	}
	return starts, window, nil
}

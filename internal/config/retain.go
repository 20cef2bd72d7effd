package config

import (
	"errors"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/orch-dev/orch/internal/yamlerror"
	"github.com/orch-dev/orch/retention"
)

// givenRule is the text form of a retention rule.
type givenRule struct {
	Where struct {
		Label map[string]string `yaml:"label"`
		Name  string            `yaml:"name"`
	} `yaml:"where"`
	Done             *string `yaml:"done"`
	Failed           *string `yaml:"failed"`
	Workspaces       *string `yaml:"workspaces"`
	FailedWorkspaces *string `yaml:"failed_workspaces"`
}

// retainRules parses the rules of retention, as YAML or JSON.
func (p place) retainRules(text string) ([]retention.Rule, error) {
	const form = "write them as [{where: {label: {env: prod}}, done: 30d, failed: 365d, workspaces: 7d}]"
	var given []givenRule
	dec := yaml.NewDecoder(strings.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&given); err != nil && !errors.Is(err, io.EOF) {
		return nil, p.invalid("the rules cannot be read: %s", yamlerror.Text(err)).WithHint(form)
	}
	if len(given) > retention.MaxRules {
		return nil, p.invalid("there are %d rules, more than %d", len(given), retention.MaxRules)
	}
	var rules []retention.Rule
	for i, g := range given {
		rule := retention.Rule{Labels: g.Where.Label, Name: g.Where.Name}
		if err := retention.CheckName(rule.Name); err != nil {
			return nil, p.invalid("where.name of rule %d: %s", i+1, err)
		}
		for _, field := range []struct {
			name  string
			given *string
			to    **time.Duration
		}{
			{"done", g.Done, &rule.Done},
			{"failed", g.Failed, &rule.Failed},
			{"workspaces", g.Workspaces, &rule.Workspaces},
			{"failed_workspaces", g.FailedWorkspaces, &rule.FailedWorkspaces},
		} {
			if field.given == nil {
				continue
			}
			d, err := retention.ParseTime(*field.given)
			if err != nil {
				return nil, p.invalid("%s of rule %d: %s", field.name, i+1, err).WithHint("write it as 30d or 12h; 0 is for ever")
			}
			*field.to = &d
		}
		if rule.Done == nil && rule.Failed == nil && rule.Workspaces == nil && rule.FailedWorkspaces == nil {
			return nil, p.invalid("rule %d gives no time", i+1).WithHint("%s", form)
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

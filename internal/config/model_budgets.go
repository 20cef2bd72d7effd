package config

import (
	"math"
	"strings"
)

// ModelBudget limits what requests to models may cost on the node in a period.
type ModelBudget struct {
	// NanoUSD limits the cost in billionths of a US dollar, Tokens the tokens; 0 is no limit.
	NanoUSD, Tokens int64
	// Per is day or month.
	Per string
	// By is identity for a budget that each identity has for itself, or empty.
	By string
	// Labels are labels that a task must have to be counted.
	Labels map[string]string
	// Model is the model that is counted, as in Models.Prices; empty for all.
	Model string
}

// givenBudget is the text form of ModelBudget.
type givenBudget struct {
	USD    *float64          `yaml:"usd"`
	Tokens *int64            `yaml:"tokens"`
	Per    string            `yaml:"per"`
	By     string            `yaml:"by"`
	Label  map[string]string `yaml:"label"`
	Model  string            `yaml:"model"`
}

// onlyFree says how to permit only models that cost nothing.
const onlyFree = "a budget such as {usd: 0.000001} permits only models whose price is 0"

// maxModelBudgets limits the budgets of the node. Each turn of an agent is checked against all of them.
const maxModelBudgets = 64

// budgets checks the budgets.
func (p place) budgets(given []givenBudget) ([]ModelBudget, error) {
	if len(given) > maxModelBudgets {
		return nil, p.invalid("there are %d budgets, more than %d", len(given), maxModelBudgets)
	}
	var all []ModelBudget
	for i, g := range given {
		if err := p.checkBudget(i+1, g); err != nil {
			return nil, err
		}
		b := ModelBudget{Per: g.Per, By: g.By, Labels: g.Label, Model: g.Model}
		if g.USD != nil {
			b.NanoUSD = int64(math.Round(*g.USD * 1e9))
		}
		if g.Tokens != nil {
			b.Tokens = *g.Tokens
		}
		all = append(all, b)
	}
	return all, nil
}

// checkBudget checks a budget, by its number from 1. A limit of 0 is refused, because in ModelBudget it is none.
func (p place) checkBudget(n int, g givenBudget) error {
	switch {
	case g.USD != nil && !(*g.USD >= 1e-9 && *g.USD <= 1e9):
		return p.invalid("usd of budget %d is not more than 0 and at most 1000000000", n).WithHint(onlyFree)
	case g.Tokens != nil && (*g.Tokens < 1 || *g.Tokens > 1e15):
		return p.invalid("tokens of budget %d are not between 1 and 1000000000000000", n)
	case g.USD == nil && g.Tokens == nil:
		return p.invalid("budget %d limits nothing", n).WithHint("write usd or tokens, such as {usd: 20, per: day}")
	case g.Per != "day" && g.Per != "month":
		return p.invalid("budget %d is per %q, which is neither day nor month", n, g.Per)
	case g.By != "" && g.By != "identity":
		return p.invalid("budget %d is by %q; by: identity is possible", n, g.By)
	case strings.Contains(strings.TrimSuffix(g.Model, "*"), "*"):
		return p.invalid("the model of budget %d is a name, or a beginning and *", n)
	}
	return nil
}

package config

import (
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// YAML returns the models as the value of the key models in a settings file. Paths are absolute.
func (m Models) YAML() (string, error) {
	given := givenModels{Providers: map[string]givenProvider{}, Prices: map[string]givenPrice{}}
	for name, p := range m.Providers {
		provider, err := p.given()
		if err != nil {
			return "", fmt.Errorf("the fields of the provider %s: %w", name, err)
		}
		given.Providers[name] = provider
	}
	for name, p := range m.Prices {
		given.Prices[name] = p.given()
	}
	if m.Concurrency > 0 {
		given.Concurrency = &m.Concurrency
	}
	for _, b := range m.Budgets {
		given.Budgets = append(given.Budgets, b.given())
	}
	text, err := yaml.Marshal(given)
	return string(text), err
}

// given returns the text form of a provider.
func (p ModelProvider) given() (givenProvider, error) {
	g := givenProvider{Wire: p.Wire, URL: p.URL, Key: string(p.Key), Headers: map[string]string{}, Fields: map[string]yaml.Node{}, CA: p.CA}
	if p.Idle > 0 {
		g.Idle = p.Idle.String()
	}
	if p.Concurrency > 0 {
		g.Concurrency = &p.Concurrency
	}
	for name, h := range p.Headers {
		g.Headers[name] = h.Text + string(h.Secret) // one of them is empty
	}
	for name, value := range p.Fields {
		node, err := nodeOf(value)
		if err != nil {
			return g, err
		}
		g.Fields[name] = node
	}
	return g, nil
}

// nodeOf converts JSON, which is YAML as well.
func nodeOf(value json.RawMessage) (yaml.Node, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(value, &document); err != nil {
		return document, err
	}
	return *document.Content[0], nil
}

// given returns the text form of a price.
func (p ModelPrice) given() givenPrice {
	dollars := func(nano int64) float64 { return float64(nano) / 1000 }
	return givenPrice{Input: dollars(p.Input), CacheRead: new(dollars(p.CacheRead)), CacheWrite: new(dollars(p.CacheWrite)), Output: dollars(p.Output), AsOf: p.AsOf}
}

// given returns the text form of a budget.
func (b ModelBudget) given() givenBudget {
	g := givenBudget{Per: b.Per, By: b.By, Label: b.Labels, Model: b.Model}
	if b.NanoUSD > 0 {
		g.USD = new(float64(b.NanoUSD) / 1e9)
	}
	if b.Tokens > 0 {
		g.Tokens = new(b.Tokens)
	}
	return g
}

package config

import (
	"cmp"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/orch-dev/orch/internal/yamlerror"
)

// Models are the providers and the prices of language models.
type Models struct {
	// Providers are the providers by name.
	Providers map[string]ModelProvider
	// Prices are the prices by model, PROVIDER/NAME, or PROVIDER/BEGINNING* for several. That of an MCP client is sampling:,
	// sampling:HINT, or sampling:* for all.
	Prices map[string]ModelPrice
	// Concurrency is how many requests to models the node makes at the same time; 0 means the default (see Slots).
	Concurrency int
	// Budgets limit what all agents of the node may use.
	Budgets []ModelBudget
	// Source is where they are set: FILE:LINE:COLUMN, a variable or a flag.
	Source string
}

// ModelPrice is the price of a model, in billionths of a US dollar for each token. It is a dollar for a million tokens
// times 1,000.
type ModelPrice struct {
	Input, CacheRead, CacheWrite, Output int64
	// AsOf is the date of the price.
	AsOf string
}

// givenModels is the text form of Models.
type givenModels struct {
	Providers map[string]givenProvider `yaml:"providers"`
	Prices    map[string]givenPrice    `yaml:"prices"`
	Budgets   []givenBudget            `yaml:"budgets"`

	Concurrency *int `yaml:"concurrency,omitempty"`
}

// givenPrice is a price in US dollars for a million tokens. Without a price of their own, cached tokens cost as much as others of a request.
type givenPrice struct {
	Input      float64  `yaml:"input"`
	CacheRead  *float64 `yaml:"cache_read"`
	CacheWrite *float64 `yaml:"cache_write"`
	Output     float64  `yaml:"output"`
	AsOf       string   `yaml:"as_of"`
}

// models parses providers, prices and budgets, as YAML or JSON:
// {providers: {local: {wire: openai, url: http://127.0.0.1:8080/v1}}, prices: {local/*: {input: 0.5, output: 1, as_of: 2026-11-01}}}.
func (p place) models(text string) (Models, error) {
	var given givenModels
	dec := yaml.NewDecoder(strings.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&given); err != nil && !errors.Is(err, io.EOF) {
		return Models{}, p.invalid("the models cannot be read: %s", yamlerror.Text(err)).
			WithHint("write them as {providers: {local: {wire: openai, url: http://127.0.0.1:8080/v1}}}")
	}
	var m Models
	if text != "" {
		m.Source = p.what
	}
	for name, g := range given.Providers {
		provider, err := p.provider(name, g)
		if err != nil {
			return m, err
		}
		if m.Providers == nil {
			m.Providers = map[string]ModelProvider{}
		}
		m.Providers[name] = provider
	}
	for name, g := range given.Prices {
		price, err := p.price(name, g)
		if err != nil {
			return m, err
		}
		if m.Prices == nil {
			m.Prices = map[string]ModelPrice{}
		}
		m.Prices[name] = price
	}
	var err error
	if m.Concurrency, err = p.concurrency(given.Concurrency); err != nil {
		return m, err
	}
	m.Budgets, err = p.budgets(given.Budgets)
	return m, err
}

const (
	// defaultModelSlots is the default of Models.Concurrency.
	defaultModelSlots = 128
	// maxModelSlots is the highest limit of requests at the same time.
	maxModelSlots = 10_000
)

// Slots returns how many requests to models the node makes at the same time.
func (m Models) Slots() int { return cmp.Or(m.Concurrency, defaultModelSlots) }

// concurrency checks a limit of requests at the same time. It returns 0 for nil.
func (p place) concurrency(given *int) (int, error) {
	switch {
	case given == nil:
		return 0, nil
	case *given < 1 || *given > maxModelSlots:
		return 0, p.invalid("`concurrency` is %d, not between 1 and %d", *given, maxModelSlots)
	default:
		return *given, nil
	}
}

// clientModel matches the names of models of MCP clients, as agents give them, and beginnings of these.
var clientModel = regexp.MustCompile(`^sampling:[A-Za-z0-9._:/-]{0,100}\*?$`)

// isPriced reports whether a name is that of a model that can have a price, or a beginning of such names.
func isPriced(name string) bool {
	if strings.HasPrefix(name, "sampling:") {
		return clientModel.MatchString(name)
	}
	provider, model, ok := strings.Cut(name, "/")
	return ok && provider != "" && model != ""
}

// price checks a price.
func (p place) price(name string, g givenPrice) (ModelPrice, error) {
	price := ModelPrice{AsOf: g.AsOf}
	if !isPriced(name) {
		return price, p.invalid("%q is no name of a model with a price", name).
			WithHint("write PROVIDER/NAME, or PROVIDER/* for all of a provider; sampling:HINT, or sampling:* for the models of MCP clients")
	}
	if _, err := time.Parse(time.DateOnly, g.AsOf); err != nil {
		return price, p.invalid("the price of %s needs its date in `as_of`, such as 2026-11-01", name)
	}
	given := []float64{g.Input, *cmp.Or(g.CacheRead, &g.Input), *cmp.Or(g.CacheWrite, &g.Input), g.Output}
	for i, field := range []*int64{&price.Input, &price.CacheRead, &price.CacheWrite, &price.Output} {
		if given[i] < 0 || given[i] > 1e6 || math.IsNaN(given[i]) {
			return price, p.invalid("a price of %s is not between 0 and 1000000 US dollars for a million tokens", name)
		}
		*field = int64(math.Round(given[i] * 1000))
	}
	return price, nil
}

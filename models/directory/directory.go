// Package directory finds the provider and the price of a model by its name. The name of a model is PROVIDER/NAME, where
// NAME is what the provider calls it, script:NAME for a model that answers from a script, replay:TASK_ID/STEP for one that answers
// from the history of a task, or sampling:HINT for that of the MCP client that has started the agent.
package directory

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/breaker"
	"github.com/orch-dev/orch/models/replay"
	"github.com/orch-dev/orch/models/sampling"
)

// scriptScheme begins the names of models that are scripts.
const scriptScheme = "script:"

// Price is the price of a model, in billionths of a US dollar for each token.
type Price struct {
	Input, CacheRead, CacheWrite, Output int64
	// AsOf is the date of the price, such as 2026-11-01.
	AsOf string
}

// Config contains the providers and the prices.
type Config struct {
	// Open opens each provider, by name. It is called once, when a model of the provider is first asked.
	Open map[string]func() (models.Provider, error)
	// Slots is how many requests each provider gets at the same time, by name; 0 for no limit.
	Slots map[string]int
	// Script opens the model of a script. It is called for each request. Nil means that there are none.
	Script func(name string) (models.Provider, error)
	// Prices are the prices by name of the model, as agents give it. A name that ends with * is that of all models with this beginning; the
	// longest one that fits counts.
	Prices map[string]Price
}

// Directory contains the models that a node can ask. It is safe for concurrent use.
type Directory struct {
	cfg Config

	mu     sync.Mutex // guards opened
	opened map[string]opened
}

// opened is a provider that was asked.
type opened struct {
	breaker *breaker.Provider
	// provider has the breaker and the limit of requests.
	provider models.Provider
}

// New returns a directory.
func New(cfg Config) *Directory {
	return &Directory{cfg: cfg, opened: map[string]opened{}}
}

// Providers returns the sorted names of the providers.
func (d *Directory) Providers() []string {
	names := make([]string, 0, len(d.cfg.Open))
	for name := range d.cfg.Open {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Recorded reports whether a model answers from the history of a task. Its provider depends on the task that asks.
func Recorded(model string) bool { return strings.HasPrefix(model, replay.Scheme) }

// Provider returns the provider of a model, and what the provider calls the model. It returns NOT_FOUND for a provider that
// does not exist, and the error of opening it. A provider that fails again and again is not asked for a while (package breaker),
// and gets no more than Slots requests at the same time: others wait. It has none for models that answer from a history (Recorded), nor for those of MCP clients.
func (d *Directory) Provider(model string) (models.Provider, string, error) {
	if err := d.check(model); err != nil {
		return nil, "", err
	}
	if Recorded(model) {
		return nil, "", fault.New(fault.ValidationError, "%s answers only the agent steps of a node", model).WithField("agent.model").
			WithHint("run an agent with it: orch agent ask NAME PROMPT --model %s", model)
	}
	if sampling.Named(model) {
		return nil, "", fault.New(fault.ValidationError, "only the MCP client that starts an agent can ask %s, which is its own model", model).WithField("agent.model").
			WithHint("connect a client that offers sampling (orch mcp install), and start an agent with this model from it: TASK_SPAWN")
	}
	if name, ok := strings.CutPrefix(model, scriptScheme); ok {
		p, err := d.cfg.Script(name)
		return p, name, err
	}
	name, id, _ := strings.Cut(model, "/")
	d.mu.Lock()
	defer d.mu.Unlock()
	if o, ok := d.opened[name]; ok {
		return o.provider, id, nil
	}
	p, err := d.cfg.Open[name]()
	if err != nil {
		return nil, "", err
	}
	guarded := breaker.New(p, time.Now)
	o := opened{guarded, limited(guarded, d.Slots(name))}
	d.opened[name] = o
	return o.provider, id, nil
}

// Slots returns how many requests a provider gets at the same time; 0 for no limit.
func (d *Directory) Slots(provider string) int { return d.cfg.Slots[provider] }

// Breakers returns the states of the providers that were asked, by name.
func (d *Directory) Breakers() map[string]breaker.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := map[string]breaker.Status{}
	for name, o := range d.opened {
		all[name] = o.breaker.Status()
	}
	return all
}

// check returns NOT_FOUND for a model whose provider does not exist.
func (d *Directory) check(model string) error {
	if Recorded(model) {
		_, err := replay.ParseName(model)
		return err
	}
	if sampling.Named(model) {
		_, err := sampling.ParseName(model)
		return err
	}
	if strings.HasPrefix(model, scriptScheme) && d.cfg.Script != nil {
		return nil
	}
	name, id, ok := strings.Cut(model, "/")
	if !ok || id == "" {
		return fault.New(fault.ValidationError, "%q is no name of a model", model).WithField("agent.model").
			WithHint("write PROVIDER/NAME, such as openai/gpt-5, or script:NAME, replay:TASK_ID, or sampling:")
	}
	if d.cfg.Open[name] == nil {
		return fault.New(fault.NotFound, "there is no provider %q", name).WithField("agent.model").WithHint("%s", d.hint())
	}
	return nil
}

func (d *Directory) hint() string {
	if len(d.cfg.Open) == 0 {
		return "set one up under models in the settings; orch models list shows how"
	}
	return "the providers are " + strings.Join(d.Providers(), ", ") + "; set up others under models in the settings: orch models list"
}

// Price returns the price of a model, and whether it is known. Scripts and records cost nothing. It returns NOT_FOUND for a provider that
// does not exist.
func (d *Directory) Price(model string) (price Price, known bool, err error) {
	if err := d.check(model); err != nil {
		return Price{}, false, err
	}
	if Recorded(model) {
		return Price{}, true, nil
	}
	name, known := d.PriceName(model)
	return d.cfg.Prices[name], known || strings.HasPrefix(model, scriptScheme), nil
}

// PriceName returns the name of the price that a model has: its own, or the longest beginning with *; false if there is none.
func (d *Directory) PriceName(model string) (name string, found bool) {
	if _, found = d.cfg.Prices[model]; found {
		return model, true
	}
	for candidate := range d.cfg.Prices {
		beginning, pattern := strings.CutSuffix(candidate, "*")
		if pattern && strings.HasPrefix(model, beginning) && len(candidate) > len(name) {
			name, found = candidate, true
		}
	}
	return name, found
}

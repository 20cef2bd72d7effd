package main

import (
	"maps"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/models/directory"
)

// The scripts of the demonstration.
const (
	demoScript = "script:repair"
	demoSecond = "script:second"
)

// demoModel is the model that the demonstration asks.
type demoModel struct {
	// name is that of the model. real is set if it is no script.
	name string
	real bool
	// tokens limits what an agent may use.
	tokens int
	// settings is the content of the settings file of the demonstration.
	settings string
	// variables are the environment variables with the secrets of the provider.
	variables []string
}

// newDemoModel finds the model in the settings of the user, and checks that its key can be read.
func newDemoModel(e *env, o demoOptions) (demoModel, error) {
	m := demoModel{name: demoScript, tokens: o.tokens, settings: "http: \"off\"\nsandbox: best-effort\n"}
	if o.tokens < 1 {
		return m, fault.New(fault.ValidationError, "must be 1 or more").WithField("--tokens")
	}
	if o.model == "" {
		return m, nil
	}
	m.name, m.real = o.model, true
	if strings.HasPrefix(o.model, "script:") {
		return m, fault.New(fault.InvalidParams, "the demonstration has scripts of its own").WithField("--model").WithHint("leave --model out, or name PROVIDER/NAME")
	}
	commands := &modelCommands{&connector{env: e}}
	err := commands.withModels(func(all *directory.Directory, _ *pathguard.Root) error {
		_, _, err := all.Price(o.model)
		return err
	})
	if err != nil {
		return m, fault.From(err).WithField("--model")
	}
	name, _, _ := strings.Cut(o.model, "/")
	provider := e.cfg.Models.Providers[name]
	if _, err := provider.Key.Read(e.getenv); err != nil {
		return m, fault.From(err).WithField("--model").WithHint("orch models test %s shows what is missing", o.model)
	}
	m.variables = provider.SecretVariables()
	return m, m.addSettings(e.cfg.Models, name)
}

// addSettings adds a provider, its prices and the budgets of the user to the settings of the demonstration. What was spent before is not known
// there.
func (m *demoModel) addSettings(all config.Models, provider string) error {
	prices := maps.Clone(all.Prices)
	maps.DeleteFunc(prices, func(name string, _ config.ModelPrice) bool { return !strings.HasPrefix(name, provider+"/") })
	only := config.Models{Providers: map[string]config.ModelProvider{provider: all.Providers[provider]}, Prices: prices, Budgets: all.Budgets}
	text, err := only.YAML()
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the settings of the provider cannot be written")
	}
	m.settings += "models:\n"
	for line := range strings.Lines(text) {
		m.settings += "  " + line
	}
	return nil
}

// fill replaces the names of values in a file of the demonstration.
func (m demoModel) fill(text, project string) string {
	return strings.NewReplacer("PROJECT", project, "TOKENS", strconv.Itoa(m.tokens)).Replace(text)
}

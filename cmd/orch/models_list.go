package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/classify/secrets"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/models/breaker"
	"github.com/orch-dev/orch/models/directory"
	"github.com/orch-dev/orch/models/wire"
	"github.com/orch-dev/orch/node"
)

// modelList is the output of `orch models list`.
type modelList struct {
	Providers []shownProvider `json:"providers"`
	Scripts   []shownScript   `json:"scripts"`
	Prices    []shownPrice    `json:"prices"`
}

// shownProvider is a provider without secrets.
type shownProvider struct {
	Name string `json:"name"`
	Wire string `json:"wire"`
	URL  string `json:"url"`
	// Key is the place of the credential.
	Key string `json:"key,omitempty"`
	// Error is why the credential or the value of a header cannot be read.
	Error string `json:"error,omitempty"`
	// Headers and Fields are names.
	Headers []string `json:"headers,omitempty"`
	Fields  []string `json:"fields,omitempty"`
	CA      string   `json:"ca,omitempty"`
	// Concurrency is how many requests the provider gets at the same time.
	Concurrency int           `json:"concurrency"`
	Idle        time.Duration `json:"idle"`
	// Node says how the running node sees the provider; nil if none runs.
	Node *api.ProviderView `json:"node,omitempty"`
}

// shownScript is a script below the root.
type shownScript struct {
	Name string `json:"name"`
	File string `json:"file"`
	// Error is why it cannot be read.
	Error string `json:"error,omitempty"`
}

// shownPrice is the price of a model in US dollars for a million tokens.
type shownPrice struct {
	Model      string  `json:"model"`
	Input      float64 `json:"input"`
	CacheRead  float64 `json:"cache_read"`
	CacheWrite float64 `json:"cache_write"`
	Output     float64 `json:"output"`
	AsOf       string  `json:"as_of"`
}

func newModelsList(c *modelCommands) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the providers of models, the scripts and the prices",
		Long: `List the providers of models in the settings with their addresses, and whether their keys can be read here; the scripts in
.orch/models below the root; and the prices. If a node runs, the list says which providers it does not ask for a while, because
they have failed again and again. The command itself asks no provider: orch models test does.`,
		Example: "  orch models list --json",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withModels(func(all *directory.Directory, root *pathguard.Root) error {
				scripts, err := shownScripts(all, root)
				if err != nil {
					return err
				}
				l := modelList{Providers: c.atRunningNode(cmd.Context(), c.shownProviders()), Scripts: scripts, Prices: shownPrices(c.cfg.Models.Prices)}
				return c.emit(view{data: l, names: modelNames(all, root), text: func(w io.Writer) error { return c.modelTables(w, l) }})
			})
		},
	}
}

// shownProviders returns the providers of the settings. It reads their secrets, to see whether that is possible.
func (c *modelCommands) shownProviders() []shownProvider {
	list := []shownProvider{}
	for _, name := range slices.Sorted(maps.Keys(c.cfg.Models.Providers)) {
		p := c.cfg.Models.Providers[name]
		shown := shownProvider{
			Name: name, Wire: p.Wire, URL: secrets.URL(addressOf(p)), Key: string(p.Key), CA: p.CA, Idle: cmp.Or(p.Idle, wire.DefaultIdle),
			Headers: slices.Sorted(maps.Keys(p.Headers)), Fields: slices.Sorted(maps.Keys(p.Fields)), Concurrency: p.Slots(),
		}
		if _, err := c.readSecrets(p); err != nil {
			shown.Error = err.Message
		}
		list = append(list, shown)
	}
	return list
}

// atRunningNode adds to providers how the running node sees them, if one runs.
func (c *modelCommands) atRunningNode(ctx context.Context, providers []shownProvider) []shownProvider {
	if len(providers) == 0 {
		return providers
	}
	ctx, stop := context.WithTimeout(ctx, offeredWithin)
	defer stop()
	var status api.StatusReply
	s, err := c.nodes.Dial(ctx, c.cfg)
	if err == nil {
		err = useSession(ctx, s, func(s session) (err error) {
			status, err = s.Status(ctx, api.StatusRequest{})
			return err
		})
	}
	switch {
	case c.cfg.Server == "" && fault.Has(err, fault.Unavailable):
		return providers
	case err != nil:
		c.note("the node does not say which providers it asks: %v", err)
		return providers
	}
	for i, p := range providers {
		view := api.ProviderView{Name: p.Name, State: string(breaker.Closed)} // a node names only providers that fail
		if at := slices.IndexFunc(status.Providers, func(v api.ProviderView) bool { return v.Name == p.Name }); at >= 0 {
			view = status.Providers[at]
		}
		providers[i].Node = &view
	}
	return providers
}

// readSecrets reads the key of a provider and the values of headers that are secret. It returns a function that removes them from a
// text.
func (c *modelCommands) readSecrets(p config.ModelProvider) (hide func(string) string, _ *fault.Error) {
	key, err := p.Key.Read(c.getenv)
	if err != nil {
		return nil, fault.From(err).WithField("key")
	}
	var headers []string
	for _, name := range slices.Sorted(maps.Keys(p.Headers)) {
		value, err := p.Headers[name].Read(c.getenv)
		switch {
		case err != nil:
			return nil, fault.From(err).WithField(name)
		case p.Headers[name].Secret != "":
			headers = append(headers, value)
		}
	}
	return wire.Hider(append(headers, key), headers), nil
}

func shownScripts(all *directory.Directory, root *pathguard.Root) ([]shownScript, error) {
	list := []shownScript{}
	names, err := node.Scripts(root)
	for _, name := range names {
		s := shownScript{Name: "script:" + name, File: node.ScriptFolder + "/" + name + ".yaml"}
		if _, _, err := all.Provider(s.Name); err != nil {
			s.Error = fault.From(err).Message
		}
		list = append(list, s)
	}
	return list, err
}

func shownPrices(prices map[string]config.ModelPrice) []shownPrice {
	list := []shownPrice{}
	for _, name := range slices.Sorted(maps.Keys(prices)) {
		list = append(list, priceOf(name, prices[name]))
	}
	return list
}

func priceOf(name string, p config.ModelPrice) shownPrice {
	const unit = 1000 // a dollar for a million tokens, in billionths of a dollar for each
	return shownPrice{name, float64(p.Input) / unit, float64(p.CacheRead) / unit, float64(p.CacheWrite) / unit, float64(p.Output) / unit, p.AsOf}
}

// modelTables writes the list for people.
func (c *modelCommands) modelTables(w io.Writer, l modelList) error {
	var tables []screen.Table
	if len(l.Providers) > 0 {
		tables = append(tables, providerTable(l.Providers))
	}
	if len(l.Scripts) > 0 {
		var t screen.Table
		t.Row("SCRIPT", "FILE", "ERROR")
		for _, s := range l.Scripts {
			t.Row(s.Name, s.File, cmp.Or(s.Error, "-"))
		}
		tables = append(tables, t)
	}
	if len(l.Prices) > 0 {
		var t screen.Table
		t.Row("$ PER MILLION TOKENS", "INPUT", "CACHE READ", "CACHE WRITE", "OUTPUT", "AS OF")
		for _, name := range slices.Sorted(maps.Keys(c.cfg.Models.Prices)) {
			p := c.cfg.Models.Prices[name]
			t.Row(name, perMillion(p.Input), perMillion(p.CacheRead), perMillion(p.CacheWrite), perMillion(p.Output), p.AsOf)
		}
		tables = append(tables, t)
	}
	for i, t := range tables {
		if i > 0 {
			if err := writeLines(w, []string{""}); err != nil {
				return err
			}
		}
		if err := t.Write(w, c.width()); err != nil {
			return err
		}
	}
	if len(l.Providers) == 0 {
		c.note("%s", noProviders)
	}
	return nil
}

// perMillion formats a price in billionths of a dollar for a token.
func perMillion(nano int64) string { return events.Dollars(nano * 1_000_000) }

// noProviders says how to set up a provider.
const noProviders = `no providers; write them into ~/.orch/config.yaml, such as

models:
  providers:
    openai: {wire: openai, key: env:OPENAI_API_KEY}
    claude: {wire: anthropic, key: file:~/.secrets/claude}
    local: {wire: openai, url: "http://127.0.0.1:8080/v1"}
  prices:
    local/*: {input: 0, output: 0, as_of: 2026-11-01}

and test them: orch models test local/NAME`

func providerTable(providers []shownProvider) screen.Table {
	var t screen.Table
	t.Row("PROVIDER", "WIRE", "ADDRESS", "KEY", "READABLE", "IDLE", "AT ONCE", "HEADERS", "FIELDS", "AT THE NODE")
	for _, p := range providers {
		readable := "yes"
		switch {
		case p.Error != "":
			readable = "no: " + p.Error
		case p.Key == "" && len(p.Headers) == 0:
			readable = "-"
		}
		t.Row(p.Name, p.Wire, p.URL, cmp.Or(p.Key, "-"), readable, screen.Duration(p.Idle), strconv.Itoa(p.Concurrency), orNone(p.Headers), orNone(p.Fields), nodeText(p.Node))
	}
	return t
}

// nodeText says whether the running node asks a provider.
func nodeText(v *api.ProviderView) string {
	switch {
	case v == nil:
		return "-"
	case v.Until != nil:
		return fmt.Sprintf("%s: not asked until %s, failed %d times: %s", v.State, v.Until.UTC().Format("15:04:05Z"), v.Failures, v.Error)
	case v.Failures > 0:
		return fmt.Sprintf("%s: failed %d times: %s", v.State, v.Failures, v.Error)
	default:
		return v.State
	}
}

// orNone joins names, or returns "-" if there are none.
func orNone(names []string) string { return cmp.Or(strings.Join(names, ","), "-") }

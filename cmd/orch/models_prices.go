package main

import (
	"cmp"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/models/directory"
)

// priceList is the output of `orch models prices`.
type priceList struct {
	Prices []sourcedPrice `json:"prices"`
	// Source is where the prices are set.
	Source string `json:"source,omitempty"`
}

// sourcedPrice is the price of a model, or of all with a beginning.
type sourcedPrice struct {
	shownPrice

	// Price is the name of the price that the model has; empty if it has none.
	Price string `json:"price,omitempty"`
	// Known is false for a model without a price.
	Known bool `json:"known"`
}

func newModelsPrices(c *modelCommands) *cobra.Command {
	return &cobra.Command{
		Use:   "prices [MODEL...]",
		Short: "Show the prices of models, with their dates and where they are set",
		Long: `Show the prices of models in US dollars for a million tokens, with their dates and where they are set; with MODEL, the price
that an agent with this model has. Prices are settings: a price of a model replaces that of a beginning with *, and the setting
models of a variable (ORCH_MODELS) or a flag (--models) replaces that of the file. A new price holds for agents that start
after the next start of the node.`,
		Example:           "  orch models prices\n  orch models prices openai/gpt-5 local/llama",
		Args:              takes("[MODEL...]"),
		ValidArgsFunction: c.completeModels,
		RunE: func(_ *cobra.Command, args []string) error {
			return c.withModels(func(all *directory.Directory, _ *pathguard.Root) error {
				l, err := c.prices(all, args)
				if err != nil {
					return err
				}
				return c.emit(view{data: l, rows: rowsOf(l.Prices), names: priceNames(l), text: func(w io.Writer) error { return c.priceTable(w, l) }})
			})
		},
	}
}

// prices returns the prices of models, or all prices.
func (c *modelCommands) prices(all *directory.Directory, models []string) (priceList, error) {
	l := priceList{Prices: []sourcedPrice{}, Source: c.cfg.Models.Source}
	if len(models) == 0 {
		for _, p := range shownPrices(c.cfg.Models.Prices) {
			l.Prices = append(l.Prices, sourcedPrice{p, p.Model, true})
		}
		return l, nil
	}
	for _, model := range models {
		_, known, err := all.Price(model)
		if err != nil {
			return l, err
		}
		p := sourcedPrice{shownPrice: shownPrice{Model: model}, Known: known}
		if name, found := all.PriceName(model); found {
			p.shownPrice, p.Price = priceOf(model, c.cfg.Models.Prices[name]), name
		}
		l.Prices = append(l.Prices, p)
	}
	return l, nil
}

func priceNames(l priceList) (names []string) {
	for _, p := range l.Prices {
		names = append(names, p.Model)
	}
	return names
}

func (c *modelCommands) priceTable(w io.Writer, l priceList) error {
	if len(l.Prices) == 0 {
		c.note("no prices; write them into ~/.orch/config.yaml, such as\n\nmodels:\n  prices:\n    openai/gpt-5: {input: 1.25, cache_read: 0.125, output: 10, as_of: 2026-11-01}")
		return nil
	}
	var t screen.Table
	t.Row("$ PER MILLION TOKENS", "INPUT", "CACHE READ", "CACHE WRITE", "OUTPUT", "AS OF", "PRICE OF", "SET IN")
	for _, p := range l.Prices {
		switch {
		case !p.Known:
			t.Row(p.Model, "unknown", "-", "-", "-", "-", "-", "-")
		case p.Price == "":
			t.Row(p.Model, "0.00", "0.00", "0.00", "0.00", "-", "scripts", "-")
		default:
			t.Row(p.Model, dollars(p.Input), dollars(p.CacheRead), dollars(p.CacheWrite), dollars(p.Output), p.AsOf, p.Price, cmp.Or(l.Source, "-"))
		}
	}
	return t.Write(w, c.width())
}

// dollars formats a price.
func dollars(usd float64) string { return events.Dollars(int64(math.Round(usd * 1e9))) }

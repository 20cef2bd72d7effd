package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http/httptrace"
	"strings"
	"time"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/directory"
	"github.com/orch-dev/orch/node"
)

// modelTrial is the test of a model.
type modelTrial struct {
	*modelCommands

	name    string // as agents give it
	options modelTestOptions
	steps   modelSteps

	// settings are those of the provider; the zero value for a script. place is its name, or the file of the script.
	settings config.ModelProvider
	place    string
	provider models.Provider
	id       string // the provider's name of the model
	price    directory.Price
	priced   bool
	// hide removes the secrets of the provider from a text.
	hide func(string) string

	first    models.Answer
	usage    models.Usage // of all requests
	requests int
}

// isScript reports whether the model is a script.
func (t *modelTrial) isScript() bool { return strings.HasPrefix(t.name, "script:") }

// run makes all steps until one fails.
func (t *modelTrial) run(ctx context.Context) error {
	if err := t.readKey(); err != nil {
		return err
	}
	if err := t.ask(ctx); err != nil {
		return err
	}
	if t.options.noTools || t.isScript() {
		return nil
	}
	return t.useTool(ctx)
}

// open finds the model in the settings.
func (t *modelTrial) open(all *directory.Directory) (err error) {
	t.steps.begin(stepSettings)
	if t.provider, t.id, err = all.Provider(t.name); err != nil {
		return renamed(err)
	}
	if t.price, t.priced, err = all.Price(t.name); err != nil {
		return renamed(err)
	}
	if t.isScript() {
		t.place = node.ScriptFolder + "/" + t.id + ".yaml"
		t.steps.end(stepSettings, t.place)
		return nil
	}
	t.place, _, _ = strings.Cut(t.name, "/")
	t.settings = t.cfg.Models.Providers[t.place]
	t.steps.end(stepSettings, t.settings.Wire+" at "+addressOf(t.settings))
	return nil
}

// renamed returns an error about a model with the argument of the command as its field.
func renamed(err error) error {
	e := *fault.From(err)
	if e.Field == "agent.model" {
		e.Field = "MODEL"
	}
	return &e
}

// readKey reads the secrets of the provider.
func (t *modelTrial) readKey() error {
	if t.isScript() {
		return nil
	}
	t.steps.begin(stepKey)
	hide, err := t.readSecrets(t.settings)
	if err != nil {
		return t.failed(t.explainKey(err))
	}
	t.hide = hide
	t.steps.end(stepKey, cmp.Or(string(t.settings.Key), "no key")+headersText(len(t.settings.Headers)))
	return nil
}

func headersText(n int) string {
	if n == 0 {
		return ""
	}
	return ", and " + screen.Plural(n, "header")
}

// maxTestTokens limits the tokens of an answer, with those of its reasoning.
const maxTestTokens = 2048

// ask asks the first question and measures the connection.
func (t *modelTrial) ask(ctx context.Context) error {
	if t.isScript() {
		t.steps.begin(stepAnswer)
	}
	began := t.now()
	var firstText time.Duration
	hear := func(models.Delta) {
		if firstText == 0 {
			firstText = max(t.now().Sub(began), 1)
		}
	}
	answer, err := t.stream(httptrace.WithClientTrace(ctx, t.steps.trace()), t.question(t.options.prompt), hear)
	if err != nil {
		return err
	}
	t.first = answer
	detail := t.describe(answer)
	if firstText >= time.Millisecond {
		detail += ", begun after " + screen.Duration(firstText)
	}
	t.steps.end(stepAnswer, detail)
	return nil
}

// question returns a request with a prompt.
func (t *modelTrial) question(prompt string) models.Request {
	return models.Request{
		Model: t.id, MaxTokens: maxTestTokens,
		Messages: []models.Message{{Role: models.User, Parts: []models.Part{{Text: prompt}}}},
	}
}

// stream sends a request and counts what it uses. An error ends the step that has begun.
func (t *modelTrial) stream(ctx context.Context, r models.Request, hear func(models.Delta)) (models.Answer, error) {
	t.requests++
	answer, err := t.provider.Stream(ctx, r, hear)
	if err != nil {
		return answer, t.failed(t.explain(ctx, err))
	}
	t.usage.Input += answer.Usage.Input
	t.usage.CacheRead += answer.Usage.CacheRead
	t.usage.CacheWrite += answer.Usage.CacheWrite
	t.usage.Output += answer.Usage.Output
	return answer, nil
}

// failed ends the step that has begun with an error.
func (t *modelTrial) failed(err *fault.Error) error {
	t.steps.fail(err)
	return err
}

// hidden returns a text of the provider without secrets, in one line.
func (t *modelTrial) hidden(text string) string {
	if t.hide != nil {
		text = t.hide(text)
	}
	return screen.Line(text)
}

// describe returns the text and the calls of an answer, and why it ended.
func (t *modelTrial) describe(a models.Answer) string {
	var parts []string
	for _, p := range a.Message.Parts {
		switch {
		case p.Text != "":
			parts = append(parts, fmt.Sprintf("%q", t.hidden(p.Text)))
		case p.Call != nil:
			parts = append(parts, "calls "+t.hidden(p.Call.Name))
		}
	}
	if len(parts) == 0 {
		parts = []string{"no text"}
	}
	return strings.Join(append(parts, "stop: "+string(a.Stop)), ", ")
}

// cost returns the cost of all requests, in billionths of a US dollar.
func (t *modelTrial) cost() int64 { return events.Price(t.price).Of(events.Usage(t.usage)) }

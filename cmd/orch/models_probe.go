package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/directory"
)

// modelTestOptions are the flags of `orch models test`.
type modelTestOptions struct {
	prompt  string
	noTools bool
	timeout time.Duration
}

// modelReport is the output of `orch models test`.
type modelReport struct {
	Model string `json:"model"`
	// OK is set if no step failed.
	OK    bool        `json:"ok"`
	Steps []modelStep `json:"steps"`
	// Answer is the text of the first answer, AnsweredBy the model as the provider names it.
	Answer     string      `json:"answer,omitempty"`
	AnsweredBy string      `json:"answered_by,omitempty"`
	Stop       models.Stop `json:"stop,omitempty"`
	// Usage counts the tokens of all requests.
	Usage    models.Usage `json:"usage"`
	Requests int          `json:"requests"`
	// TokensPerSecond is the rate of the first answer, from its request to its end.
	TokensPerSecond float64 `json:"tokens_per_second,omitempty"`
	// USD is the cost of all requests, AsOf the date of the price; not if there is no price.
	USD  *float64 `json:"usd,omitempty"`
	AsOf string   `json:"as_of,omitempty"`
}

func newModelsTest(c *modelCommands) *cobra.Command {
	o := modelTestOptions{}
	cmd := &cobra.Command{
		Use:   "test MODEL",
		Short: "Ask a model and show each step with its time",
		Long: `Ask a model, PROVIDER/NAME or script:NAME, and show each step with its time: the settings, the key, the connection, the
first byte of the answer and all of it. Then offer the model a tool that does nothing, ask it to call it, and give it a
result, since agents need that. These are three short requests, which a provider may bill; with --no-tools it is one.
A script is asked for its first turn. The model sampling: is that of an MCP client, which alone can ask it; it is not tested.`,
		Example:           "  orch models test openai/gpt-5\n  orch models test script:answers --prompt 'review it'",
		Args:              takes("MODEL"),
		ValidArgsFunction: c.completeModels,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.test(cmd.Context(), args[0], o) },
	}
	cmd.Flags().StringVar(&o.prompt, "prompt", "Answer with one word: ready", "what to ask the model first")
	cmd.Flags().BoolVar(&o.noTools, "no-tools", false, "do not try whether the model calls tools")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 2*time.Minute, "end the test after this time, with the exit code 8")
	return cmd
}

// test tests a model. The report is shown also if a step failed, but not for a model that does not exist.
func (c *modelCommands) test(ctx context.Context, name string, o modelTestOptions) error {
	if o.timeout <= 0 {
		return fault.New(fault.ValidationError, "must be more than 0").WithField("--timeout")
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	t := &modelTrial{modelCommands: c, name: name, options: o, steps: modelSteps{now: c.now}}
	if err := c.withModels(func(all *directory.Directory, _ *pathguard.Root) error { return t.open(all) }); err != nil {
		return err
	}
	err := t.run(ctx)
	r := t.report(err)
	shown := c.emit(view{data: r, names: []string{r.Model}, text: func(w io.Writer) error { return writeLines(w, t.lines(r)) }})
	return errors.Join(shown, err)
}

// report returns the report of a test that has ended.
func (t *modelTrial) report(err error) modelReport {
	r := modelReport{
		Model: t.name, OK: err == nil, Steps: t.steps.all(), AnsweredBy: t.hidden(t.first.Model), Stop: t.first.Stop, Usage: t.usage, Requests: t.requests,
	}
	var took time.Duration
	for _, step := range r.Steps {
		if step.Name == stepFirstByte || step.Name == stepAnswer {
			took += step.Duration
		}
	}
	for _, p := range t.first.Message.Parts {
		r.Answer += t.hidden(p.Text)
	}
	if took > 0 {
		r.TokensPerSecond = float64(t.first.Usage.Output) / took.Seconds()
	}
	if t.priced && t.requests > 0 {
		r.USD, r.AsOf = new(float64(t.cost())/1e9), t.price.AsOf
	}
	return r
}

// lines returns the report for people.
func (t *modelTrial) lines(r modelReport) []string {
	style := t.style(t.outTTY)
	lines := []string{screen.Escape(r.Model) + " " + style.Good("works")}
	if !r.OK {
		lines[0] = screen.Escape(r.Model) + " " + style.Bad("does not work")
	}
	for _, s := range r.Steps {
		mark, detail := style.Good("✓"), s.Detail
		if s.Error != nil {
			mark, detail = style.Bad("✗"), s.Error.Message
		}
		line := fmt.Sprintf("  %s %-11s %6s  %s", mark, s.Name, screen.Duration(s.Duration), screen.Escape(detail))
		lines = append(lines, strings.TrimRight(line, " "))
	}
	if t.requests == 0 || r.Usage == (models.Usage{}) {
		return lines
	}
	if r.AnsweredBy != "" && r.AnsweredBy != t.id {
		lines = append(lines, "answered by: "+screen.Escape(r.AnsweredBy))
	}
	return append(lines, "tokens: "+t.tokensText(r), "price:  "+t.priceText())
}

// tokensText returns what a test used.
func (t *modelTrial) tokensText(r modelReport) string {
	text := fmt.Sprintf("%d in, %d out in %s", events.Usage(r.Usage).Request(), r.Usage.Output, screen.Plural(r.Requests, "request"))
	if r.TokensPerSecond > 0 && !t.isScript() {
		text += fmt.Sprintf("; the first answer had %.1f tokens/s", r.TokensPerSecond)
	}
	return text
}

// priceText returns what a test cost.
func (t *modelTrial) priceText() string {
	switch {
	case t.isScript():
		return "$0.00, a script"
	case !t.priced:
		return "unknown; a budget in dollars needs it: models.prices." + t.name + " in the settings"
	default:
		return fmt.Sprintf("$%s by the price of %s", events.Dollars(t.cost()), t.price.AsOf)
	}
}

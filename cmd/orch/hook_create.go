package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/schedules"
)

// hookOptions are the flags of `orch hook create`.
type hookOptions struct {
	name, plan, file                 string
	provider, when, note, secretFile string
	signalTask, signalName           string
	stream, subject, from            string
	headers, inputs                  []string
	inputsFile                       string
	paused, replace                  bool
}

func newHookCreate(c *hookCommands) *cobra.Command {
	var o hookOptions
	cmd := &cobra.Command{
		Use:   "create NAME [PLAN.yaml]",
		Short: "Create a hook, or replace its definition",
		Long: `Create a hook, or replace its definition.

The definition is flags, or a file (-f) in YAML or JSON with provider, nats, when, plan, inputs, signal, headers and note. The plan of a
file is the path of a plan, relative to that file, or a plan. Plan and inputs are stored as they are now. Texts of inputs and
signals may contain expressions such as ${{ hook.body.ref }}.

The secret is what the sender signs with. It is read from a file or stdin, stored with the secrets of the node, and shown nowhere.
The same command again changes nothing; another definition needs --replace, which keeps secret, pause and deliveries. Hooks of the
provider none have no signature: their deliveries need the token of an operator.

A hook of the provider nats takes the messages of a stream of the NATS server with which the node runs (orch serve --nats URL), each
once: those that are stored from now on, or all (--from all). Whoever may publish there starts its tasks.`,
		Example: `  orch hook create deploy deploy.yaml --provider github --secret-file secret.txt --when 'hook.body.ref == "refs/heads/main"'
  orch hook create paid -f paid.yaml --secret-file - < secret.txt
  orch hook create reply --provider slack --secret-file secret.txt --signal-task '${{ hook.body.callback_id }}' --signal answer
  orch hook create orders order.yaml --provider nats --stream ORDERS --subject 'orders.*.created' -i 'order=${{ hook.body.id }}'`,
		Args: takes("NAME", "[PLAN.yaml]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			if len(args) > 1 && o.plan != "" {
				return fault.New(fault.InvalidParams, "the plan is given twice").WithField("--plan")
			}
			if len(args) > 1 {
				o.plan = args[1]
			}
			return c.create(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "file with the definition, - for stdin")
	f.StringVar(&o.plan, "plan", "", "the plan, as PLAN.yaml")
	f.StringVar(&o.provider, "provider", "", "who signs the deliveries, or nats for those of a stream"+choices(hookProviders()))
	f.StringVar(&o.stream, "stream", "", "the stream of the provider nats")
	f.StringVar(&o.subject, "subject", "", "subject of the messages of the stream; may have wildcards (default: all)")
	f.StringVar(&o.from, "from", "", "where to begin in the stream"+choices(hookFroms()))
	f.StringVar(&o.secretFile, "secret-file", "", "file with the secret of the sender, - for stdin")
	f.StringVar(&o.when, "when", "", "expression that chooses deliveries (default: all)")
	f.StringVar(&o.signalTask, "signal-task", "", "signal the task of this id instead of starting one; may contain expressions")
	f.StringVar(&o.signalName, "signal", "", "name of the signal")
	f.StringArrayVar(&o.headers, "header", nil, "further header that expressions see, in lower case (repeatable)")
	f.StringVar(&o.note, "note", "", "what the hook is for")
	f.StringArrayVarP(&o.inputs, "input", "i", nil, "input as name=value or name:=json, with expressions (repeatable)")
	f.StringVarP(&o.inputsFile, "inputs-file", "I", "", "JSON object of inputs")
	f.BoolVar(&o.paused, "paused", false, "pause it as well")
	f.BoolVar(&o.replace, "replace", false, "replace the definition of an existing hook")
	for _, flag := range []string{"plan", "provider", "stream", "subject", "from", "when", "signal-task", "signal", "header", "note", "input", "inputs-file"} {
		cmd.MarkFlagsMutuallyExclusive("file", flag)
	}
	completeFlag(cmd, "provider", completeWords(hookProviders()))
	completeFlag(cmd, "from", completeWords(hookFroms()))
	return cmd
}

func hookProviders() []string {
	names := make([]string, 0, len(hooks.Providers()))
	for _, p := range hooks.Providers() {
		names = append(names, string(p))
	}
	return names
}

func hookFroms() []string {
	names := make([]string, 0, len(hooks.Froms()))
	for _, f := range hooks.Froms() {
		names = append(names, string(f))
	}
	return names
}

func (c *hookCommands) create(ctx context.Context, o hookOptions) error {
	if o.file == stdinName && o.secretFile == stdinName {
		return fault.New(fault.InvalidParams, "stdin is the definition already").WithField("--secret-file")
	}
	d, err := c.definition(ctx, o)
	if err != nil {
		return err
	}
	secret, err := c.secretFrom(o.secretFile)
	if err != nil {
		return err
	}
	return c.with(ctx, idle, func(s session) error {
		v, err := s.PutHook(ctx, api.PutHookRequest{Name: o.name, Definition: d, Secret: secret, Replace: o.replace, Paused: o.paused, Actor: c.actor()})
		if err != nil {
			return err
		}
		c.noteIdle(s, v)
		return c.showHook(v)
	})
}

// secretFrom reads a secret from a file, without the line break at its end; "" for no file.
func (cn *connector) secretFrom(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	const most = 4096
	text, err := cn.read(file, most)
	if err != nil {
		return "", err
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return "", fault.New(fault.RequiredField, "the file is empty").WithField("--secret-file")
	}
	return secret, nil
}

// rotation holds the flags of a command that gives something another secret.
type rotation struct{ file, keep string }

// flags adds the flags. kept says what the secret before is kept for.
func (r *rotation) flags(cmd *cobra.Command, kept string) {
	cmd.Flags().StringVar(&r.file, "secret-file", "", "file with the new secret, - for stdin")
	cmd.Flags().StringVar(&r.keep, "keep", "", "how long the secret before "+kept+" (default: 24h)")
}

// newSecret returns the new secret, and how long the one before is kept; nil for the default.
func (cn *connector) newSecret(r rotation) (secret string, keep *schedules.Duration, err error) {
	if r.file == "" {
		return "", nil, fault.New(fault.RequiredField, "is missing").WithField("--secret-file").WithHint("a file with the new secret, or - for stdin")
	}
	if secret, err = cn.secretFrom(r.file); err != nil || r.keep == "" {
		return secret, nil, err
	}
	d, err := spanFlag("--keep", r.keep)
	return secret, &d, err
}

// definition returns what the command line defines, with the plan as the node takes it.
func (c *hookCommands) definition(ctx context.Context, o hookOptions) (hooks.Definition, error) {
	if o.file != "" {
		return c.definitionFile(ctx, o)
	}
	d := hooks.Definition{Provider: hooks.Provider(o.provider), When: o.when, Headers: o.headers, Note: o.note}
	if o.signalTask != "" || o.signalName != "" {
		d.Signal = &hooks.Signal{Task: o.signalTask, Name: o.signalName}
	}
	if o.stream != "" || o.subject != "" || o.from != "" {
		d.NATS = &hooks.Stream{Name: o.stream, Subject: o.subject, From: hooks.From(o.from)}
	}
	if o.plan == "" {
		return d, d.Check()
	}
	p, err := c.plans.loadPlan(ctx, o.plan)
	if err != nil {
		return d, err
	}
	d.Plan = p.JSON()
	if err := d.Check(); err != nil {
		return d, err
	}
	given, err := c.hookInputs(p, o)
	if err != nil {
		return d, err
	}
	d.Inputs, err = c.checkedInputs(p, given)
	return d, err
}

// definitionFile reads a definition from a file. Its plan may be the path of another file.
func (c *hookCommands) definitionFile(ctx context.Context, o hookOptions) (hooks.Definition, error) {
	text, err := c.read(o.file, hooks.MaxText)
	if err != nil {
		return hooks.Definition{}, err
	}
	d, err := hooks.Parse(text)
	if err != nil || len(d.Plan) == 0 {
		return d, err
	}
	p, err := c.plans.planOf(ctx, o.file, d.Plan)
	if err != nil {
		return d, err
	}
	given := values{}
	if len(d.Inputs) > 0 && json.Unmarshal(d.Inputs, &given) != nil {
		return d, fault.New(fault.InvalidFormat, "is not an object").WithField("inputs")
	}
	d.Plan = p.JSON()
	d.Inputs, err = c.checkedInputs(p, given)
	return d, err
}

// hookInputs returns the inputs of the command line. Values with expressions are texts, whatever the type of the input is.
func (c *hookCommands) hookInputs(p *plan.Plan, o hookOptions) (values, error) {
	all := values{}
	if o.inputsFile != "" {
		var err error
		if all, err = c.plans.inputsFile(o.inputsFile); err != nil {
			return nil, err
		}
	}
	var fixed, computed []string
	for _, arg := range o.inputs {
		if hasExpression([]byte(arg)) {
			computed = append(computed, arg)
		} else {
			fixed = append(fixed, arg)
		}
	}
	given, err := parsePairs(fixed, readSchema(p.Inputs), "--input", asText)
	if err != nil {
		return nil, err
	}
	maps.Copy(all, given)
	if given, err = parsePairs(computed, inputSchema{}, "--input", asText); err != nil {
		return nil, err
	}
	maps.Copy(all, given)
	return all, nil
}

func hasExpression(text []byte) bool { return bytes.Contains(text, []byte("${{")) }

// checkedInputs returns inputs as the node takes them. The node checks those with expressions when there is a delivery.
func (c *hookCommands) checkedInputs(p *plan.Plan, given values) (json.RawMessage, error) {
	schema := readSchema(p.Inputs)
	raw, err := json.Marshal(given)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the inputs cannot be encoded")
	}
	if !hasExpression(raw) {
		return c.plans.checkInputs(p, schema, given)
	}
	for name, value := range given {
		if _, known := schema.Properties[name]; !known && len(schema.Properties) > 0 {
			return nil, fault.New(fault.ValidationError, "the plan has no such input").WithField("inputs." + name)
		}
		if !hasExpression(value) {
			given[name] = c.plans.absolute(schema.Properties[name], value)
		}
	}
	return json.Marshal(given)
}

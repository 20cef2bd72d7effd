package main

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/traces"
)

// submitCommands are the commands that start tasks.
type submitCommands struct {
	*connector

	tools *toolset
	plans *planLoader
	wait  *waiter
}

// trace returns the position of the calling program in a trace, and its tracestate, from the environment; empty for none.
func (c *submitCommands) trace() (parent, state string) {
	if parent = c.getenv("TRACEPARENT"); !traces.IsContext(parent) {
		return "", ""
	}
	state, _ = traces.ParseState(c.getenv("TRACESTATE"))
	return parent, state
}

// submitOptions are the flags of `orch submit`.
type submitOptions struct {
	args       []string
	file       string
	tool       string
	inputs     []string
	inputsFile string
	name       string
	labels     []string
	priority   string
	queue      string
	key        string
	keyScope   string
	dependsOn  []string
	delay      time.Duration

	waitOptions
}

// viaSubmit marks the tasks that orch submit creates. The reference @last finds tasks by this mark.
const viaSubmit = "submit"

func newSubmit(c *submitCommands) *cobra.Command {
	var o submitOptions
	cmd := &cobra.Command{
		Use:   "submit [PLAN.yaml | -]",
		Short: "Make a plan or a call of a tool a durable task, and run it",
		Long: `Make a plan or a call of a tool a durable task, and run it.

Where no node runs, one inside this command executes the task and ends with it. With a node elsewhere,
--detach returns as soon as the task is durable. A file of JSON lines (-f tasks.jsonl) is a batch: each
line is an object with plan, plan_file or tool and args, and with inputs, name, labels, priority, queue,
idempotency_key, idempotency_scope, depends_on or delay.`,
		Example: `  orch submit plan.yaml -i repo=. -i depth:=3
  orch submit --tool FILE_READ file_path=README.md
  orch submit -f tasks.jsonl --detach`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.args = args
			return c.submit(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "plan, or batch of JSON lines when it ends with .jsonl")
	f.StringVar(&o.tool, "tool", "", "call this tool; the arguments are name=value or name:=json")
	f.StringArrayVarP(&o.inputs, "input", "i", nil, "input as name=value or name:=json (repeatable)")
	f.StringVarP(&o.inputsFile, "inputs-file", "I", "", "JSON object of inputs")
	f.StringVar(&o.name, "name", "", "name of the task instead of the plan's")
	f.StringArrayVar(&o.labels, "label", nil, "label as key=value (repeatable)")
	f.StringVar(&o.priority, "priority", "", "order among waiting tasks"+choices(priorities()))
	f.StringVar(&o.queue, "queue", "", "queue of the workers that execute it")
	f.StringVar(&o.key, "idempotency-key", "", "the same key with the same inputs is the same task")
	f.StringVar(&o.keyScope, "idempotency-scope", "", "how long the task holds that key: forever, until_end, or a duration such as 24h (default: for ever, unless it fails or is cancelled)")
	f.StringSliceVar(&o.dependsOn, "depends-on", nil, "begin when these tasks are done")
	f.DurationVar(&o.delay, "delay", 0, "begin after this time")
	addWait(cmd, &o.waitOptions)
	addSettings(f, true, true)
	completeFlag(cmd, "priority", completeWords(priorities()))
	completeFlag(cmd, "tool", c.tools.completeToolFlag)
	return cmd
}

func priorities() []string {
	return []string{
		string(plan.PriorityCritical), string(plan.PriorityHigh), string(plan.PriorityNormal), string(plan.PriorityLow),
	}
}

func (c *submitCommands) submit(ctx context.Context, o submitOptions) error {
	if o.tool == "" && isBatch(o.file) {
		return c.submitBatch(ctx, o)
	}
	request, err := c.submitRequest(ctx, o)
	if err != nil {
		return err
	}
	return c.with(ctx, o.mode(), func(s session) error {
		request.Actor = c.actor()
		for _, text := range o.dependsOn {
			id, err := c.find(ctx, s, text)
			if err != nil {
				return err
			}
			request.DependsOn = append(request.DependsOn, id)
		}
		reply, err := s.Submit(ctx, request)
		if err != nil {
			return err
		}
		return c.wait.afterStart(ctx, s, reply, o.waitOptions)
	})
}

func isBatch(file string) bool {
	return slices.Contains([]string{".jsonl", ".ndjson"}, filepath.Ext(file))
}

// submitRequest converts flags and files to a request.
func (c *submitCommands) submitRequest(ctx context.Context, o submitOptions) (api.SubmitRequest, error) {
	r := api.SubmitRequest{
		Name: o.name, Priority: o.priority, Queue: o.queue, IdempotencyKey: o.key, IdempotencyScope: o.keyScope, Delay: o.delay, Via: viaSubmit,
	}
	r.TraceParent, r.TraceState = c.trace()
	var err error
	if r.Labels, err = parseLabels(o.labels); err != nil {
		return r, err
	}
	if o.priority != "" {
		if err := oneOf("--priority", o.priority, priorities()); err != nil {
			return r, err
		}
	}
	if o.tool != "" {
		r.Plan, err = c.callPlan(ctx, o)
		return r, err
	}
	file, err := o.planFile()
	if err != nil {
		return r, err
	}
	p, err := c.plans.loadPlan(ctx, file)
	if err != nil {
		return r, err
	}
	r.Plan = p.JSON()
	r.Inputs, err = c.plans.planInputs(p, o.inputs, o.inputsFile)
	return r, err
}

// planFile returns the plan file that the command line names.
func (o submitOptions) planFile() (string, error) {
	files := o.args
	if o.file != "" {
		files = append([]string{o.file}, files...)
	}
	switch len(files) {
	case 0:
		return "", fault.New(fault.RequiredField, "is missing").WithField("PLAN.yaml").
			WithHint("usage: orch submit PLAN.yaml, orch submit --tool NAME name=value, or orch submit - for stdin")
	case 1:
		return files[0], nil
	default:
		return "", fault.New(fault.InvalidParams, "it takes one plan, not also %q", files[1]).
			WithHint("inputs are given as -i name=value")
	}
}

// callPlan returns a plan with one call of a tool.
func (c *submitCommands) callPlan(ctx context.Context, o submitOptions) (json.RawMessage, error) {
	if o.file != "" || o.inputsFile != "" || len(o.inputs) > 0 {
		return nil, fault.New(fault.InvalidParams, "--tool takes its arguments as name=value, without -f, -i and -I").
			WithHint("such as: orch submit --tool %s name=value", o.tool)
	}
	t, err := c.tools.tool(ctx, o.tool)
	if err != nil {
		return nil, err
	}
	args, err := c.plans.toolArgs(t, o.args, pathguard.Real(c.cfg.Root))
	if err != nil {
		return nil, err
	}
	p, err := plan.FromCall(t.Spec().Name, args)
	if err != nil {
		return nil, err
	}
	return p.JSON(), nil
}

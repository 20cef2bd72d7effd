package main

import (
	"context"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/evals"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

// evalCommands are the commands that compare agents.
type evalCommands struct {
	*connector

	plans *planLoader
}

// evalOptions are the flags of `orch eval`.
type evalOptions struct {
	run             string
	cases, variants []string
	repeat          int
	parallel        int
}

// commands implements family.
func (c *evalCommands) commands() []*cobra.Command { return []*cobra.Command{newEval(c)} }

func newEval(c *evalCommands) *cobra.Command {
	var o evalOptions
	cmd := &cobra.Command{
		Use:   "eval SET.yaml",
		Short: "Compare models, prompts and tools of an agent by a set of cases",
		Long: `Run each case of a set with each variant of an agent, check the assertions, and compare the variants with the first one.

Each run is a task of its own. Calls of the agent get the results that are recorded in the task of the case. Other calls are
made only if their tools never change anything; all others are refused, unless the set says that they are live.

A command that was interrupted continues when it is repeated: what has ended is not run again. Repeated after its end it begins
anew; --run NAME shows the runs of one time again. The exit code is 7 if a case fails.`,
		Example: "  orch eval evals/review.yaml\n  orch eval evals/review.yaml --variant small --case 'finds *' --repeat 5 -o json",
		Args:    takes("SET.yaml"),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.eval(cmd.Context(), args[0], o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.run, "run", "", "name of the runs to continue or to show (default: that of an interrupted command, or a new one)")
	f.StringSliceVar(&o.cases, "case", nil, "only the cases with these names, or patterns of them")
	f.StringSliceVar(&o.variants, "variant", nil, "only the variants with these names, or patterns of them")
	f.IntVar(&o.repeat, "repeat", 0, "how often each case runs with each variant (default: as the set says)")
	f.IntVar(&o.parallel, "parallel", 4, "how many runs there are at a time")
	addSettings(f, true, true)
	return cmd
}

func (c *evalCommands) eval(ctx context.Context, file string, o evalOptions) error {
	src, err := c.read(file, evals.MaxSource)
	if err != nil {
		return err
	}
	set, err := evals.Read(file, src)
	if err != nil {
		return err
	}
	if err := o.narrow(set); err != nil {
		return err
	}
	return c.withLasting(ctx, working, func(s session) error {
		e := &evaluation{evalCommands: c, session: s, set: set, options: o, dir: filepath.Dir(c.path(file))}
		return e.do(ctx)
	})
}

// narrow leaves of a set what the flags select.
func (o evalOptions) narrow(set *evals.Set) error {
	switch {
	case o.parallel < 1 || o.parallel > 100:
		return fault.New(fault.ValidationError, "must be 1 to 100").WithField("--parallel")
	case o.repeat < 0 || o.repeat > evals.MaxRepeat:
		return fault.New(fault.ValidationError, "must be 1 to %d", evals.MaxRepeat).WithField("--repeat")
	case len(o.run) > 100 || strings.ContainsFunc(o.run, func(r rune) bool { return r < ' ' }):
		return fault.New(fault.ValidationError, "must have at most 100 characters").WithField("--run")
	case o.repeat > 0:
		set.Repeat = o.repeat
	}
	set.Cases = slices.DeleteFunc(set.Cases, func(c evals.Case) bool { return !matchesAny(o.cases, c.Name) })
	set.Variants = slices.DeleteFunc(set.Variants, func(v evals.Variant) bool { return !matchesAny(o.variants, v.Name) })
	switch {
	case len(set.Cases) == 0:
		return fault.New(fault.NotFound, "the set has no such case").WithField("--case")
	case len(set.Variants) == 0:
		return fault.New(fault.NotFound, "the set has no such variant").WithField("--variant")
	}
	return nil
}

// matchesAny reports whether a name matches one of the patterns. No patterns match every name.
func matchesAny(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return p == name || err == nil && ok
	})
}

// evaluation is one use of `orch eval`.
type evaluation struct {
	*evalCommands

	session session
	set     *evals.Set
	options evalOptions
	// dir is the folder of the set.
	dir     string
	records map[string]*evals.Record
	runs    []evals.Run
	// digest identifies the runs, name the time at which they are run.
	digest, name string
}

func (e *evaluation) do(ctx context.Context) error {
	if err := e.prepare(ctx); err != nil {
		return err
	}
	if err := e.choose(ctx); err != nil {
		return err
	}
	outcomes, err := e.runAll(ctx)
	if err != nil {
		return err
	}
	return e.show(e.set.Report(e.name, outcomes))
}

// prepare reads the records, and builds and checks the plans of all runs.
func (e *evaluation) prepare(ctx context.Context) (err error) {
	e.records = map[string]*evals.Record{}
	for i := range e.set.Cases {
		if err := e.record(ctx, &e.set.Cases[i]); err != nil {
			return fault.From(err).WithField(e.set.Cases[i].Name)
		}
	}
	if e.runs, err = e.set.Runs(e.agentKeys, e.records); err != nil {
		return err
	}
	options := e.plans.planOptions(ctx)
	options.ReadFile = nil // a set refers to no files
	parsed := map[string]evals.Run{}
	for i := range e.runs {
		r := &e.runs[i]
		if r.Variant.Recorded {
			continue
		}
		source := string(r.Plan)
		known, ok := parsed[source]
		if !ok {
			if known, err = checkedRun(*r, options); err != nil {
				return err
			}
			parsed[source] = known
		}
		r.Plan, r.NotRun = known.Plan, known.NotRun
	}
	e.digest = evals.DigestOf(e.runs)
	return nil
}

// checkedRun returns a run with the normal form of its plan. If the plan would be valid without the results of its record, which are too
// large for it, there is no run.
func checkedRun(r evals.Run, options plan.Options) (evals.Run, error) {
	name := r.Case.Name + ", " + r.Variant.Name
	p, _, err := plan.Load(name, r.Plan, options)
	if err == nil {
		r.Plan = p.JSON()
		return r, nil
	}
	bare, failed := r.WithoutCalls()
	if failed == nil {
		_, _, failed = plan.Load(name, bare, options)
	}
	if failed != nil {
		return r, err
	}
	r.NotRun = "the results of its record do not fit into a plan: " + fault.From(err).Sentence()
	return r, nil
}

// agentKeys returns the keys of an agent file: of one below the root, or of one beside the set.
func (e *evaluation) agentKeys(name string) (map[string]any, error) {
	file := filepath.Join(e.cfg.Root, ".orch", "agents", name+".yaml")
	if strings.ContainsAny(name, `/.`) {
		file = filepath.Join(e.dir, name)
		if filepath.IsAbs(name) {
			file = name
		}
	}
	src, err := e.read(file, plan.MaxSource)
	if err != nil {
		return nil, err
	}
	keys := map[string]any{}
	if err := yaml.Unmarshal(src, &keys); err != nil {
		return nil, fault.New(fault.InvalidFormat, "%s: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if keys["steps"] != nil || keys["orch"] != nil {
		return nil, fault.New(fault.ValidationError, "%s is a plan; a set compares an agent file, or an agent with its keys", file)
	}
	return keys, nil
}

// record reads the record of a case, if it has a task.
func (e *evaluation) record(ctx context.Context, c *evals.Case) error {
	if c.Task == "" || e.records[c.RecordKey()] != nil {
		return nil
	}
	id, err := e.find(ctx, e.session, c.Task)
	if err != nil {
		return err
	}
	reply, err := wholeConversation(ctx, e.session, api.ConversationRequest{ID: id, Step: c.Step})
	if err != nil {
		return err
	}
	replay, err := e.session.Replay(ctx, api.ReplayRequest{ID: id})
	if err != nil {
		return err
	}
	view, err := e.session.Get(ctx, api.GetRequest{ID: id})
	if err != nil {
		return err
	}
	s := replay.Task.Steps[reply.Step]
	if s == nil || s.Agent == nil {
		return fault.New(fault.StateNotAllowed, "the agent of step %s of %s has not begun", reply.Step, id)
	}
	rec, err := evals.NewRecord(reply, s.Agent.Spec, view)
	if err != nil {
		return err
	}
	if rec.Cut > 0 {
		e.note("%s: %d calls of %s are too large for a record", c.Name, rec.Cut, id)
	}
	e.records[c.RecordKey()] = rec
	return nil
}

// wholeConversation reads a conversation turn by turn, so that its texts are as long as they can be.
func wholeConversation(ctx context.Context, s session, r api.ConversationRequest) (api.ConversationReply, error) {
	r.Limit = 1
	whole, err := s.Conversation(ctx, r)
	if err != nil {
		return whole, err
	}
	for next := whole.Next; next > 0; {
		r.Step, r.Rev, r.From = whole.Step, whole.Rev, next
		page, err := s.Conversation(ctx, r)
		if err != nil {
			return whole, err
		}
		whole.Turns = append(whole.Turns, page.Turns...)
		next = page.Next
	}
	whole.Next = 0
	return whole, nil
}

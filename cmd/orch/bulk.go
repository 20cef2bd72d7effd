package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/bulk"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
)

// shownItems is the number of items that a question shows.
const shownItems = 20

// bulkOptions are the flags of commands that act on all tasks that a filter selects.
type bulkOptions struct {
	where       []string
	dryRun, yes bool
	// set is the digest of the set that a dry run has shown, which is empty for an empty set. It counts if setGiven is set.
	set      string
	setGiven bool
	max      int
}

// addBulk adds the flags of a bulk act to a command that otherwise takes names.
func addBulk(cmd *cobra.Command, o *bulkOptions, names ...string) {
	f := cmd.Flags()
	f.StringArrayVar(&o.where, "where", nil, "act on all tasks that `KEY=VALUE` selects, instead of naming them (repeatable); the keys are the flags of orch list"+choices(bulkKeys()))
	f.BoolVar(&o.dryRun, "dry-run", false, "with --where: only show the set, its number and its digest")
	f.BoolVar(&o.yes, "yes", false, "with --where: do not ask")
	f.StringVar(&o.set, "set", "", "with --where: act only if the set still has this `DIGEST`, which a dry run has shown")
	f.IntVar(&o.max, "max", bulk.DefaultMax, "with --where: the most tasks to act on, up to "+strconv.Itoa(bulk.MaxItems))
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		o.setGiven = cmd.Flags().Changed("set")
		if !o.used(cmd) {
			return takes(names...)(cmd, args)
		}
		if len(o.where) == 0 {
			return fault.New(fault.RequiredField, "is missing").WithField("--where").WithHint("--dry-run, --yes, --set and --max are for a set of tasks, such as --where state=FAILED")
		}
		return takes()(cmd, args)
	}
}

// used reports whether the command line has a flag of a bulk act.
func (o *bulkOptions) used(cmd *cobra.Command) bool {
	return slices.ContainsFunc([]string{"where", "dry-run", "yes", "set", "max"}, cmd.Flags().Changed)
}

func bulkKeys() []string {
	return []string{"state", "label", "name", "parent", "session", "since", "until", "dead"}
}

// filter returns the filter that --where describes.
func (o *bulkOptions) filter() (l listOptions, err error) {
	l.limit = 1000
	for _, pair := range o.where {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || value == "" {
			return l, fault.New(fault.InvalidFormat, "%q is not of the form KEY=VALUE", pair).WithField("--where").WithHint("such as --where state=FAILED --where label=team=shop")
		}
		switch key {
		case "state":
			l.states = append(l.states, value)
		case "label":
			l.labels = append(l.labels, value)
		case "name":
			l.name = value
		case "parent":
			l.parent = value
		case "session":
			l.session = value
		case "since":
			l.since = value
		case "until":
			l.until = value
		case "dead":
			if l.dead = value == "true"; !l.dead {
				return l, fault.New(fault.ValidationError, "dead takes no value but true").WithField("--where")
			}
		default:
			return l, oneOf("--where", key, bulkKeys())
		}
	}
	return l, nil
}

// bulkRun is an act on all tasks that a filter selects.
type bulkRun struct {
	*connector

	options bulkOptions
	request bulk.Request
}

// run selects the set, asks, acts on each item, and shows what became of each.
func (b *bulkRun) run(ctx context.Context) error {
	if b.options.max < 1 || b.options.max > bulk.MaxItems {
		return fault.New(fault.ValidationError, "must be between 1 and %d", bulk.MaxItems).WithField("--max")
	}
	return b.with(ctx, idle, func(s session) error {
		if err := b.complete(ctx, s); err != nil {
			return err
		}
		r, err := bulk.Select(ctx, s, b.request)
		if err != nil {
			return flagged(err)
		}
		if b.options.dryRun || r.Count == 0 {
			return b.show(r)
		}
		if !b.options.yes {
			if err := b.ask(ctx, r); err != nil {
				return err
			}
		}
		return b.act(ctx, s, r)
	})
}

// complete sets what the flags say of the request.
func (b *bulkRun) complete(ctx context.Context, s session) error {
	b.request.DryRun, b.request.Max, b.request.Actor = b.options.dryRun, b.options.max, b.actor()
	if b.options.setGiven {
		b.request.Set = &b.options.set
	}
	filter, err := b.options.filter()
	if err != nil {
		return err
	}
	list, err := filter.request(b.now())
	if err != nil {
		return err
	}
	b.request.Where = bulk.Where{States: list.States, Labels: list.Labels, Name: list.Name, Since: list.Since, Until: list.Until, Dead: list.Dead}
	for text, to := range map[string]*events.TaskID{filter.parent: &b.request.Where.Parent, filter.session: &b.request.Where.Session} {
		if text == "" {
			continue
		}
		if *to, err = b.find(ctx, s, text); err != nil {
			return err
		}
	}
	return nil
}

// flagged returns an error whose field is a flag.
func flagged(err error) error {
	f := *fault.From(err)
	if slices.Contains([]string{"max", "set", "where"}, f.Field) {
		f.Field = "--" + f.Field
	}
	return &f
}

// ask shows the set and asks whether to act on it.
func (b *bulkRun) ask(ctx context.Context, r bulk.Report) error {
	lines := b.lines(r)
	if hidden := len(lines) - 1 - shownItems; hidden > 0 {
		lines = append(append(lines[:shownItems:shownItems], fmt.Sprintf("and %d more; --dry-run shows all", hidden)), lines[len(lines)-1])
	}
	return b.confirm(ctx, strings.Join(lines, "\n")+"\n", fmt.Sprintf("%s %s?", b.request.Act, screen.Plural(r.Count, b.request.Noun())), "look with --dry-run")
}

// act acts on each item. The whole is an act in the audit stream, beside those of the items.
func (b *bulkRun) act(ctx context.Context, s session, r bulk.Report) error {
	note := node.NewFileAct("bulk."+b.request.Act, r.Set, b.request.Params(r.Count))
	note.Actor, note.Face, note.Begun = b.actor(), audit.FaceBus, true
	noted := s.Ask(ctx, node.RecordMethod, note, &struct{}{})
	if noted != nil && !fault.Has(noted, fault.Forbidden) { // a token may not record, but each of its acts is recorded
		return noted
	}
	failure := b.actOnEach(ctx, s, &r)
	if noted == nil {
		note.Begun = false
		if failure != nil {
			note.Error = fault.From(failure)
		}
		noted = s.Ask(context.WithoutCancel(ctx), node.RecordMethod, note, &struct{}{})
	}
	if err := b.show(r); err != nil {
		return err
	}
	if failure == nil && !fault.Has(noted, fault.Forbidden) {
		failure = noted
	}
	return failure
}

// actOnEach acts on each item and shows the progress. The error has the code of the first failure, or UNAVAILABLE.
func (b *bulkRun) actOnEach(ctx context.Context, s session, r *bulk.Report) error {
	tell := b.progressLine()
	defer tell("")
	failure := bulk.Do(ctx, s, b.request, r, func(done int) { tell(fmt.Sprintf("%s: %d of %d", b.request.Act, done, r.Count)) })
	if failure == nil {
		return nil
	}
	return fault.New(fault.CodeOf(failure), "%s of %s: %s failed", screen.Number(r.Failed), screen.Plural(r.Count, b.request.Noun()), b.request.Act).WithHint("each line says why")
}

func (b *bulkRun) show(r bulk.Report) error {
	v := view{data: r, rows: rowsOf(r.Items), text: func(w io.Writer) error { return writeLines(w, b.lines(r)) }}
	for _, item := range r.Items {
		v.names = append(v.names, item.ID)
	}
	return b.emit(v)
}

// lines returns a line for each item, and one with the number and the digest of the set.
func (b *bulkRun) lines(r bulk.Report) []string {
	var lines []string
	for _, item := range r.Items {
		line := item.ID + "  " + item.State
		switch {
		case item.Error != nil:
			line += "  failed: " + screen.Line(item.Error.Message) + " (" + string(item.Error.Code) + ")"
		case item.Result != "":
			line += "  " + item.Result
		}
		lines = append(lines, line+"  "+screen.Clip(screen.Line(item.Name), 40))
	}
	last := screen.Plural(r.Count, b.request.Noun())
	if r.Done+r.Failed > 0 {
		last += fmt.Sprintf(", %d done, %d failed", r.Done, r.Failed)
	}
	return append(lines, last+"; set "+r.Set)
}

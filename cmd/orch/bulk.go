package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
)

// shownItems is the number of items that a question shows.
const shownItems = 20

// maxBulk is the maximum number of tasks that one command acts on.
const maxBulk = 10_000

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
	f.IntVar(&o.max, "max", 1000, "with --where: the most tasks to act on, up to "+strconv.Itoa(maxBulk))
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

// bulkItem is one task or approval of a bulk act, and what became of it.
type bulkItem struct {
	ID    string        `json:"id"`
	Task  events.TaskID `json:"task"`
	Name  string        `json:"name"`
	State string        `json:"state"`
	// Result is the state after the act, or the task that it has submitted. Error is set if the act was refused or has failed.
	Result string       `json:"result,omitempty"`
	Error  *fault.Error `json:"error,omitempty"`

	rev uint64
}

// bulkReport is the output of a bulk act.
type bulkReport struct {
	Act    string     `json:"act"`
	DryRun bool       `json:"dry_run,omitempty"`
	Items  []bulkItem `json:"items"`
	Count  int        `json:"count"`
	// Set is the digest of the ids of the items.
	Set    string `json:"set"`
	Done   int    `json:"done"`
	Failed int    `json:"failed"`
}

// bulk is an act on all tasks that a filter selects.
type bulk struct {
	*connector

	options bulkOptions
	// verb names the act in texts and in the audit stream, such as cancel.
	verb string
	// approvals is set if the act is about the pending approvals of the tasks.
	approvals bool
	// open is set if the act is about tasks that have not ended. A filter without a state then selects no others.
	open bool
	// do acts on one item, and returns its result.
	do func(ctx context.Context, s session, item bulkItem) (string, error)
}

// run selects the set, asks, acts on each item, and shows what became of each.
func (b *bulk) run(ctx context.Context) error {
	if b.options.max < 1 || b.options.max > maxBulk {
		return fault.New(fault.ValidationError, "must be between 1 and %d", maxBulk).WithField("--max")
	}
	return b.with(ctx, idle, func(s session) error {
		items, err := b.selected(ctx, s)
		if err != nil {
			return err
		}
		r := bulkReport{Act: b.verb, DryRun: b.options.dryRun, Items: items, Count: len(items), Set: setDigest(items)}
		switch {
		case b.options.setGiven && b.options.set != r.Set:
			return fault.New(fault.Conflict, "the set has changed: it is %s now", r.Set).WithField("--set").WithHint("look at it again with --dry-run")
		case b.options.dryRun || len(items) == 0:
			return b.show(r)
		}
		if !b.options.yes {
			lines := b.lines(r)
			if hidden := len(lines) - 1 - shownItems; hidden > 0 {
				lines = append(append(lines[:shownItems:shownItems], fmt.Sprintf("and %d more; --dry-run shows all", hidden)), lines[len(lines)-1])
			}
			if err := b.confirm(ctx, strings.Join(lines, "\n")+"\n", fmt.Sprintf("%s %s?", b.verb, screen.Plural(len(items), b.noun())), "look with --dry-run"); err != nil {
				return err
			}
		}
		return b.act(ctx, s, r)
	})
}

func (b *bulk) noun() string {
	if b.approvals {
		return "approval"
	}
	return "task"
}

// setDigest returns the digest of the ids of a set.
func setDigest(items []bulkItem) string {
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = item.ID
	}
	return audit.SetDigest(ids)
}

// selected returns the tasks, or their pending approvals, that the filter selects.
func (b *bulk) selected(ctx context.Context, s session) ([]bulkItem, error) {
	filter, err := b.options.filter()
	if err != nil {
		return nil, err
	}
	r, err := filter.request(b.now())
	if err != nil {
		return nil, err
	}
	for text, to := range map[string]*events.TaskID{filter.parent: &r.Parent, filter.session: &r.Session} {
		if text == "" {
			continue
		}
		if *to, err = b.find(ctx, s, text); err != nil {
			return nil, err
		}
	}
	items, open := []bulkItem{}, b.open && len(filter.states) == 0
	for first := true; first || r.Cursor != ""; first = false {
		page, err := s.List(ctx, r)
		if err != nil {
			return nil, err
		}
		for _, t := range page.Tasks {
			if !t.Imported && (!open || !t.State.Terminal()) {
				items = append(items, bulkItem{ID: string(t.ID), Task: t.ID, Name: t.Name, State: string(t.State)})
			}
		}
		r.Cursor = page.Next
		if !b.approvals && len(items) > b.options.max {
			return nil, b.tooMany()
		}
	}
	if b.approvals {
		items, err = b.pending(ctx, s, items)
	}
	if err == nil && len(items) > b.options.max {
		err = b.tooMany()
	}
	return items, err
}

func (b *bulk) tooMany() error {
	return fault.New(fault.ValidationError, "more than %d are selected", b.options.max).WithField("--max").WithHint("select fewer, or raise --max, up to %d", maxBulk)
}

// pending returns the pending approvals of tasks.
func (b *bulk) pending(ctx context.Context, s session, tasks []bulkItem) ([]bulkItem, error) {
	reply, err := s.Approvals(ctx, api.ApprovalsRequest{})
	if err != nil {
		return nil, err
	}
	if reply.Omitted > 0 || reply.Unread > 0 {
		return nil, fault.New(fault.ValidationError, "not all pending approvals can be listed").WithField("--where").WithHint("decide some of them first: orch approvals --submitter or --task shows them")
	}
	items := []bulkItem{}
	for _, p := range reply.Approvals {
		if slices.ContainsFunc(tasks, func(t bulkItem) bool { return t.Task == p.Task }) {
			items = append(items, bulkItem{ID: p.ID, Task: p.Task, Name: p.Description, State: string(p.Status), rev: p.TaskRev})
		}
	}
	return items, nil
}

// act acts on each item. The whole is an act in the audit stream, beside those of the items.
func (b *bulk) act(ctx context.Context, s session, r bulkReport) error {
	note := node.NewFileAct("bulk."+b.verb, r.Set, map[string]string{"where": strings.Join(b.options.where, " "), b.noun() + "s": strconv.Itoa(r.Count)})
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

// actOnEach sets what became of each item. An item that is refused does not hold up the others, a node that does not answer does. The
// error has the code of the first failure, or UNAVAILABLE.
func (b *bulk) actOnEach(ctx context.Context, s session, r *bulkReport) error {
	tell := b.progressLine()
	defer tell("")
	var failure error
	for i := range r.Items {
		item := &r.Items[i]
		tell(fmt.Sprintf("%s: %d of %d", b.verb, i, r.Count))
		if fault.Has(failure, fault.Unavailable) {
			item.Error = fault.New(fault.Unavailable, "not tried, because the node does not answer")
			r.Failed++
			continue
		}
		result, err := b.one(ctx, s, *item)
		if err != nil {
			item.Error = fault.From(err)
			r.Failed++
			if failure == nil || fault.Has(err, fault.Unavailable) {
				failure = err
			}
			continue
		}
		item.Result = result
		r.Done++
	}
	if failure == nil {
		return nil
	}
	return fault.New(fault.CodeOf(failure), "%s of %s: %s failed", screen.Number(r.Failed), screen.Plural(r.Count, b.noun()), b.verb).WithHint("each line says why")
}

// one acts on an item, unless its task has changed its state since it was selected.
func (b *bulk) one(ctx context.Context, s session, item bulkItem) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", fault.From(err)
	}
	if !b.approvals {
		t, err := s.Get(ctx, api.GetRequest{ID: item.Task})
		if err != nil {
			return "", err
		}
		if string(t.State) != item.State {
			return "", fault.New(fault.Conflict, "it has changed meanwhile: it was %s, and is %s", item.State, t.State)
		}
	}
	return b.do(ctx, s, item)
}

func (b *bulk) show(r bulkReport) error {
	v := view{data: r, rows: rowsOf(r.Items), text: func(w io.Writer) error { return writeLines(w, b.lines(r)) }}
	for _, item := range r.Items {
		v.names = append(v.names, item.ID)
	}
	return b.emit(v)
}

// lines returns a line for each item, and one with the number and the digest of the set.
func (b *bulk) lines(r bulkReport) []string {
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
	last := screen.Plural(r.Count, b.noun())
	if r.Done+r.Failed > 0 {
		last += fmt.Sprintf(", %d done, %d failed", r.Done, r.Failed)
	}
	return append(lines, last+"; set "+r.Set)
}

package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
)

// auditCommands are the commands about the audit stream.
type auditCommands struct{ *connector }

// commands implements family.
func (c *auditCommands) commands() []*cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show, export and verify who did what at the node",
		Long: `Show, export and verify the audit stream: who did what at the node, and what was refused.

Each entry has the digest of the one before it. What tasks do is in their own histories (orch history); the stream
has the acts of people and programs on them, and on the node.`,
		Example: "  orch audit list --refused --since 24h\n  orch audit export audit.jsonl",
	}
	asGroup(cmd)
	cmd.AddCommand(newAuditList(c), newAuditExport(c), newAuditVerify(c))
	return []*cobra.Command{cmd}
}

// auditOptions are the flags of `orch audit list`.
type auditOptions struct {
	filter       audit.Filter
	refused      bool
	outcomes     []string
	since, until string
	before       uint64
	limit        int
}

func newAuditList(c *auditCommands) *cobra.Command {
	o := auditOptions{limit: api.DefaultActs}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List acts, the newest last",
		Long: `List acts, the newest last. Equal refusals within a minute are one line with their number.

The result of an act is unknown if the node was killed before it could record it; the history of the task, or what
the act was about, shows whether it had its effect.`,
		Example: "  orch audit list --actor user:ada --act 'token.*'\n  orch audit list --refused --since 24h -o json",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.list(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.filter.Actor, "actor", "", "only acts of this identity, such as user:ada")
	f.StringVar(&o.filter.Name, "act", "", "only this act, such as task.cancel, or token.* for all that begin so")
	f.StringVar(&o.filter.Target, "target", "", "only acts on this task, schedule, token or other thing")
	f.StringArrayVar(&o.outcomes, "outcome", nil, "only acts with this outcome, may be repeated"+choices(outcomeNames()))
	f.BoolVar(&o.refused, "refused", false, "only refused acts, like --outcome refused")
	f.StringVar(&o.since, "since", "", "only acts since then: 2h, 3d, a date or a time")
	f.StringVar(&o.until, "until", "", "only acts before then")
	f.Uint64Var(&o.before, "before", 0, "the page of acts with lower numbers than this")
	f.IntVar(&o.limit, "limit", o.limit, "at most this many acts, up to "+strconv.Itoa(api.MaxActs))
	completeFlag(cmd, "outcome", completeWords(outcomeNames()))
	return cmd
}

func outcomeNames() []string {
	var names []string
	for _, o := range audit.Outcomes() {
		names = append(names, string(o))
	}
	return names
}

func (o auditOptions) request(c *auditCommands) (api.AuditRequest, error) {
	r := api.AuditRequest{Filter: o.filter, Before: o.before, Limit: o.limit}
	if o.limit < 1 || o.limit > api.MaxActs {
		return r, fault.New(fault.ValidationError, "must be between 1 and %d", api.MaxActs).WithField("--limit")
	}
	for _, name := range o.outcomes {
		if err := oneOf("--outcome", name, outcomeNames()); err != nil {
			return r, err
		}
		r.Outcome = append(r.Outcome, audit.Outcome(name))
	}
	if o.refused {
		r.Outcome = append(r.Outcome, audit.Refused)
	}
	var err error
	if r.Since, err = parseMoment("--since", o.since, c.now()); err != nil {
		return r, err
	}
	r.Until, err = parseMoment("--until", o.until, c.now())
	return r, err
}

func (c *auditCommands) list(ctx context.Context, o auditOptions) error {
	request, err := o.request(c)
	if err != nil {
		return err
	}
	return c.with(ctx, idle, func(s session) error {
		reply, err := s.Audit(ctx, request)
		if err != nil {
			return err
		}
		v := view{data: reply, rows: rowsOf(reply.Acts), text: func(w io.Writer) error { return c.table(w, reply) }}
		for _, a := range reply.Acts {
			v.names = append(v.names, strconv.FormatUint(a.Number, 10))
		}
		return c.emit(v)
	})
}

func (c *auditCommands) table(w io.Writer, r api.AuditReply) error {
	if len(r.Acts) == 0 {
		c.note("no acts")
		return nil
	}
	var table screen.Table
	table.Row("N", "TIME", "ACTOR", "ACT", "TARGET", "OUTCOME")
	for _, a := range r.Acts {
		table.Row(strconv.FormatUint(a.Number, 10), a.At.UTC().Format("2006-01-02T15:04:05Z"), a.Actor, a.Name, cmp.Or(a.Target, "-"), outcomeText(a))
	}
	if err := table.Write(w, c.width()); err != nil {
		return err
	}
	if r.Next != 0 {
		c.note("there are older ones: --before %d", r.Next)
	}
	return nil
}

// outcomeText describes what became of an act.
func outcomeText(a audit.View) string {
	text := string(a.Outcome)
	if a.Count > 0 {
		text += ", " + screen.Plural(a.Count, "time")
	}
	if a.Error == nil {
		return text
	}
	text += ": " + string(a.Error.Code)
	if a.Error.Field != "" {
		text += " (" + a.Error.Field + ")"
	}
	return screen.Line(text)
}

func newAuditExport(c *auditCommands) *cobra.Command {
	return &cobra.Command{
		Use:   "export FILE|-",
		Short: "Write the whole audit stream to a file that can be verified anywhere",
		Long: `Write the whole audit stream to a new file, or to stdout for -: the entries as they are stored, one JSON object a
line, between a first line with the beginning of the chain and a last line with its end. The chain is checked on the way.

orch audit verify FILE checks such a file without a node. Keep the digest that it prints elsewhere: it covers all entries.`,
		Example: "  orch audit export audit.jsonl\n  orch audit export - | gzip > audit.jsonl.gz",
		Args:    takes("FILE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return c.export(cmd.Context(), args[0]) },
	}
}

func (c *auditCommands) export(ctx context.Context, name string) error {
	return c.with(ctx, idle, func(s session) error {
		if name == stdinName {
			_, err := exportActs(ctx, s, c.out)
			return err
		}
		return c.exportFile(ctx, s, c.path(name))
	})
}

// exportFile writes the audit stream to a new file. A failed export leaves no file.
func (c *auditCommands) exportFile(ctx context.Context, s session, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fault.New(fault.Conflict, "%s exists already", path).WithField("FILE").WithHint("choose another name")
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fault.New(fault.Forbidden, "cannot write %s: %w", path, err).WithField("FILE")
	}
	defer func() { _ = os.Remove(temp.Name()) }() // it is gone if it got its new name
	done, err := exportActs(ctx, s, temp)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if err := giveName(temp.Name(), path); err != nil {
		return err
	}
	return c.showVerified(done, path)
}

// exportActs writes the audit stream of a node.
func exportActs(ctx context.Context, node api.Audits, w io.Writer) (done audit.Verified, err error) {
	var x *audit.Exporter
	err = eachActs(ctx, node, func(from audit.Anchor) (err error) {
		x, err = audit.NewExporter(w, from)
		return err
	}, func(data []byte) error { return x.Add(data) })
	if err != nil {
		return done, err
	}
	return x.Close()
}

// eachActs calls begin with the beginning of the audit stream, and then add for each entry.
func eachActs(ctx context.Context, node api.Audits, begin func(audit.Anchor) error, add func([]byte) error) error {
	for after, first := uint64(0), true; first || after != 0; first = false {
		page, err := node.AuditEntries(ctx, api.AuditEntriesRequest{After: after})
		if err == nil && first {
			err = begin(page.Anchor)
		}
		if err != nil {
			return err
		}
		for _, data := range page.Entries {
			if err := add(data); err != nil {
				return err
			}
		}
		after = page.Next
	}
	return nil
}

// verifyOptions are the flags of `orch audit verify`.
type verifyOptions struct{ head, contains string }

func newAuditVerify(c *auditCommands) *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Check the chain of the audit stream, or of an export",
		Long: `Check the chain of the audit stream of the node, or of an export file without a node. The first broken entry is named.

The digest of the last entry covers all entries before it. Whoever can write the store could write a whole new chain;
compare with a digest that was kept elsewhere to notice that: --contains fails unless an entry has it. An export that was
cut off and got another last line verifies as well; --expect-head fails unless its last entry has the digest.`,
		Example: "  orch audit verify\n  orch audit verify audit.jsonl --expect-head $(orch audit verify -o name)",
		Args:    takes("[FILE]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return c.verifyFile(cmd.Context(), args[0], o)
			}
			return c.verify(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVar(&o.head, "expect-head", "", "fail unless the last entry has this `DIGEST`")
	cmd.Flags().StringVar(&o.contains, "contains", "", "fail unless an entry has this `DIGEST`")
	return cmd
}

func (c *auditCommands) verifyFile(ctx context.Context, name string, o verifyOptions) error {
	done, err := interruptible(ctx, func() (audit.Verified, error) { return c.readExport(name, o.contains) })
	if err == nil {
		err = o.check(done)
	}
	if err != nil {
		return err
	}
	return c.showVerified(done, "")
}

// readExport verifies an export in a file, or from stdin.
func (c *auditCommands) readExport(name, lookFor string) (audit.Verified, error) {
	if name == stdinName {
		return audit.ReadExport(c.in, lookFor)
	}
	file, err := os.Open(c.path(name))
	if err != nil {
		return audit.Verified{}, fault.New(fault.CodeOf(err), "cannot read %s: %w", c.path(name), err).WithField("FILE")
	}
	defer func() { _ = file.Close() }() // it was only read
	return audit.ReadExport(file, lookFor)
}

// check returns an error if the chain is not what the flags expect.
func (o verifyOptions) check(done audit.Verified) error {
	switch {
	case o.head != "" && o.head != done.Head:
		return fault.New(fault.DataLoss, "the chain ends with entry %d of %s, which has the digest %s", done.Last, done.EndedAt.UTC().Format(time.RFC3339), cmp.Or(done.Head, "of none")).
			WithField("--expect-head").WithReason("HEAD_DIFFERS").WithHint("it was cut off, has gone on since, or is another chain; orch audit verify --contains DIGEST says whether it has gone on")
	case o.contains != "" && done.Contains == 0:
		return fault.New(fault.DataLoss, "no entry from %d to %d has this digest", done.First, done.Last).
			WithField("--contains").WithReason("NOT_CONTAINED").WithHint("the chain was cut off, or is another one; entries that retain_audit has removed are not found either")
	default:
		return nil
	}
}

func (c *auditCommands) verify(ctx context.Context, o verifyOptions) error {
	return c.with(ctx, idle, func(s session) error {
		var begin audit.Anchor
		var v *audit.Verifier
		err := eachActs(ctx, s, func(from audit.Anchor) error {
			begin, v = from, audit.NewVerifier(from)
			v.LookFor(o.contains)
			return nil
		}, func(data []byte) error {
			_, err := v.Add(data)
			return err
		})
		if err != nil {
			return err
		}
		done := v.Result(begin)
		if err := o.check(done); err != nil {
			return err
		}
		return c.showVerified(done, "")
	})
}

// showVerified shows the result of a check; file is the file that was written, if any.
func (c *auditCommands) showVerified(v audit.Verified, file string) error {
	return c.emit(view{data: v, names: []string{v.Head}, text: func(w io.Writer) error {
		if v.Entries == 0 {
			return writeLines(w, []string{"the audit stream has no entries"})
		}
		word := "entries"
		if v.Entries == 1 {
			word = "entry"
		}
		lines := []string{screen.Number(v.Entries) + " " + word + ", " + strconv.FormatUint(v.First, 10) + " to " + strconv.FormatUint(v.Last, 10) + ": the chain is whole"}
		if v.First > 1 {
			lines = append(lines, "older entries were removed when their time was over (retain_audit)")
		}
		if v.Unknown > 0 {
			lines = append(lines, screen.Plural(v.Unknown, "act")+" without a known result")
		}
		if v.Contains > 0 {
			lines = append(lines, "entry "+strconv.FormatUint(v.Contains, 10)+" has the digest")
		}
		lines = append(lines, "the last entry is of "+v.EndedAt.UTC().Format(time.RFC3339), "digest of the last entry: "+v.Head)
		if file != "" {
			lines = append(lines, "written to "+screen.Escape(file)+"; check it anywhere with: orch audit verify "+screen.Escape(file))
		}
		return writeLines(w, lines)
	}})
}

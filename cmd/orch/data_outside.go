package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/archives"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/export"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
)

const (
	fromUsage = "where the archive is: a directory or s3://BUCKET/PREFIX; default is the setting retain_archive_to"
	dayUsage  = "only tasks of this day, month or year, such as 2026-11"
)

// outside opens the store of an archive.
func (c *dataCommands) outside(place, flag string, create bool) (node.OutsideStore, error) {
	if place == "" {
		place = c.cfg.Retention.ArchiveTo
	} else if !strings.Contains(place, "://") {
		place = c.path(place)
	}
	if place == "" {
		return nil, fault.New(fault.RequiredField, "is missing").WithField(flag).WithHint("a directory or s3://BUCKET/PREFIX; or set retain_archive_to")
	}
	_, missing := os.Stat(place)
	store, err := node.OpenOutside(place, c.cfg.Tools.S3, c.getenv, create)
	if err == nil {
		if create && errors.Is(missing, fs.ErrNotExist) && !strings.Contains(place, "://") {
			c.note("created the directory %s", place)
		}
		return store, nil
	}
	f := fault.From(err)
	return nil, f.WithField(cmp.Or(f.Field, flag))
}

// withOutside opens the store of an archive, calls fn and closes it.
func (c *dataCommands) withOutside(place, flag string, create bool, fn func(node.OutsideStore) error) error {
	store, err := c.outside(place, flag, create)
	if err != nil {
		return err
	}
	return errors.Join(fn(store), store.Close())
}

// outsideOptions are the flags of orch archive export.
type outsideOptions struct {
	to, age, name  string
	states, labels []string
}

func newArchiveExport(c *dataCommands) *cobra.Command {
	var o outsideOptions
	cmd := &cobra.Command{
		Use:   "export [ID...] --to PLACE",
		Short: "Copy whole histories of finished tasks to a directory or a bucket of S3",
		Long: `Copy whole histories of finished tasks, with their large values, to a directory or a bucket of S3. Each is an export file, signed by the
node, in bundles with a manifest of digests. Each bundle is read back and verified before its manifest makes it count. Nothing is
removed from the node.

A task that the archive has at the same revision is not written again, so an interrupted command is repeated. Without ID, the tasks
are those that match the filters. The credentials of S3 are those of s3_key_id and s3_secret, or AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY in the environment.`,
		Example:           "  orch archive export --to /mnt/archive --older-than 90d\n  orch archive export --to s3://records/orch --label env=prod --state FAILED",
		ValidArgsFunction: c.completeIDs(100),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.exportOutside(cmd.Context(), args, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.to, "to", "", strings.Replace(fromUsage, "where the archive is", "where to", 1))
	f.StringVar(&o.age, "older-than", "0s", "only tasks that ended longer ago")
	f.StringVar(&o.name, "name", "", "only tasks whose name matches a pattern")
	f.StringArrayVar(&o.states, "state", nil, "only tasks in this final state (repeatable)")
	f.StringArrayVar(&o.labels, "label", nil, "only tasks with this label, as key=value (repeatable)")
	return cmd
}

func (c *dataCommands) exportOutside(ctx context.Context, texts []string, o outsideOptions) error {
	request, err := o.request()
	if err != nil {
		return err
	}
	age, err := parseSpan(o.age)
	if err != nil || age < 0 {
		return fault.New(fault.InvalidFormat, "%q is not a duration", o.age).WithField("--older-than").WithHint("write it as 12h or 90d")
	}
	return c.withOutside(o.to, "--to", true, func(store node.OutsideStore) error {
		return c.with(ctx, idle, func(s session) error {
			ids, err := c.outsideTasks(ctx, s, texts, request, c.now().Add(-age))
			if err != nil {
				return err
			}
			tell := c.progressLine()
			w := archives.Writer{
				Node: s, Store: store, Temp: os.TempDir(), Version: readVersion().Version, Now: c.now,
				Progress: func(r archives.Result) {
					tell(screen.Number(r.Tasks+r.Existing) + " of " + screen.Plural(len(ids), "task") + " archived")
				},
			}
			r, err := w.Write(ctx, ids)
			tell("")
			if err != nil {
				return err
			}
			return c.showWritten(store, r)
		})
	})
}

// request returns the request for the tasks that match the filters.
func (o outsideOptions) request() (r api.ListRequest, err error) {
	r = api.ListRequest{Limit: 1000, Name: o.name}
	for _, text := range o.states {
		state := statemachine.State(strings.ToUpper(text))
		if !state.Terminal() {
			return r, fault.New(fault.ValidationError, "%q is not the final state of a task", text).WithField("--state").WithHint("such as DONE, FAILED and CANCELLED")
		}
		r.States = append(r.States, state)
	}
	if len(r.States) == 0 {
		for _, state := range statemachine.States() {
			if state.Terminal() {
				r.States = append(r.States, state)
			}
		}
	}
	r.Labels, err = parseLabels(o.labels)
	return r, err
}

// outsideTasks returns the tasks to archive: those that the arguments name, or those that match a request and ended before a time.
func (c *dataCommands) outsideTasks(ctx context.Context, s session, texts []string, r api.ListRequest, before time.Time) ([]events.TaskID, error) {
	if len(texts) > 0 {
		return c.heldTasks(ctx, s, texts, nil)
	}
	var ids []events.TaskID
	for {
		page, err := s.List(ctx, r)
		if err != nil {
			return nil, err
		}
		for _, line := range page.Tasks {
			if line.UpdatedAt.Before(before) {
				ids = append(ids, line.ID)
			}
		}
		if r.Cursor = page.Next; r.Cursor == "" {
			return ids, nil
		}
	}
}

// showWritten shows what was archived. Tasks that cannot be archived are an error, after the others.
func (c *dataCommands) showWritten(store node.OutsideStore, r archives.Result) error {
	err := c.emit(view{data: r, text: func(w io.Writer) error {
		lines := []string{fmt.Sprintf("%s archived in %s, %s, in %s", screen.Plural(r.Tasks, "task"), screen.Plural(r.Bundles, "bundle"), kib(r.Bytes), screen.Escape(store.String()))}
		if r.Existing > 0 {
			lines = append(lines, screen.Plural(r.Existing, "task")+" "+wasOrWere(r.Existing)+" there already")
		}
		for _, id := range slices.Sorted(maps.Keys(r.Failed)) {
			lines = append(lines, string(id)+" not archived: "+screen.Escape(r.Failed[id].Message))
		}
		return writeLines(w, lines)
	}})
	if err == nil && len(r.Failed) > 0 {
		first := slices.Min(slices.Collect(maps.Keys(r.Failed)))
		err = fault.New(r.Failed[first].Code, "%s could not be archived, such as %s", screen.Plural(len(r.Failed), "task"), first)
	}
	return err
}

func wasOrWere(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

func newArchiveList(c *dataCommands) *cobra.Command {
	var from, day string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the tasks of an archive in a directory or a bucket of S3",
		Example: "  orch archive list --from s3://records/orch --day 2026-11",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withOutside(from, "--from", false, func(store node.OutsideStore) error {
				return c.listOutside(cmd.Context(), store, day)
			})
		},
	}
	cmd.Flags().StringVar(&from, "from", "", fromUsage)
	cmd.Flags().StringVar(&day, "day", "", dayUsage)
	return cmd
}

// dayPrefix returns the prefix of the bundles of a day, month or year.
func dayPrefix(day string) (string, error) {
	if day == "" {
		return "", nil
	}
	for _, form := range []string{"2006", "2006-01", "2006-01-02"} {
		if _, err := time.Parse(form, day); err == nil {
			return strings.ReplaceAll(day, "-", "/") + "/", nil
		}
	}
	return "", fault.New(fault.InvalidFormat, "%q is not a day", day).WithField("--day").WithHint("write it as 2026-11-29, 2026-11 or 2026")
}

func (c *dataCommands) listOutside(ctx context.Context, store node.OutsideStore, day string) error {
	prefix, err := dayPrefix(day)
	if err != nil {
		return err
	}
	entries := []archives.Entry{}
	var damaged error
	for b, err := range archives.List(ctx, store, prefix) {
		if err != nil && b.Name == "" {
			return err
		}
		damaged = errors.Join(damaged, err)
		entries = append(entries, b.Tasks...)
	}
	v := view{data: entries, rows: rowsOf(entries), text: func(w io.Writer) error {
		var table screen.Table
		table.Row("TASK", "STATE", "ENDED", "COMMITS", "SIZE", "NAME")
		for _, e := range entries {
			table.Row(string(e.ID), screen.Line(string(e.State)), e.UpdatedAt.Format("2006-01-02 15:04"), screen.Number(int(e.Commits)), kib(e.Size), screen.Line(e.Name)) //nolint:gosec // a count
		}
		return table.Write(w, c.width())
	}}
	for _, e := range entries {
		v.names = append(v.names, string(e.ID))
	}
	return errors.Join(c.emit(v), damaged)
}

func newArchiveVerify(c *dataCommands) *cobra.Command {
	var from, day string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Read an archive in a directory or a bucket of S3 completely, and check it",
		Long: `Read an archive in a directory or a bucket of S3 completely, and check the digest of each bundle, and of each task its signature, its hash
chain and its large values. What is damaged is named, and the rest is checked too.`,
		Example: "  orch archive verify --from /mnt/archive",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.withOutside(from, "--from", false, func(store node.OutsideStore) error {
				return c.verifyOutside(cmd.Context(), store, day)
			})
		},
	}
	cmd.Flags().StringVar(&from, "from", "", fromUsage)
	cmd.Flags().StringVar(&day, "day", "", dayUsage)
	return cmd
}

func (c *dataCommands) verifyOutside(ctx context.Context, store node.OutsideStore, day string) error {
	prefix, err := dayPrefix(day)
	if err != nil {
		return err
	}
	tell := c.progressLine()
	r, err := archives.Verify(ctx, store, prefix, func(r archives.Report) { tell(screen.Plural(r.Tasks, "task") + " checked") })
	tell("")
	if err != nil {
		return err
	}
	err = c.emit(view{data: r, text: func(w io.Writer) error {
		var lines []string
		for _, d := range r.Damaged {
			lines = append(lines, strings.TrimSpace(string(d.Task)+" "+screen.Escape(d.Error.Message)))
		}
		lines = append(lines, screen.Plural(r.Tasks, "task")+" in "+screen.Plural(r.Bundles, "bundle")+", "+kib(r.Bytes)+": "+screen.Number(len(r.Damaged))+" damaged")
		if r.Incomplete > 0 {
			lines = append(lines, screen.Plural(r.Incomplete, "data file")+" without a manifest, which nothing was removed for; an interrupted export has left them")
		}
		return writeLines(w, lines)
	}})
	if err == nil && len(r.Damaged) > 0 {
		err = fault.New(fault.DataLoss, "%s of the archive %s damaged", screen.Plural(len(r.Damaged), "part"), isOrAre(len(r.Damaged))).
			WithHint("the other tasks can be restored")
	}
	return err
}

// restoreOptions are the flags of orch archive restore.
type restoreOptions struct{ from, to string }

func newArchiveRestore(c *dataCommands) *cobra.Command {
	var o restoreOptions
	offline := &offline{env: c.env}
	cmd := &cobra.Command{
		Use:   "restore TASK... --from PLACE",
		Short: "Bring tasks back from a directory or a bucket of S3, for reading",
		Long: `Bring tasks back from a directory or a bucket of S3, for reading: get, history, replay, explain and diff show them, marked as imported.
Nothing of them ever runs. The full id is needed, because the node may not know the task any more.

Each task is checked against the manifest of its bundle. One that is damaged is named, and the others are restored. A task that retention
has removed is there again; its time begins anew.`,
		Example: "  orch archive restore TASK_01M8JGF3VNANPT88MHNHCP95C3 --from s3://records/orch\n  orch archive restore TASK_01M8JGF3VNANPT88MHNHCP95C3 --from /mnt/archive --to task.orch",
		Args:    takes("TASK..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.restoreOutside(cmd.Context(), offline, args, o)
		},
	}
	cmd.Flags().StringVar(&o.from, "from", "", fromUsage)
	cmd.Flags().StringVar(&o.to, "to", "", "write the export file of one task here, for orch verify, replay and history, and leave the node alone")
	cmd.Flags().StringVar(&offline.key, "key", "", keyUsage)
	return cmd
}

func (c *dataCommands) restoreOutside(ctx context.Context, offline *offline, texts []string, o restoreOptions) error {
	ids := make([]events.TaskID, len(texts))
	for i, text := range texts {
		var err error
		if ids[i], err = events.ParseTaskID(strings.ToUpper(text)); err != nil {
			return fault.From(err).WithField("TASK").WithHint("the full id is needed; orch archive list shows it")
		}
	}
	key, err := offline.pinned()
	if err != nil {
		return err
	}
	return c.withOutside(o.from, "--from", false, func(store node.OutsideStore) error {
		if o.to != "" {
			return c.restoreToFile(ctx, store, ids, o.to)
		}
		return c.with(ctx, idle, func(s session) error {
			var failed error
			for _, id := range ids {
				reply, err := c.restoreTask(ctx, s, store, id, key)
				if err == nil {
					err = c.showImport(reply)
				}
				if err != nil && (ctx.Err() != nil || !fault.Has(err, fault.DataLoss)) {
					return err
				}
				failed = errors.Join(failed, err)
			}
			return failed
		})
	})
}

// restoreTask imports a task of an archive.
func (c *dataCommands) restoreTask(ctx context.Context, s session, store node.OutsideStore, id events.TaskID, key []byte) (reply api.ImportReply, err error) {
	found, err := archives.Find(ctx, store, id)
	if err != nil {
		return reply, err
	}
	temp, err := os.CreateTemp("", "orch-restore-*")
	if err != nil {
		return reply, fault.Wrap(fault.Unavailable, err, "no temporary file can be made")
	}
	defer func() { _ = temp.Close() }()
	if err := os.Remove(temp.Name()); err != nil { // nothing of it stays after a crash
		return reply, fault.Wrap(fault.Unavailable, err, "the temporary file keeps its name")
	}
	if err := found.Copy(ctx, store, temp); err != nil {
		return reply, err
	}
	r := api.ImportRequest{File: string(events.NewTaskID(c.now())), Size: found.Entry.Size, Restore: true, Actor: c.actor(), Wait: importWait}
	if key != nil {
		r.Key = export.EncodeKey(key)
	}
	return api.SendImport(ctx, s, io.NewSectionReader(temp, 0, found.Entry.Size), r)
}

// restoreToFile writes the export file of a task under a new name.
func (c *dataCommands) restoreToFile(ctx context.Context, store node.OutsideStore, ids []events.TaskID, name string) error {
	if len(ids) != 1 {
		return fault.New(fault.InvalidParams, "takes one task").WithField("--to")
	}
	path := c.path(name)
	if _, err := os.Lstat(path); err == nil {
		return fault.New(fault.Conflict, "%s exists already", path).WithField("--to").WithHint("choose another name")
	}
	found, err := archives.Find(ctx, store, ids[0])
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".orch-restore-*")
	if err != nil {
		return fault.New(fault.Forbidden, "cannot write %s: %w", path, err).WithField("--to")
	}
	defer func() { _ = os.Remove(temp.Name()) }() // it is gone if it got its new name
	err = found.Copy(ctx, store, temp)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if err := giveName(temp.Name(), path); err != nil {
		return err
	}
	return c.emit(view{data: found.Entry, names: []string{path}, text: func(w io.Writer) error {
		return writeLines(w, []string{"written to " + screen.Escape(path) + "; check it anywhere with: orch verify " + screen.Escape(path)})
	}})
}

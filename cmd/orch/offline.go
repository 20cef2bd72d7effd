package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/export"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// exportSuffix is the usual ending of the name of an export file.
const exportSuffix = ".orch"

// isExportFile reports whether an argument names an export file, and not a task: it has a path separator, or ends like one.
func isExportFile(arg string) bool {
	return strings.ContainsRune(arg, filepath.Separator) || strings.HasSuffix(arg, exportSuffix)
}

// offline reads a task of an export file, without a node.
type offline struct {
	*env

	// task is the id of the task or the beginning of it; empty for the only task. key is the flag --key.
	task, key string
}

const keyUsage = "of an export file: the public key that must have signed it, or a file that holds the key"

func (o *offline) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.task, "task", "", "of an export file with several tasks: the task, or the beginning of its id")
	o.addKeyFlag(flags)
}

func (o *offline) addKeyFlag(flags *pflag.FlagSet) { flags.StringVar(&o.key, "key", "", keyUsage) }

// onlyFiles returns an error if flags for export files were given with the id of a task.
func (o *offline) onlyFiles() error {
	if o.task == "" && o.key == "" {
		return nil
	}
	return fault.New(fault.InvalidParams, "--task and --key are for export files").
		WithHint("write the name of the file with a slash or with the ending %s, such as ./run%s", exportSuffix, exportSuffix)
}

// verify reads a whole file and passes its content to visit.
func (o *offline) verify(ctx context.Context, name string, visit export.Visitor) (export.Report, error) {
	var err error
	if visit.Key, err = o.pinned(); err != nil {
		return export.Report{}, err
	}
	file, err := os.Open(o.path(name))
	if err != nil {
		return export.Report{}, o.fileError(name, err)
	}
	defer file.Close()
	report, err := export.Verify(cancellable{ctx, file}, visit)
	if ctx.Err() != nil {
		return report, fault.From(ctx.Err())
	}
	return report, err
}

// cancellable is a reader that fails when a context ends.
type cancellable struct {
	ctx  context.Context //nolint:containedctx // of the command that reads
	from io.Reader
}

// Read implements io.Reader.
func (c cancellable) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.from.Read(p)
}

// pinned returns the expected public key; nil for none.
func (o *offline) pinned() ([]byte, error) {
	if o.key == "" {
		return nil, nil
	}
	key, err := export.ParseKey(o.key)
	if err == nil {
		return key, nil
	}
	const most = 4 << 10
	raw, unread := o.read(o.key, most)
	if unread != nil {
		return nil, fault.From(err).WithField("--key")
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(raw)), "\n")
	if key, err = export.ParseKey(strings.TrimSpace(line)); err != nil {
		return nil, fault.From(err).WithField("--key")
	}
	return key, nil
}

// recording is what a command shows of one task of a file.
type recording struct {
	// wanted is the beginning of the id, at the last revision to fold; 0 for the newest. list keeps the commits.
	wanted string
	at     uint64
	list   bool

	task    *statemachine.Task
	newest  uint64
	commits []api.CommitView
	reply   api.ReplayReply
}

// load verifies a file and reads a task of it. Nothing is returned of a file that is not intact.
func (o *offline) load(ctx context.Context, name string, r *recording) error {
	if r.wanted = strings.ToUpper(o.task); r.wanted != "" && !strings.HasPrefix(r.wanted, "TASK_") {
		r.wanted = "TASK_" + r.wanted
	}
	began := time.Now()
	report, err := o.verify(ctx, name, export.Visitor{Commit: r.add})
	if err != nil {
		return err
	}
	if err := r.check(name, report); err != nil {
		return err
	}
	r.reply.Task, r.reply.Chain, r.reply.Duration = r.task, true, time.Since(began)
	o.note("%s", signedBy(report))
	return nil
}

// add implements export.Visitor.Commit. It keeps the first task that matches.
func (r *recording) add(c *events.Commit, data []byte, after *statemachine.Task) error {
	if !strings.HasPrefix(string(c.Task), r.wanted) || r.task != nil && r.task.ID != c.Task {
		return nil
	}
	r.newest = c.Rev
	if r.list {
		r.commits = append(r.commits, api.CommitView{
			Rev: c.Rev, At: c.At, Actor: c.Actor, Cause: c.Cause, Hash: events.Hash(data), Prev: c.Prev, Events: c.Events,
		})
	}
	if r.at != 0 && c.Rev > r.at {
		return nil
	}
	r.reply.Commits++
	r.reply.Events += len(c.Events)
	r.task = after
	if c.Rev != r.at {
		return nil
	}
	r.task = &statemachine.Task{} // after changes with the next commit
	text, err := json.Marshal(after)
	if err == nil {
		err = json.Unmarshal(text, r.task)
	}
	return err
}

// check returns an error unless exactly one task of the file matches, and has the wanted revision.
func (r *recording) check(file string, report export.Report) error {
	var found []string
	for _, t := range report.Tasks {
		if strings.HasPrefix(string(t.ID), r.wanted) {
			found = append(found, string(t.ID))
		}
	}
	switch {
	case len(found) == 0:
		return fault.New(fault.NotFound, "%s holds no such task", screen.Escape(file)).WithField("--task").WithHint("orch verify %s lists its tasks", file)
	case len(found) > 1:
		return fault.New(fault.NotUnique, "%d tasks of %s fit", len(found), screen.Escape(file)).WithField("--task").WithHint("choose one, such as --task %s", found[0])
	case r.at > r.newest:
		return fault.New(fault.NotFound, "the task has %d revisions", r.newest).WithField("at")
	}
	return nil
}

// signedBy says who has signed a file, and whether that was expected.
func signedBy(r export.Report) string {
	if r.Pinned {
		return "signed by " + r.Fingerprint + ", as expected"
	}
	return "signed by " + r.Fingerprint + "; nobody has said which key to expect: --key KEY does"
}

// replayFile folds a task of an export file.
func (c *readCommands) replayFile(ctx context.Context, o *offline, name string, at uint64) error {
	r := recording{at: at}
	if err := o.load(ctx, name, &r); err != nil {
		return err
	}
	return c.showReplay(r.task.ID, r.reply)
}

// historyFile lists the commits of a task of an export file.
func (c *readCommands) historyFile(ctx context.Context, o *offline, name string, page historyOptions) error {
	r := recording{list: true}
	if err := o.load(ctx, name, &r); err != nil {
		return err
	}
	first := min(page.from-1, uint64(len(r.commits)))
	list := r.commits[first:]
	if page.limit > 0 && page.limit < len(list) {
		list = list[:page.limit]
	}
	return c.showCommits(r.task.ID, list)
}

// verifyFile verifies an export file.
func (c *dataCommands) verifyFile(ctx context.Context, o *offline, name string) error {
	report, err := o.verify(ctx, name, export.Visitor{})
	if err != nil {
		return err
	}
	names := make([]string, len(report.Tasks))
	for i, t := range report.Tasks {
		names[i] = string(t.ID)
	}
	return c.emit(view{data: report, names: names, text: func(w io.Writer) error {
		lines := exportLines(report)
		lines[len(lines)-1] = signedBy(report)
		return writeLines(w, append(lines, screen.Escape(name)+" is intact"))
	}})
}

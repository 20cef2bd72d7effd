package main

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/traces"
	"github.com/orch-dev/orch/traces/otlp"
)

// traceOptions are the flags of `orch trace export`.
type traceOptions struct {
	to   string
	tree bool
}

func newTrace(c *readCommands) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Make OpenTelemetry traces of recorded tasks",
		Long: `Make OpenTelemetry traces of recorded tasks. A task has a span, and so have its steps, the attempts of their calls, approvals, and
requests to language models. Child tasks are in the trace of the task above them. The spans and their ids follow from the history alone:
a task can be exported when it has ended, and again, with the same ids.`,
	}
	cmd.AddCommand(newTraceExport(c))
	return cmd
}

func newTraceExport(c *readCommands) *cobra.Command {
	var o traceOptions
	cmd := &cobra.Command{
		Use:   "export ID...",
		Short: "Send the spans of tasks to a collector, or write them to a file",
		Long: `Send the spans of tasks to a collector, or write them to a file. A file has one request of OTLP in JSON on each line, as the
file receiver of the OpenTelemetry Collector reads it. A collector gets the same requests by HTTP: the path of its address is
/v1/traces, unless you give another one.

Spans that have not ended are left out. The spans contain names of steps and tools, labels, and messages of errors; no arguments
and no results. OTEL_EXPORTER_OTLP_HEADERS sets headers of the requests, such as authorization=Bearer%20TOKEN; with it, the address
must be https or one of this machine. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say whose spans they are.`,
		Example:           "  orch trace export @last --to http://127.0.0.1:4318\n  orch trace export @last --tree > spans.jsonl",
		ValidArgsFunction: c.completeIDs(0),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.exportTraces(cmd.Context(), args, o) },
	}
	cmd.Flags().StringVar(&o.to, "to", stdinName, "address of a collector, or the new file; - is stdout")
	cmd.Flags().BoolVar(&o.tree, "tree", false, "also the descendants of each task")
	return cmd
}

// exported is the result of `orch trace export`.
type exported struct {
	To    string         `json:"to"`
	Tasks []exportedTask `json:"tasks"`
	Spans int            `json:"spans"`
}

// exportedTask is a task whose spans were exported. Open is the number of its spans that have not ended.
type exportedTask struct {
	ID    events.TaskID `json:"id"`
	Trace string        `json:"trace"`
	Spans int           `json:"spans"`
	Open  int           `json:"open,omitempty"`
}

func (c *readCommands) exportTraces(ctx context.Context, texts []string, o traceOptions) error {
	if len(texts) == 0 {
		return fault.New(fault.RequiredField, "is missing").WithField("ID").WithHint("usage: orch trace export ID... --to http://127.0.0.1:4318")
	}
	return c.with(ctx, idle, func(s session) error {
		source, err := c.spanSource(ctx, s)
		if err != nil {
			return err
		}
		to, closeTo, err := c.spanSink(ctx, o.to)
		if err != nil {
			return err
		}
		out := exported{To: o.to, Tasks: []exportedTask{}}
		e := &spanExport{node: s, source: source, to: to, out: &out}
		for _, text := range texts {
			if err = e.text(ctx, c, text, o.tree); err != nil {
				break
			}
		}
		if ended := closeTo(err); ended != nil {
			return ended
		}
		return c.showExported(out)
	})
}

// spanSource describes the node, as it does itself.
func (c *readCommands) spanSource(ctx context.Context, s session) (otlp.Source, error) {
	status, err := s.Status(ctx, api.StatusRequest{})
	if err != nil {
		return otlp.Source{}, err
	}
	return otlp.Source{Version: readVersion().Version, Host: status.Host, Instance: status.Instance}.From(c.getenv)
}

// showExported says what was exported; on stderr if stdout has the spans.
func (c *readCommands) showExported(out exported) error {
	var lines []string
	for _, t := range out.Tasks {
		line := string(t.ID) + ": " + screen.Plural(t.Spans, "span") + " in trace " + t.Trace
		if t.Open > 0 {
			line += "; " + screen.Number(t.Open) + " have not ended: export the task again when it is over"
		}
		lines = append(lines, line)
	}
	if out.To == stdinName {
		c.note("%s", strings.Join(lines, "\n"))
		return nil
	}
	return c.emit(view{data: out, names: []string{out.To}, text: func(w io.Writer) error { return writeLines(w, lines) }})
}

// spanSink returns what takes the requests: a collector, a file or stdout. The returned function ends it, keeps a file only if err is nil,
// and returns the first error.
func (c *readCommands) spanSink(ctx context.Context, to string) (send func([]byte) error, end func(err error) error, err error) {
	if strings.Contains(to, "://") {
		collector, err := c.collector(to)
		if err != nil {
			return nil, nil, err
		}
		return func(body []byte) error { return collector.Send(ctx, body) }, func(err error) error { return err }, nil
	}
	if to == stdinName {
		send, flush := lineWriter(c.out)
		return send, func(err error) error { return cmp.Or(err, flush()) }, nil
	}
	path := c.path(to)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, nil, fault.New(fault.Conflict, "cannot create the file: %w", err).WithField("--to").WithHint("choose another name")
	}
	send, flush := lineWriter(file)
	return send, func(err error) error {
		if err = cmp.Or(err, flush(), file.Close()); err != nil {
			_ = os.Remove(path)
		}
		return err
	}, nil
}

// lineWriter writes requests as lines.
func lineWriter(to io.Writer) (send func([]byte) error, flush func() error) {
	buffered := bufio.NewWriter(to)
	return func(body []byte) error {
		_, err := buffered.Write(append(body, '\n'))
		return err
	}, buffered.Flush
}

func (c *readCommands) collector(to string) (*otlp.Collector, error) {
	header, err := otlp.ParseHeaders(c.getenv(otlp.HeadersVariable))
	if err != nil {
		return nil, err
	}
	collector, err := otlp.NewCollector(to, header)
	if err != nil {
		return nil, fault.From(err).WithField("--to")
	}
	return collector, nil
}

// spanExport exports the spans of tasks.
type spanExport struct {
	node   session
	source otlp.Source
	to     func(body []byte) error
	out    *exported
}

// text exports the task that a text names and, with tree, its descendants.
func (e *spanExport) text(ctx context.Context, c *readCommands, text string, tree bool) error {
	id, err := c.find(ctx, e.node, text)
	if err != nil {
		return err
	}
	trace, err := e.traceOf(ctx, id)
	if err != nil {
		return err
	}
	return e.task(ctx, trace, id, tree)
}

// traceOf returns the trace of a task, which its submission determines. In histories of orch 0.1 that of a grandchild does not say it: the
// trace is then that of the topmost task.
func (e *spanExport) traceOf(ctx context.Context, id events.TaskID) (traces.TraceID, error) {
	sub, err := e.submission(ctx, id)
	if err == nil && sub.Parent != nil && sub.Parent.Trace == "" {
		var family api.ListReply
		if family, err = e.node.List(ctx, api.ListRequest{Tree: id, Limit: 1}); err == nil && len(family.Tasks) > 0 {
			id = family.Tasks[0].ID
			sub, err = e.submission(ctx, id)
		}
	}
	if err != nil {
		return traces.TraceID{}, err
	}
	return traces.OfTask(id, sub)
}

// submission returns the submission of a task.
func (e *spanExport) submission(ctx context.Context, id events.TaskID) (*events.Submitted, error) {
	for commit, err := range recordedPage(ctx, e.node, id, 1, 1) {
		if err != nil {
			return nil, err
		}
		if sub, ok := commit.Events[0].Data.(*events.Submitted); ok {
			return sub, nil
		}
	}
	return &events.Submitted{}, nil
}

// task exports a task and, with tree, its descendants.
func (e *spanExport) task(ctx context.Context, trace traces.TraceID, id events.TaskID, tree bool) error {
	fold, done := traces.NewFold(id), exportedTask{ID: id, Trace: trace.String()}
	var pending []traces.Span
	for commit, err := range recorded(ctx, e.node, id, 1) {
		if err != nil {
			return err
		}
		pending = append(pending, fold.Add(commit.At, commit.Actor, commit.Events)...)
		if len(pending) >= otlp.SpansAtOnce {
			if err := e.send(trace, &done, pending); err != nil {
				return err
			}
			pending = nil
		}
	}
	if err := e.send(trace, &done, pending); err != nil {
		return err
	}
	done.Open = fold.Open()
	e.out.Tasks = append(e.out.Tasks, done)
	if !tree {
		return nil
	}
	return e.children(ctx, trace, id)
}

func (e *spanExport) send(trace traces.TraceID, done *exportedTask, spans []traces.Span) error {
	if len(spans) == 0 {
		return nil
	}
	for i := range spans { // the fold knows only what the submission says
		spans[i].Trace = trace
	}
	body, err := e.source.Encode(spans)
	if err != nil {
		return err
	}
	done.Spans += len(spans)
	e.out.Spans += len(spans)
	return e.to(body)
}

// children exports the descendants of a task.
func (e *spanExport) children(ctx context.Context, trace traces.TraceID, id events.TaskID) error {
	const page = 1000
	for request := (api.ListRequest{Parent: id, Limit: page}); ; {
		reply, err := e.node.List(ctx, request)
		if err != nil {
			return err
		}
		for _, child := range reply.Tasks {
			if err := e.task(ctx, trace, child.ID, true); err != nil {
				return err
			}
		}
		if request.Cursor = reply.Next; request.Cursor == "" {
			return nil
		}
	}
}

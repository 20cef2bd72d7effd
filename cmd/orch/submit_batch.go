package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/classify/secrets"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/plan"
)

// The limits for one request of a batch, and for the listed errors.
const (
	chunkTasks = 500
	chunkBytes = 512 << 10
	maxErrors  = 20
	maxLine    = 4 << 20
)

// batchLine is one task of a file of JSON lines.
type batchLine struct {
	Plan           json.RawMessage   `json:"plan"`
	PlanFile       string            `json:"plan_file"`
	Tool           string            `json:"tool"`
	Args           json.RawMessage   `json:"args"`
	Inputs         values            `json:"inputs"`
	Name           string            `json:"name"`
	Labels         map[string]string `json:"labels"`
	Priority       string            `json:"priority"`
	Queue          string            `json:"queue"`
	IdempotencyKey string            `json:"idempotency_key"`
	KeyScope       string            `json:"idempotency_scope"`
	DependsOn      []events.TaskID   `json:"depends_on"`
	// Delay is a duration such as "30s".
	Delay string `json:"delay"`
}

// batchResult is the result for one line, with -o json and jsonl.
type batchResult struct {
	Line int `json:"line"`
	api.SubmitBatchItem
}

// batch submits the tasks in a file of JSON lines.
type batch struct {
	commands *submitCommands
	file     string
	options  submitOptions
	plans    map[string]*plan.Plan
	requests []api.SubmitRequest
	lines    []int
	problems []string
}

// submitBatch submits the tasks in a file of JSON lines. It checks every line before it submits the first task.
func (c *submitCommands) submitBatch(ctx context.Context, o submitOptions) error {
	if len(o.args) > 0 || len(o.inputs) > 0 || o.inputsFile != "" || len(o.dependsOn) > 0 {
		return fault.New(fault.InvalidParams, "a batch takes everything from its lines").WithField(o.file)
	}
	b := &batch{commands: c, file: o.file, options: o, plans: map[string]*plan.Plan{}}
	if err := b.load(ctx); err != nil {
		return err
	}
	if len(b.problems) > 0 {
		for _, p := range b.problems[:min(len(b.problems), maxErrors)] {
			c.note("%s", p)
		}
		return fault.New(fault.ValidationError, "%s of %s wrong, nothing was submitted", screen.Plural(len(b.problems), "line"), o.file)
	}
	return c.withLasting(ctx, o.mode(), func(s session) error { return b.run(ctx, s) })
}

// load reads the file. It collects the errors of lines in b.problems.
func (b *batch) load(ctx context.Context) error {
	f, err := os.Open(b.commands.path(b.file))
	if err != nil {
		return b.commands.fileError(b.file, err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for n := 1; lines.Scan(); n++ {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		r, err := b.request(ctx, text)
		if err != nil {
			b.problems = append(b.problems, fmt.Sprintf("%s:%d: %s", b.file, n, sentence(err)))
			continue
		}
		b.requests, b.lines = append(b.requests, r), append(b.lines, n)
	}
	if err := lines.Err(); err != nil {
		return fault.New(fault.InvalidFormat, "%s: cannot be read as lines of at most %d bytes: %w", b.file, maxLine, err)
	}
	if len(b.requests)+len(b.problems) == 0 {
		return fault.New(fault.ValidationError, "%s holds no tasks", b.file)
	}
	return nil
}

// sentence formats an error with its hint in one line.
func sentence(err error) string {
	e := fault.From(err).Rewrite(secrets.Clean)
	if e.Hint == "" {
		return e.Error()
	}
	return e.Error() + " (" + e.Hint + ")"
}

func (b *batch) request(ctx context.Context, text []byte) (api.SubmitRequest, error) {
	var l batchLine
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return api.SubmitRequest{}, fault.New(fault.InvalidFormat, "%w", err)
	}
	labels, err := parseLabels(b.options.labels)
	if err != nil {
		return api.SubmitRequest{}, err
	}
	for key, value := range l.Labels {
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
	}
	r := api.SubmitRequest{
		Name: firstNonEmpty(l.Name, b.options.name), Labels: labels, Priority: firstNonEmpty(l.Priority, b.options.priority),
		Queue: firstNonEmpty(l.Queue, b.options.queue), IdempotencyKey: l.IdempotencyKey, IdempotencyScope: l.KeyScope, DependsOn: upper(l.DependsOn),
		Delay: b.options.delay, Via: viaSubmit,
	}
	r.TraceParent, r.TraceState = b.commands.trace()
	if r.Priority != "" {
		if err := oneOf("priority", r.Priority, priorities()); err != nil {
			return r, err
		}
	}
	if l.Delay != "" {
		if r.Delay, err = time.ParseDuration(l.Delay); err != nil {
			return r, fault.New(fault.InvalidFormat, "%q is not a duration", l.Delay).WithField("delay")
		}
	}
	r.Plan, r.Inputs, err = b.planAndInputs(ctx, l)
	return r, err
}

// firstNonEmpty returns first, or second if first is empty.
func firstNonEmpty(first, second string) string {
	if first != "" {
		return first
	}
	return second
}

// planAndInputs returns the plan and the inputs of a line.
func (b *batch) planAndInputs(ctx context.Context, l batchLine) (planText, inputs json.RawMessage, err error) {
	sources := 0
	for _, set := range []bool{l.Plan != nil, l.PlanFile != "", l.Tool != ""} {
		if set {
			sources++
		}
	}
	if sources != 1 {
		return nil, nil, fault.New(fault.InvalidParams, "a line has exactly one of plan, plan_file and tool")
	}
	p, err := b.plan(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	inputs, err = b.commands.plans.checkInputs(p, readSchema(p.Inputs), l.Inputs)
	return p.JSON(), inputs, err
}

func (b *batch) plan(ctx context.Context, l batchLine) (*plan.Plan, error) {
	switch {
	case l.Tool != "":
		t, err := b.commands.tools.tool(ctx, l.Tool)
		if err != nil {
			return nil, err
		}
		args, err := t.Check(l.Args)
		if err != nil {
			return nil, err
		}
		return plan.FromCall(t.Spec().Name, args)
	case l.PlanFile != "":
		if p, ok := b.plans[l.PlanFile]; ok {
			return p, nil
		}
		p, err := b.commands.plans.loadPlan(ctx, l.PlanFile)
		if err == nil {
			b.plans[l.PlanFile] = p
		}
		return p, err
	default:
		options := b.commands.plans.planOptions(ctx)
		options.ReadFile = nil // a plan inside a line cannot refer to files
		return plan.Parse("plan", l.Plan, options)
	}
}

// run submits the tasks in chunks, and waits for them.
func (b *batch) run(ctx context.Context, s session) error {
	for i := range b.requests {
		b.requests[i].Actor = b.commands.actor()
	}
	var results []batchResult
	for len(results) < len(b.requests) {
		from := len(results)
		reply, err := s.SubmitBatch(ctx, api.SubmitBatchRequest{Tasks: b.chunk(from)})
		if err != nil {
			if from > 0 {
				b.commands.note("%s:%d: the lines before it were submitted", b.file, b.lines[from])
			}
			return err
		}
		for i, item := range reply.Tasks {
			results = append(results, batchResult{b.lines[from+i], item})
		}
		if len(reply.Tasks) == 0 {
			return fault.New(fault.Internal, "the node answered no line of the batch")
		}
		if len(b.requests) > chunkTasks {
			b.progress("submitted", len(results))
		}
	}
	if err := b.show(results); err != nil {
		return err
	}
	waited := b.wait(ctx, s, results)
	if waited == nil {
		return refusedError(results)
	}
	return waited
}

// chunk returns the requests, starting at index from, that fit into one message.
func (b *batch) chunk(from int) []api.SubmitRequest {
	size := 0
	for i, r := range b.requests[from:] {
		size += len(r.Plan) + len(r.Inputs)
		if i > 0 && (i == chunkTasks || size > chunkBytes) {
			return b.requests[from : from+i]
		}
	}
	return b.requests[from:]
}

func (b *batch) progress(what string, n int) {
	if b.options.quiet || b.commands.cfg.Output != "text" {
		return
	}
	b.commands.note("%s %s of %s", what, screen.Number(n), screen.Number(len(b.requests)))
}

// show writes the ids to stdout and the errors to stderr.
func (b *batch) show(results []batchResult) error {
	v := view{data: results, rows: rowsOf(results)}
	good := 0
	for _, r := range results {
		if r.Error == nil {
			v.names = append(v.names, string(r.ID))
			good++
			continue
		}
		if b.commands.cfg.Output == "text" || b.commands.cfg.Output == "name" {
			b.commands.note("%s:%d: %s", b.file, r.Line, sentence(r.Error))
		}
	}
	v.text = func(w io.Writer) error {
		b.commands.note("submitted %s of %s", screen.Number(good), screen.Plural(len(results), "task"))
		return writeLines(w, v.names)
	}
	return b.commands.emit(v)
}

// refusedError returns an error with the exit code of the first line that was refused.
func refusedError(results []batchResult) error {
	for _, r := range results {
		if r.Error != nil {
			return &exitError{exit: exitOfCode(r.Error.Code)}
		}
	}
	return nil
}

// wait waits for every task, in the order of the lines, unless the user detached.
func (b *batch) wait(ctx context.Context, s session, results []batchResult) error {
	if b.options.leaves() && !s.Embedded() {
		return nil
	}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if b.options.timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, b.options.timeout)
	}
	defer cancel()
	var worst error
	counts := map[string]int{}
	for i, r := range results {
		if r.Error != nil {
			continue
		}
		end, err := b.end(limited, s, r.ID)
		switch {
		case ctx.Err() != nil:
			b.commands.note("interrupted; the tasks are durable and go on with the node: orch list")
			return &exitError{exit: exitDetached}
		case limited.Err() != nil, b.options.timeout > 0 && fault.Has(err, fault.Timeout): // the node may notice the timeout first
			b.commands.note("some tasks still run after %s: orch list", b.options.timeout)
			return &exitError{exit: exitRunning}
		case err != nil:
			return err
		}
		counts[string(end.State)]++
		if worst == nil {
			worst = endOf(end.State)
		}
		if (i+1)%chunkTasks == 0 {
			b.progress("finished", i+1)
		}
	}
	b.summary(counts)
	return worst
}

func (b *batch) end(ctx context.Context, s session, id events.TaskID) (api.ResultReply, error) {
	for {
		r, err := s.Result(ctx, api.ResultRequest{ID: id, Wait: watchWait})
		if err != nil || r.Ended {
			return r, err
		}
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
	}
}

func (b *batch) summary(counts map[string]int) {
	var parts []string
	for _, state := range stateNames() {
		if n := counts[state]; n > 0 {
			parts = append(parts, screen.Number(n)+" "+state)
		}
	}
	if b.commands.cfg.Output == "text" && len(parts) > 0 {
		b.commands.note("%s", strings.Join(parts, ", "))
	}
}

// upper returns ids in upper case, the form in which they are stored. People may write them in lower case.
func upper(ids []events.TaskID) []events.TaskID {
	for i, id := range ids {
		ids[i] = events.TaskID(strings.ToUpper(string(id)))
	}
	return ids
}

package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

var _ api.Tasks = (*Orchestrator)(nil)

// Find implements api.Tasks.
func (rd *reader) Find(ctx context.Context, r api.FindRequest) (api.FindReply, error) {
	text := strings.ToUpper(strings.TrimSpace(r.Text))
	if text == "@LAST" {
		return rd.findLast(ctx, r.Actor)
	}
	if !strings.HasPrefix(text, events.TaskPrefix) {
		text = events.TaskPrefix + text
	}
	if id, err := events.ParseTaskID(text); err == nil {
		return api.FindReply{ID: id}, rd.checkExists(ctx, id)
	}
	if len(text) < len(events.TaskPrefix)+2 {
		return api.FindReply{}, fault.New(fault.InvalidFormat, "%q is too short for the prefix of an id", decide.Clip(r.Text)).WithField("id")
	}
	if lists := rd.indexedLists(); lists != nil {
		id, count := lists.Find(text)
		for _, line := range unlisted(lists, rd.unreadable()) {
			if strings.HasPrefix(string(line.ID), text) {
				id, count = line.ID, count+1
			}
		}
		return onlyMatch(r.Text, id, count)
	}
	lines, err := rd.lines(ctx)
	if err != nil {
		return api.FindReply{}, err
	}
	return match(r.Text, text, lines)
}

// checkExists returns why there is no task with an id. It does not read the history of a task that the index of lists has.
func (rd *reader) checkExists(ctx context.Context, id events.TaskID) error {
	if lists := rd.indexedLists(); lists != nil {
		if _, count := lists.Find(string(id)); count > 0 {
			return nil
		}
	}
	return rd.engine.inspect(ctx, id, func(*entry) error { return nil })
}

// match returns the only task with an id that begins with prefix: NOT_FOUND, NOT_UNIQUE. text is the text of the request for
// messages.
func match(text, prefix string, tasks []api.Summary) (api.FindReply, error) {
	var found events.TaskID
	count := 0
	for _, t := range tasks {
		if strings.HasPrefix(string(t.ID), prefix) {
			found, count = t.ID, count+1
		}
	}
	return onlyMatch(text, found, count)
}

// onlyMatch returns the task found, unless it is not the only one.
func onlyMatch(text string, found events.TaskID, count int) (api.FindReply, error) {
	switch count {
	case 0:
		return api.FindReply{}, fault.New(fault.NotFound, "no task begins with %q", decide.Clip(text)).WithField("id").WithHint("orch list shows the tasks")
	case 1:
		return api.FindReply{ID: found}, nil
	default:
		return api.FindReply{}, fault.New(fault.NotUnique, "%d tasks begin with %q", count, decide.Clip(text)).WithField("id").
			WithHint("give more characters, such as %s", found)
	}
}

// Get implements api.Tasks.
func (rd *reader) Get(ctx context.Context, r api.GetRequest) (api.TaskView, error) {
	var view api.TaskView
	err := rd.engine.view(ctx, r.ID, func(t *viewer) error {
		view = t.view()
		return nil
	})
	if err == nil {
		view.Holds, err = rd.relatives.holdsOf(ctx, r.ID)
	}
	return view, err
}

// view returns the view of a task for clients, as a copy. mu must be held.
func (t *viewer) view() api.TaskView {
	e := t.e
	sub := e.task.Submitted
	v := api.TaskView{
		ID: e.id, Name: sub.Name, Summary: sub.Summary, State: e.task.State, Reason: e.task.Reason, Block: e.task.Block,
		Paused: e.task.Paused, Labels: sub.Labels, Priority: sub.Priority, Queue: sub.Queue, RetryOf: sub.RetryOf, ForkOf: sub.ForkOf, ForkAt: sub.ForkAt, Session: sub.Session, Root: sub.Root, Requestor: e.task.Requestor,
		DependsOn: slices.Clone(e.task.Unmet), CreatedAt: e.task.CreatedAt, UpdatedAt: e.task.UpdatedAt, Deadline: sub.Deadline,
		Inputs: t.render(sub.Inputs), Output: t.render(e.task.Output), Error: e.task.Error, Rev: e.task.Rev,
		Checkpoints: checkpointViews(e.task), Steps: t.stepViews(), Archived: e.archived,
		Questions: t.openQuestions(), Schedule: sub.Schedule, TraceParent: sub.TraceParent, TraceState: sub.TraceState,
	}
	if sub.Hook != nil {
		v.Hook = &api.DeliveryRef{Name: sub.Hook.Name, ID: sub.Hook.ID, Hops: sub.Hook.Hops}
	}
	if sub.Parent != nil {
		v.Parent, v.ParentStep, v.Agent = sub.Parent.Task, sub.Parent.Step, sub.Parent.Agent
	}
	if e.task.State.Terminal() {
		v.EndedAt = new(e.task.Since)
	}
	v.Imported = e.imported
	return v
}

func checkpointViews(t *statemachine.Task) []api.CheckpointView {
	views := make([]api.CheckpointView, len(t.Checkpoints))
	for i, c := range t.Checkpoints {
		views[i] = api.CheckpointView{ID: c.ID, Name: c.Name, At: c.At}
	}
	return views
}

// stepViews lists the steps of the plan in order, each followed by its instances, and then the calls that are not part of the
// plan.
func (t *viewer) stepViews() []api.StepView {
	views := []api.StepView{}
	seen := map[string]bool{}
	for _, section := range [][]*plan.Node{t.Plan.Program.Steps(), t.Plan.Program.Verify(), t.Plan.Program.Always()} {
		for _, n := range section {
			views = append(views, t.stepView(n.ID, n))
			seen[n.ID] = true
			views = append(views, t.turnViews(n.ID, seen)...)
			if n.Kind == plan.KindForEach {
				views = append(views, t.itemViews(n, seen)...)
			}
		}
	}
	for _, key := range t.Task.Order {
		if !seen[key] {
			views = append(views, t.stepView(key, nil))
		}
	}
	return views
}

func (t *viewer) itemViews(n *plan.Node, seen map[string]bool) []api.StepView {
	var views []api.StepView
	s := t.Task.Steps[n.ID]
	if s == nil {
		return nil
	}
	if s.Divided != nil {
		return t.partViews(s.Divided, seen)
	}
	for i := range s.Items {
		it := &decide.Item{Node: n, Index: t.FirstItem(n.ID) + i}
		for _, child := range n.Children {
			if key := it.Key(child.ID); t.Task.Steps[key] != nil {
				views = append(views, t.stepView(key, child))
				seen[key] = true
				views = append(views, t.turnViews(key, seen)...)
			}
		}
	}
	return views
}

// turnViews returns the calls of an agent step, in the order of its turns. It returns none for another step.
func (t *viewer) turnViews(key string, seen map[string]bool) []api.StepView {
	var views []api.StepView
	s := t.Task.Steps[key]
	if s == nil || s.Agent == nil {
		return nil
	}
	for call := range s.Agent.Calls(key) {
		if t.Task.Steps[call] != nil {
			views = append(views, t.stepView(call, nil))
			seen[call] = true
		}
	}
	return views
}

// partViews returns the parts of a for_each that have begun.
func (t *viewer) partViews(d *events.Divided, seen map[string]bool) []api.StepView {
	var views []api.StepView
	for _, s := range decide.Parts(t.Task, d) {
		if s != nil {
			views = append(views, t.stepView(s.Key, nil))
			seen[s.Key] = true
		}
	}
	return views
}

// kindPart is the kind of a part of a for_each in views.
const kindPart = "part"

func (t *viewer) stepView(key string, n *plan.Node) api.StepView {
	v := api.StepView{Key: key, Kind: "call", State: statemachine.StepPending}
	if n != nil {
		v.Kind, v.Tool = string(n.Kind), n.Tool
	}
	s := t.Task.Steps[key]
	if s == nil {
		return v
	}
	if n == nil && s.Tool == "" && s.Approval != "" { // it asks for more than the budget of an agent
		v.Kind = string(plan.KindApprove)
	}
	v.State, v.Attempt, v.Lost, v.Worker, v.Signal, v.Approval, v.Child = s.State, s.Attempt, s.Lost, s.Worker, s.Signal, s.Approval, s.Child
	v.Duration, v.Error, v.Reason, v.Since = s.Duration, s.Error, s.Reason, new(s.Since)
	v.Tool, v.For, v.Rounds = cmp.Or(s.Tool, v.Tool), s.For, s.Repeats
	if s.Tool != "" {
		v.Tries = s.Failures + 1
	}
	if s.For != nil {
		v.Title = titleOf(s.Args.Raw)
	}
	if decide.WaitsForAnswers(s) {
		v.Reason = t.WaitsForAnswer(s)
	}
	if !s.Due.IsZero() && !s.State.Terminal() {
		v.Due = new(s.Due)
	}
	if l := t.e.calls.Leases.Get(key); l != nil && s.State == statemachine.StepReady {
		v.State, v.Worker = statemachine.StepRunning, l.Worker
	}
	if p, ok := t.e.progress[key]; ok {
		v.Progress = &p
	}
	if s.Divided != nil {
		v.Progress = &work.Progress{Done: float64(decide.SucceededItems(t.Task, s.Divided)), Total: float64(s.Divided.Total)}
	}
	if s.Parallel > 0 { // a part, whose output is in that of the for_each
		v.Kind = kindPart
		return v
	}
	v.Output = t.render(s.Output)
	if s.Output.IsZero() && s.Refused != nil {
		v.Output = t.render(*s.Refused)
	}
	return v
}

// titleOf returns the title in the arguments of a call for agents, "" for none.
func titleOf(args json.RawMessage) string {
	var fields struct {
		Title string `json:"title"`
	}
	if len(args) > 0 {
		_ = json.Unmarshal(args, &fields)
	}
	return fields.Title
}

// Result implements api.Tasks.
func (rd *reader) Result(ctx context.Context, r api.ResultRequest) (api.ResultReply, error) {
	var reply api.ResultReply
	var output events.Value
	wake := (*entry).end
	if r.Attend {
		wake = (*entry).change
	}
	err := rd.await(ctx, r.ID, r.Wait, wake, func(e *entry) (bool, error) {
		waits := clientModel{rd.engine}.waits(e)
		reply = api.ResultReply{ID: e.id, State: e.task.State, Ended: e.task.State.Terminal(), Waits: waits, Reason: e.task.Reason, Error: e.task.Error}
		output = e.task.Output
		if e.imported != nil && !reply.Ended && r.Wait > 0 {
			return true, unfinishedFault(e)
		}
		return reply.Ended || r.Attend && waits, nil
	})
	switch {
	case err != nil || !reply.Ended:
	case r.SizeOnly && output.Ref() != "":
		reply.Size = output.Size()
	default:
		reply.Output, err = rd.engine.renderLater(ctx, output)
	}
	return reply, err
}

// waitsForPeople reports whether a task cannot continue without a person. A task is in state AWAITING_APPROVAL also while it
// runs a call that was just approved; such a task does not wait.
func waitsForPeople(t *statemachine.Task) bool {
	if decide.IsSession(t) {
		return t.HasPendingApproval()
	}
	return statemachine.ViewOf(t.State, t.Block).MCP == "input_required" && (t.State != statemachine.AwaitingApproval || t.HasPendingApproval())
}

// Watch implements api.Tasks.
func (rd *reader) Watch(ctx context.Context, r api.WatchRequest) (api.WatchReply, error) {
	if r.Limit <= 0 || r.Limit > 500 {
		r.Limit = 100
	}
	var reply api.WatchReply
	var rev uint64
	err := rd.await(ctx, r.ID, r.Wait, (*entry).change, func(e *entry) (bool, error) {
		rev = e.task.Rev
		reply = api.WatchReply{Version: e.version, State: e.task.State, Ended: e.task.State.Terminal() || e.imported != nil, Progress: map[string]work.Progress{}}
		maps.Copy(reply.Progress, e.progress)
		if r.Output {
			reply.Output = rd.watchOutput(e, r)
		}
		return len(reply.Output) > 0 || rev > r.After || reply.Ended || (r.SeenVersion != 0 && e.version != r.SeenVersion), nil
	})
	if err != nil || rev <= r.After {
		return reply, err
	}
	reply.Commits, _, err = rd.commits(ctx, r.ID, failpoint.Skewed(failpoint.SkipOne, r.After+1), r.Limit)
	if n := len(reply.Commits); n > 0 && reply.Commits[n-1].Rev < rev {
		reply.Ended = false // more commits follow in the next answer
	}
	return reply, err
}

// commits returns the commits of a task, beginning with revision from. next is the revision after them, 0 if there is none.
func (rd *reader) commits(ctx context.Context, id events.TaskID, from uint64, limit int) (list []api.CommitView, next uint64, err error) {
	list = []api.CommitView{}
	size := 0
	for stored, err := range rd.cfg.Log.Read(ctx, id, from) {
		if err != nil {
			return nil, 0, err
		}
		if size += len(stored.Data); len(list) == limit || (size > maxAnswer && len(list) > 0) {
			return list, list[len(list)-1].Rev + 1, nil
		}
		c, err := events.Decode(stored.Data)
		if err != nil {
			return nil, 0, err
		}
		list = append(list, api.CommitView{
			Seq: stored.Seq, Rev: c.Rev, At: c.At, Actor: c.Actor, Cause: c.Cause,
			Hash: events.Hash(stored.Data), Prev: c.Prev, Events: c.Events,
		})
	}
	return list, 0, nil
}

// maxAnswer limits the bytes of commits in one answer.
const maxAnswer = 2 << 20

// History implements api.Tasks. It does not read the whole history of a task that is not in memory.
func (rd *reader) History(ctx context.Context, r api.HistoryRequest) (api.HistoryReply, error) {
	if r.Limit <= 0 || r.Limit > 1000 {
		r.Limit = 1000
	}
	r.From = max(r.From, 1)
	if err := rd.readable(ctx, r.ID); err != nil {
		return api.HistoryReply{}, err
	}
	list, next, err := rd.commits(ctx, r.ID, r.From, r.Limit)
	if len(list) == 0 && err == nil {
		err = rd.checkExists(ctx, r.ID)
	}
	return api.HistoryReply{Commits: list, Next: next}, err
}

// Replay implements api.Tasks.
func (rd *reader) Replay(ctx context.Context, r api.ReplayRequest) (api.ReplayReply, error) {
	var live []byte
	var rev uint64
	err := rd.engine.inspect(ctx, r.ID, func(e *entry) error {
		var err error
		live, err = json.Marshal(e.task)
		rev = e.task.Rev
		return err
	})
	if err != nil {
		return api.ReplayReply{}, err
	}
	if r.At > rev {
		return api.ReplayReply{}, fault.New(fault.NotFound, "the task has %d revisions", rev).WithField("at")
	}
	upTo := rev
	if r.At != 0 {
		upTo = r.At
	}
	began := time.Now()
	reply, err := rd.replay(ctx, r.ID, upTo)
	if err != nil {
		rd.engine.recordDamage(r.ID, err)
		return reply, err
	}
	reply.Duration = time.Since(began)
	if upTo == rev {
		folded, err := json.Marshal(reply.Task)
		if err != nil {
			return reply, fault.Wrap(fault.Internal, err, "the state cannot be encoded")
		}
		reply.Live = new(string(folded) == string(live))
	}
	return reply, nil
}

func (rd *reader) replay(ctx context.Context, id events.TaskID, upTo uint64) (api.ReplayReply, error) {
	reply := api.ReplayReply{Task: &statemachine.Task{}, Chain: true}
	for stored, err := range rd.cfg.Log.Read(ctx, id, 1) {
		if err != nil {
			return reply, err
		}
		c, err := events.Decode(stored.Data)
		if err == nil {
			err = reply.Task.Fold(c, stored.Data)
		}
		if err != nil {
			var f *fault.Error
			if errors.As(err, &f) && f.Code == fault.StateNotAllowed {
				err = fault.Wrap(fault.DataLoss, err, "the history holds an event that the tables do not allow: "+f.Message)
			}
			return reply, err
		}
		reply.Commits++
		reply.Events += len(c.Events)
		if reply.Task.Rev == upTo {
			break
		}
	}
	if reply.Task.Rev != upTo {
		return reply, fault.New(fault.DataLoss, "the history of %s ends at revision %d, not %d", id, reply.Task.Rev, upTo)
	}
	return reply, nil
}

package sim_test

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
)

// check checks the invariants once every task has ended, and again after a restart.
func (w *world) check() {
	w.logf("== checks")
	past := w.histories()
	if w.readFinished(past) {
		past = w.histories()
	}
	w.checkLog(past)
	w.checkEffects(past)
	w.checkGrants(past)
	w.checkNotes(past)
	w.checkKeys(past)
	w.checkLimitKeys(past)
	w.checkBudgets(past)
	w.checkTrees(past)
	w.checkMessages(past)
	w.checkTraces(past)
	w.checkFirings(past)
	for _, h := range slices.Clone(w.workers) {
		w.killWorker(h)
	}
	w.advance(lease + 2*time.Second) // what the node does later by itself
	w.hangUp()
	w.checkLive(past)
	w.checkIdle("at the end")
	before := w.digest()
	w.kill(w.owner)
	w.up()
	w.advance(2 * time.Second)
	w.checkIdle("after a restart")
	if after := w.digest(); after != before {
		w.fail("finished tasks go on after a restart: %+v, then %+v", before, after)
	}
}

// readFinished reads the finished tasks with calls that no worker ever had: reading makes the node cancel them. It
// reports whether there were any.
func (w *world) readFinished(past []*history) bool {
	found := false
	for _, h := range past {
		if slices.ContainsFunc(h.task.Order, func(key string) bool { return !h.task.Steps[key].State.Terminal() }) {
			found = true
			w.person(h.id)
			w.runUntilIdle()
		}
	}
	return found
}

// hangUp ends all requests that still wait.
func (w *world) hangUp() {
	for _, c := range w.calls {
		c.cancel()
	}
	w.runUntilIdle()
}

// history is the history of one task in the log.
type history struct {
	id      events.TaskID
	commits []*events.Commit
	seqs    []uint64
	task    *statemachine.Task
}

// histories reads and folds the whole log.
func (w *world) histories() []*history {
	var list []*history
	for _, id := range w.ids() {
		list = append(list, w.history(id))
	}
	return list
}

// ids lists all tasks of the log.
func (w *world) ids() []events.TaskID {
	ctx := context.Background()
	var list []events.TaskID
	for _, heads := range []iter.Seq2[events.Head, error]{w.log.ArchivedHeads(ctx), w.log.Heads(ctx)} {
		for head, err := range heads {
			if err != nil {
				w.fail("the log cannot be read: %v", err)
			}
			list = append(list, head.Task)
		}
	}
	return list
}

// digest is a digest of all bytes of the log.
type digest struct {
	sum            uint64
	tasks, commits int
}

func (w *world) digest() digest {
	d, h := digest{}, fnv.New64a()
	for _, id := range slices.Sorted(slices.Values(w.ids())) { // whether they are archived meanwhile or not
		d.tasks++
		for stored, err := range w.log.Read(context.Background(), id, 1) {
			if err != nil {
				w.fail("%s cannot be read: %v", id, err)
			}
			d.commits++
			h.Write(strconv.AppendUint(nil, stored.Seq, 10))
			h.Write(stored.Data)
		}
	}
	d.sum = h.Sum64()
	return d
}

func (w *world) history(id events.TaskID) *history {
	h := &history{id: id, task: &statemachine.Task{}}
	for stored, err := range w.log.Read(context.Background(), id, 1) {
		if err != nil {
			w.fail("%s cannot be read: %v", id, err)
			return h
		}
		c, err := events.Decode(stored.Data)
		if err != nil {
			w.fail("%s cannot be decoded: %v", id, err)
			return h
		}
		if err := h.task.Fold(c, stored.Data); err != nil { // I3, I4, I11
			w.fail("%s cannot be folded: %v", id, err)
			return h
		}
		if n := len(h.seqs); n > 0 && h.seqs[n-1] >= stored.Seq {
			w.fail("I4: the positions of %s do not grow", id)
		}
		h.commits, h.seqs = append(h.commits, c), append(h.seqs, stored.Seq)
	}
	return h
}

// checkLog compares the log with the journal of the clients (I1, I2, I10) and the effects of the workers (I7).
func (w *world) checkLog(past []*history) {
	byID := map[events.TaskID]*history{}
	for _, h := range past {
		byID[h.id] = h
		w.checkEnd(h)
		w.checkResults(h)
	}
	for _, h := range past {
		w.checkChildren(h, byID)
	}
	for _, id := range w.tasks {
		h := byID[id]
		switch {
		case h == nil:
			w.fail("I1: the accepted task %s is not in the log", id)
		case w.cancelled[id] && h.task.State != statemachine.Cancelled:
			w.fail("I10: the cancelled task %s is %s", id, h.task.State)
		case w.ended[id] != "" && w.ended[id] != string(h.task.State):
			w.fail("I9: task %s was seen %s and is %s", id, w.ended[id], h.task.State)
		}
	}
}

// checkEnd counts the ends of a task, and what happens after it.
func (w *world) checkEnd(h *history) {
	state, ends := statemachine.NeedsAction, 0
	for _, c := range h.commits {
		for _, e := range c.Events {
			if !statemachine.IsTransition(e.Kind) {
				continue
			}
			next, ok := statemachine.Next(state, e.Kind)
			if !ok {
				w.fail("I3: %s: %s in state %s", h.id, e.Kind, state)
			}
			if state = next; state.Terminal() {
				ends++
			}
		}
	}
	if ends != 1 {
		w.fail("I2: %s has %d ends", h.id, ends)
	}
}

// checkResults checks that each result in the log belongs to the current attempt and was reported by its worker.
func (w *world) checkResults(h *history) {
	attempts, workers := map[string]int{}, map[string]string{}
	for _, c := range h.commits {
		for _, e := range c.Events {
			switch d := e.Data.(type) {
			case *events.Ready:
				attempts[d.Step], workers[d.Step] = d.Attempt, ""
			case *events.Called:
				workers[d.Step] = d.Worker
			case *events.Succeeded:
				var said struct {
					By      string
					Attempt int
				}
				if json.Unmarshal(d.Output.Raw, &said) != nil || said.By == "" {
					continue
				}
				if said.Attempt != d.Attempt || d.Attempt != attempts[d.Step] || said.By != workers[d.Step] || c.Actor != "worker:"+said.By {
					w.fail("I7: %s %s: attempt %d of %s is over with the result of attempt %d of %s", h.id, d.Step, attempts[d.Step], workers[d.Step], said.Attempt, said.By)
				}
			}
		}
	}
}

// checkChildren checks that a call that has succeeded with a child has exactly one child, and that the histories of
// both name each other (S0-180).
func (w *world) checkChildren(h *history, byID map[events.TaskID]*history) {
	for _, key := range h.task.Order {
		s := h.task.Steps[key]
		if s.Spawned == nil || s.State != statemachine.StepSucceeded {
			continue
		}
		child := byID[s.Child]
		if child == nil || child.task.State != statemachine.Done || !strings.Contains(string(s.Output.Raw), string(s.Child)) {
			w.fail("S0-180: %s %s has succeeded without its child %s", h.id, key, s.Child)
			continue
		}
		if p := child.task.Submitted.Parent; p == nil || p.Task != h.id || p.Step != key {
			w.fail("S0-180: %s does not name its parent %s %s: %+v", s.Child, h.id, key, p)
		}
	}
}

// checkEffects counts the effects of the calls that may happen at most once (I6).
func (w *world) checkEffects(past []*history) {
	for _, h := range past {
		for _, key := range h.task.Order {
			s := h.task.Steps[key]
			if times := w.ledger[string(h.id)+"/"+key]; times > 1 && (s.Effect == "write" || s.Effect == "destructive") {
				w.fail("I6: %d effects of %s %s", times, h.id, key)
			}
		}
	}
}

// checkGrants checks that an approval permits at most one call, and only if it was granted (I12). A call that has asked
// a question or stored a note, and one whose failure left no doubt, may start again with its grant; no other call may use that.
func (w *world) checkGrants(past []*history) {
	for _, h := range past {
		grants, used, held := map[string]string{}, map[string]int{}, map[string]string{}
		elsewhere := map[string]bool{} // steps that have stored a note before they were granted; each attempt continues one call
		for _, c := range h.commits {
			for _, e := range c.Events {
				switch d := e.Data.(type) {
				case *events.Ready:
					grants[d.Step] = d.Approval
				case *events.Called:
					if id := grants[d.Step]; id != "" && held[id] != d.Step {
						used[id]++
						if elsewhere[d.Step] {
							held[id] = d.Step
						}
					}
				case *events.Parked:
					if id := grants[d.Step]; id != "" && len(d.Questions) > 0 {
						held[id] = d.Step
					}
				case *events.Noted:
					elsewhere[d.Step] = true
					if id := grants[d.Step]; id != "" {
						held[id] = d.Step
					}
				case *events.Retrying:
					if id := grants[d.Step]; id != "" && d.KeepsGrant {
						held[id] = d.Step
					}
				}
			}
		}
		for id, times := range used {
			a := h.task.Approval(id)
			if a == nil || a.Status != statemachine.ApprovalGranted || (times > 1 && len(a.Scopes) == 0) {
				w.fail("I12: approval %s of %s let %d calls begin: %+v", id, h.id, times, a)
			}
		}
	}
}

// checkKeys checks the concurrency limits of keys. Two concurrent owners do not know each other's tasks, and no owner
// knows a late commit of a dead one.
func (w *world) checkKeys(past []*history) {
	if w.overlapped || w.strayed {
		return
	}
	type span struct {
		id         events.TaskID
		begin, end uint64
	}
	var spans []span
	limit := 0 // the largest: who was admitted first need not be in the log first
	for _, h := range past {
		if c := h.task.Submitted.Concurrency; c != nil {
			if begin, end := h.run(); begin > 0 {
				limit = max(limit, c.Limit)
				spans = append(spans, span{h.id, begin, end})
			}
		}
	}
	for _, a := range spans {
		running := 0
		for _, b := range spans {
			if b.begin <= a.begin && a.begin < b.end {
				running++
			}
		}
		if running > limit {
			w.fail("the concurrency key of %s is held by %d tasks, its limit is %d", a.id, running, limit)
		}
	}
}

// run returns the positions at which the steps of a plan started and the task ended; 0 if none started. The `always`
// steps of a task that is cancelled while it waits for its key run without the key.
func (h *history) run() (begin, end uint64) {
	for i, c := range h.commits {
		for _, e := range c.Events {
			if begin == 0 && strings.HasPrefix(begun(e), "s") {
				begin = h.seqs[i]
			}
			if statemachine.IsTransition(e.Kind) {
				if to, ok := statemachine.Next(statemachine.InProgress, e.Kind); ok && to.Terminal() || e.Kind == events.TaskFinalized {
					return begin, h.seqs[i]
				}
			}
		}
	}
	return begin, math.MaxUint64
}

// begun returns the step that an event starts.
func begun(e events.Event) string {
	switch d := e.Data.(type) {
	case *events.Ready:
		return d.Step
	case *events.Waiting:
		return d.Step
	case *events.Expanded:
		return d.Step
	case *events.Spawned:
		return d.Step
	case *events.Succeeded:
		return d.Step
	default:
		return ""
	}
}

// checkLive checks that the live state equals the fold of the log, and the fold of the commits after a snapshot (I5).
func (w *world) checkLive(past []*history) {
	for _, h := range past {
		if len(w.wrong) > 0 {
			return
		}
		var reply api.ReplayReply
		w.now("replay "+string(h.id), func(ctx context.Context, o *orchestrator.Orchestrator) (err error) {
			reply, err = o.Replay(ctx, api.ReplayRequest{ID: h.id})
			return err
		})
		if reply.Live == nil || !*reply.Live {
			w.fail("I5: the live state of %s differs from the fold of its history", h.id)
		}
		for _, c := range h.task.Checkpoints {
			w.checkSnapshot(h, c.ID)
		}
	}
}

// checkSnapshot folds the commits after a snapshot and compares the result.
func (w *world) checkSnapshot(h *history, id string) {
	var reply api.CheckpointReply
	w.now("snapshot "+id, func(ctx context.Context, o *orchestrator.Orchestrator) (err error) {
		reply, err = o.Checkpoint(ctx, api.CheckpointRequest{Task: h.id, ID: id})
		return err
	})
	if len(w.wrong) > 0 {
		return
	}
	task := reply.Snapshot.Task
	for stored, err := range w.log.Read(context.Background(), h.id, reply.Snapshot.Rev+1) {
		c, bad := events.Decode(stored.Data)
		if bad == nil && c.Rev > h.task.Rev {
			break // it has come since the checks began
		}
		if err == nil && bad == nil {
			err = task.Fold(c, stored.Data)
		}
		if err != nil || bad != nil {
			w.fail("I5: the snapshot %s of %s cannot be continued: %v %v", id, h.id, err, bad)
			return
		}
	}
	whole, _ := json.Marshal(h.task)
	tail, _ := json.Marshal(task)
	if string(whole) != string(tail) {
		w.fail("I5: the snapshot %s of %s and the tail give another state:\n%s\n%s", id, h.id, whole, tail)
	}
}

// checkIdle checks that nothing is left in memory.
func (w *world) checkIdle(when string) {
	if len(w.wrong) > 0 || w.owner == nil {
		return
	}
	for what, n := range w.owner.Leftovers() {
		if n != 0 {
			w.fail("%d %s are left over %s", n, what, when)
		}
	}
	if open := w.open(); len(open) > 0 {
		w.fail("%d tasks are open %s", len(open), when)
	}
}

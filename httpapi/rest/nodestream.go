package rest

import (
	"context"
	"sync"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/sse"
	"github.com/orch-dev/orch/statemachine"
)

// Inbox is the data of the event `inbox`: how much waits for people.
type Inbox struct {
	Approvals int `json:"approvals"`
	Questions int `json:"questions"`
	// InDoubt and Dead count the tasks of the dead letter, at most 1,000: those that are blocked because a person has to say the
	// outcome of a step, and the others. A task that an open question blocks is in neither, because the question is counted.
	InDoubt int `json:"in_doubt"`
	Dead    int `json:"dead"`
	// Stuck counts the open tasks that wait for a worker that nobody has started, at most 1,000.
	Stuck int `json:"stuck"`
}

// inboxEvery is the shortest time between two counts of the inbox.
const inboxEvery = time.Second

// inboxCounter counts what waits for people, once for all streams.
type inboxCounter struct {
	api api.API

	mu    sync.Mutex
	count Inbox
	at    time.Time
}

// read returns the counts, which are at most inboxEvery old.
func (c *inboxCounter) read(ctx context.Context) (Inbox, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) < inboxEvery {
		return c.count, nil
	}
	count, err := countInbox(ctx, c.api)
	if err == nil {
		c.count, c.at = count, time.Now()
	}
	return count, err
}

// countInbox counts what waits for people.
func countInbox(ctx context.Context, a api.API) (Inbox, error) {
	approvals, err := a.Approvals(ctx, api.ApprovalsRequest{Limit: 1})
	if err != nil {
		return Inbox{}, err
	}
	questions, err := a.Questions(ctx, api.QuestionsRequest{})
	if err != nil {
		return Inbox{}, err
	}
	dead, err := a.List(ctx, api.ListRequest{Dead: true, Limit: 1000})
	if err != nil {
		return Inbox{}, err
	}
	stuck, err := a.List(ctx, api.ListRequest{Stuck: true, Limit: 1000})
	if err != nil {
		return Inbox{}, err
	}
	count := Inbox{
		Approvals: len(approvals.Approvals) + approvals.Omitted, Questions: len(questions.Questions) + questions.Omitted, Stuck: len(stuck.Tasks),
	}
	asking := map[events.TaskID]bool{}
	for _, q := range questions.Questions {
		asking[q.Task] = true
	}
	for _, t := range dead.Tasks {
		switch {
		case t.State != statemachine.Blocked || t.Block != blockForInput:
			count.Dead++
		case !asking[t.ID]:
			count.InDoubt++
		}
	}
	return count, nil
}

// blockForInput is api.Summary.Block of a task that is blocked by a step in doubt or by an open question.
const blockForInput = "input"

// reset is the data of the event `reset`.
type reset struct{}

// followNode answers GET /events: an event `task` for each changed task, an event `inbox` when the counts change, and an event
// `reset` after a gap. A client that connects again gets what has changed since its last event. A client that sees only its own tasks gets the events of the tasks that it has submitted, and no counts.
func (s *Server) followNode(x *exchange, in any) error {
	if s.cfg.Feed == nil {
		return fault.New(fault.Unavailable, "the node has no feed of changes")
	}
	ctx, end, err := s.openStream(x)
	if err != nil {
		return err
	}
	defer end()
	only := ""
	if !x.client.Role().seesAll() {
		only = x.client.Name()
	}
	from, unsubscribe := s.cfg.Feed.listen(only)
	defer unsubscribe()
	if last := lastEvent(x.r, in); last != "" {
		s.resume(ctx, x.api, from, last)
	}
	n := nodeStream{out: eventWriter{sse.Start(x.w)}, from: from, feed: s.cfg.Feed, keepAlive: s.cfg.KeepAlive}
	if only == "" {
		n.inbox = s.inboxes.read
	}
	n.follow(ctx)
	return nil
}

// nodeStream is an open stream of the node.
type nodeStream struct {
	out  eventWriter
	from *listener
	feed *Feed
	// inbox counts the inbox; nil for a client that may not see it.
	inbox     func(context.Context) (Inbox, error)
	keepAlive time.Duration
	last      Inbox
	counted   bool
}

// follow sends events until ctx ends or the client does not read.
func (n *nodeStream) follow(ctx context.Context) {
	idle := time.NewTicker(n.keepAlive)
	defer idle.Stop()
	if n.sendPlace() != nil || n.sendInbox(ctx) != nil {
		return
	}
	recount := time.NewTimer(inboxEvery)
	defer recount.Stop()
	recount.Stop()
	due := false
	for n.out.Flush() == nil {
		select {
		case <-n.from.wake:
			if n.sendChanges() != nil {
				return
			}
			if !due {
				due = true
				recount.Reset(inboxEvery)
			}
		case <-recount.C:
			due = false
			if n.sendInbox(ctx) != nil {
				return
			}
		case <-idle.C:
			if n.sendPlace() != nil || n.sendInbox(ctx) != nil || n.out.Comment() != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// sendPlace sends the changes that wait, and the position after them.
func (n *nodeStream) sendPlace() error {
	after, known := n.feed.position() // before take, so that what is taken contains everything before it
	if err := n.sendChanges(); err != nil || !known {
		return err
	}
	return n.out.Write([]byte("id: " + after.String() + "\n\n"))
}

// sendChanges sends the changes that wait.
func (n *nodeStream) sendChanges() error {
	batches, gap := n.from.take()
	if gap {
		if err := n.out.event("", "reset", reset{}); err != nil {
			return err
		}
	}
	for _, b := range batches {
		if err := n.out.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// sendInbox sends the counts if they have changed. It skips a count that fails: the next change is counted again.
func (n *nodeStream) sendInbox(ctx context.Context) error {
	if n.inbox == nil {
		return nil
	}
	count, err := n.inbox(ctx)
	if err != nil || n.counted && count == n.last {
		return nil //nolint:nilerr // as documented
	}
	n.last, n.counted = count, true
	return n.out.event("", "inbox", count)
}

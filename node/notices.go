package node

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/notify"
)

const (
	// maxNotices limits the notices that wait for delivery.
	maxNotices = 256
	// drainNotices is how long a stopping node continues to deliver notices.
	drainNotices = 5 * time.Second
	// maxSubject and maxMessage limit the parts of a notice, in bytes.
	maxSubject, maxMessage = 200, 2000
)

// noticeQueue delivers the notices of the orchestrator to the channels that the operator chose, one after another. It never
// blocks the orchestrator: if the queue is full, a notice is dropped, counted and logged.
type noticeQueue struct {
	executor *executor
	sender   *notify.Sender
	kinds    []string // failed, blocked, approval
	channels []string
	queue    chan orchestrator.Notice
	// page returns the URL of a page; empty if there is none.
	page    func(kind, id string) string
	dropped atomic.Int64
	// stopping is closed when the orchestrator sends no more notices.
	stopping chan struct{}
}

// openNotices starts the delivery, unless no kinds or no channels are configured.
func (h *host) openNotices(ctx context.Context) error {
	if len(h.cfg.NotifyOn) == 0 || len(h.cfg.NotifyTo) == 0 {
		return nil
	}
	sender, err := notify.NewSender(h.executor.families.Notify, h.cfg.NotifyTo...)
	if err != nil {
		return fault.From(err).WithField("notify_channels")
	}
	h.notices = &noticeQueue{
		executor: h.executor, sender: sender, kinds: h.cfg.NotifyOn, channels: h.cfg.NotifyTo, page: h.pageOf,
		queue: make(chan orchestrator.Notice, maxNotices), stopping: make(chan struct{}),
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.notices.run(run)
	}()
	h.onStop(func(ctx context.Context) error {
		defer cancel()
		ctx, stop := context.WithTimeout(ctx, drainNotices)
		defer stop()
		context.AfterFunc(ctx, cancel)
		close(h.notices.stopping)
		<-ended
		return nil
	})
	return nil
}

// notify is called by the orchestrator with its lock held. It never blocks.
func (h *host) notify(notice orchestrator.Notice) {
	if h.notices == nil || !h.notices.wants(notice.Kind) {
		return
	}
	select {
	case h.notices.queue <- notice:
	default:
		h.notices.dropped.Add(1)
	}
}

// wants reports whether the operator has chosen a kind.
func (n *noticeQueue) wants(kind string) bool {
	switch kind {
	case orchestrator.NoticeFailed:
		return slices.Contains(n.kinds, "failed")
	case orchestrator.NoticeBlocked:
		return slices.Contains(n.kinds, "blocked")
	default:
		return slices.Contains(n.kinds, "approval")
	}
}

// run delivers notices until stopping is closed and the queue is empty.
func (n *noticeQueue) run(ctx context.Context) {
	for {
		select {
		case notice := <-n.queue:
			n.send(ctx, notice)
		case <-n.stopping:
			n.drain(ctx)
			return
		}
	}
}

// drain delivers the queued notices. After the end of ctx, it drops and counts them.
func (n *noticeQueue) drain(ctx context.Context) {
	for {
		select {
		case notice := <-n.queue:
			if ctx.Err() != nil {
				n.dropped.Add(1)
				continue
			}
			n.send(ctx, notice)
		default:
			n.logDropped(ctx)
			return
		}
	}
}

func (n *noticeQueue) send(ctx context.Context, notice orchestrator.Notice) {
	log := n.executor.cfg.logger()
	if err := n.prepare(notice); err != nil {
		log.WarnContext(ctx, "notification_workspace_failed", slog.String("task", string(notice.Task)), slog.Any("error", err))
	}
	env := &tools.Env{
		Task: notice.Task, Root: n.executor.root, Workspace: n.executor.tree.Path(notice.Task), Log: log, Now: time.Now,
		Progress: func(float64, float64, string) {}, Record: func(events.Kind, events.Payload) {}, // its task may have ended
	}
	if err := n.sender.Send(ctx, env, n.message(notice)); err != nil {
		log.WarnContext(ctx, "notification_failed", slog.String("task", string(notice.Task)), slog.String("kind", notice.Kind), slog.Any("error", err))
	}
	n.logDropped(ctx)
}

// prepare creates the workspace of the task for the channel "file", because a task may end before it has a workspace.
func (n *noticeQueue) prepare(notice orchestrator.Notice) error {
	if !slices.Contains(n.channels, "file") {
		return nil
	}
	_, err := n.executor.tree.Ensure(notice.Task, notice.Name)
	if err == nil && notice.Kind == orchestrator.NoticeFailed {
		err = n.executor.tree.RemoveTemp(notice.Task)
	}
	return err
}

func (n *noticeQueue) logDropped(ctx context.Context) {
	if dropped := n.dropped.Swap(0); dropped > 0 {
		n.executor.cfg.logger().WarnContext(ctx, "notifications_dropped", slog.Int64("count", dropped))
	}
}

// message converts a notice into a message for people, without secrets.
func (n *noticeQueue) message(o orchestrator.Notice) notify.Notice {
	what := "has news"
	switch o.Kind {
	case orchestrator.NoticeFailed:
		what = "has failed"
	case orchestrator.NoticeBlocked:
		what = "is blocked"
	case orchestrator.NoticeApprovalRequested:
		what = "asks for approval"
	case orchestrator.NoticeApprovalReminded:
		what = "still waits for approval"
	case orchestrator.NoticeApprovalEscalated:
		what = "was not decided about in time and asks again"
	}
	next, link := n.next(o)
	text := n.redact(o.Text)
	first, _, _ := strings.Cut(text, "\n")
	subject := cmp.Or(n.redact(o.Name), string(o.Task)) + " " + what + ": " + first
	return notify.Notice{
		Task: o.Task, Key: o.Key, Priority: o.Priority, At: o.At,
		Subject: shorten(strings.Map(spaceForControl, subject), maxSubject), Message: shorten(text, maxMessage) + "\n\n" + strings.TrimSpace(next+"\n"+link),
		Link: link,
	}
}

// next returns the command that the reader of a notice may need, and the page that does the same; empty if there is none.
func (n *noticeQueue) next(o orchestrator.Notice) (command, link string) {
	switch {
	case o.Approval != "":
		return "orch approve " + o.Approval, n.page("approvals", o.Approval)
	case o.Question != "":
		return "orch questions " + string(o.Task), n.page("questions", o.Question)
	default:
		return "orch explain " + string(o.Task), n.page("tasks", string(o.Task))
	}
}

func (n *noticeQueue) redact(text string) string {
	clean, _ := n.executor.policy.Redact([]byte(text))
	return string(clean)
}

// spaceForControl replaces control characters, such as line breaks, by spaces.
func spaceForControl(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}

// shorten truncates text to limit bytes, with an ellipsis at the end.
func shorten(text string, limit int) string {
	const ellipsis = "…"
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(ellipsis)], "") + ellipsis
}

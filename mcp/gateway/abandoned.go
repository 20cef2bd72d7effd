package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// sweepInterval is how often abandoned calls are looked for.
const sweepInterval = 5 * time.Second

// Call identifies a call of a task.
type Call struct {
	Task events.TaskID
	Step string
}

// key is the key of the pending call.
func (c Call) key() string { return string(c.Task) + "/" + c.Step }

// sweep ends pending calls that wait for an answer although their call has ended: the task was cancelled, or the
// question has expired. Otherwise the server would keep them open, and it may have only a limited number of open questions.
func (g *Gateway) sweep() {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-g.life.Done():
			return
		case <-tick.C:
		}
		g.EndAbandoned(g.life)
	}
}

// EndAbandoned ends the calls without an attempt that have ended according to Config.CallEnded, and the tasks that servers have made
// of them. The gateway itself does that every five seconds.
func (g *Gateway) EndAbandoned(ctx context.Context) {
	for key, f := range g.pendingCalls.unattended() {
		if !g.cfg.CallEnded(ctx, f.of) {
			continue
		}
		f.stop()
		<-f.done
		g.pendingCalls.remove(key, f)
		if f.task != nil {
			g.endTask(ctx, f.server, f.task)
		}
	}
}

// endTask asks a server to cancel a task that nobody waits for.
func (g *Gateway) endTask(ctx context.Context, server string, task json.RawMessage) {
	const patience = 5 * time.Second
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer stop()
	if err := g.servers.CancelTask(ctx, server, task); err != nil {
		g.log.WarnContext(ctx, "mcp_task_not_cancelled", slog.String("server", server), slog.String("error", fault.From(err).Message))
	}
}

// unattended returns the pending calls without an attempt, by key.
func (all *pendingCalls) unattended() map[string]*pendingCall {
	all.mu.Lock()
	defer all.mu.Unlock()
	alone := map[string]*pendingCall{}
	for key, f := range all.byKey {
		f.mu.Lock()
		if !f.attended {
			alone[key] = f
		}
		f.mu.Unlock()
	}
	return alone
}

package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// sweepInterval is the interval at which abandoned calls are ended.
const sweepInterval = 5 * time.Second

// Call identifies a call: a step of a task.
type Call struct {
	Task events.TaskID
	Step string
}

// key returns the key of the call in pendingCalls.
func (c Call) key() string { return string(c.Task) + "/" + c.Step }

// sweep ends pending calls that wait for an answer although the call has ended in the log, because the task was cancelled or the
// question has expired. Otherwise the server would keep their questions open, and may permit only a limited number.
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

// EndAbandoned ends the pending calls that no attempt waits for and that have ended according to Config.CallEnded. It also cancels
// their MCP tasks. If CallEnded is set, the gateway calls EndAbandoned every five seconds.
func (g *Gateway) EndAbandoned(ctx context.Context) {
	for key, f := range g.pendingCalls.unattended() {
		if !g.cfg.CallEnded(ctx, f.call) {
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

// endTask requests a server to cancel a task that nobody waits for. It logs an error.
func (g *Gateway) endTask(ctx context.Context, server string, task json.RawMessage) {
	const timeout = 5 * time.Second
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer stop()
	if err := g.servers.CancelTask(ctx, server, task); err != nil {
		g.log.WarnContext(ctx, "mcp_task_not_cancelled", slog.String("server", server), slog.String("error", fault.From(err).Message))
	}
}

// unattended returns the pending calls that no attempt waits for, by key.
func (all *pendingCalls) unattended() map[string]*pendingCall {
	all.mu.Lock()
	defer all.mu.Unlock()
	calls := map[string]*pendingCall{}
	for key, f := range all.byKey {
		f.mu.Lock()
		if !f.attended {
			calls[key] = f
		}
		f.mu.Unlock()
	}
	return calls
}

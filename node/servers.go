package node

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/tools"
)

// Servers configures the use of external MCP servers. The zero value uses none.
type Servers struct {
	// Home is the home directory of the user, which contains definitions of servers; if it is empty, no servers are used. Dir is
	// the directory of a project with more definitions; empty for none.
	Home, Dir string
	// Workspace is the value of ${workspaceFolder} in definitions: the directory that tools are confined to. Default: Dir, or
	// Home if Dir is empty.
	Workspace string
	// Still disables watching the files with definitions for changes.
	Still bool
	// Connect determines when servers are connected.
	Connect gateway.Connect
	// Getenv returns the environment variables that definitions refer to. Default: os.Getenv.
	Getenv func(string) string
}

// gateway returns the configuration of a gateway to the servers.
func (s Servers) gateway(catalogue *tools.Catalogue, log *slog.Logger) gateway.Config {
	return gateway.Config{
		Servers:   registry.Config{Dir: cmp.Or(s.Dir, s.Home), Home: s.Home, Workspace: s.Workspace, Still: s.Still, Getenv: s.Getenv},
		Catalogue: catalogue, Connect: s.Connect, Logger: log,
	}
}

// maxChanges limits the changes of servers that wait to be recorded.
const maxChanges = 1000

// openGateway starts the gateway to external MCP servers, which adds their tools to the catalogue. onChange and callEnded are
// those of openExecutor.
func (h *executor) openGateway(ctx context.Context, onChange func(context.Context, registry.Change), callEnded func(context.Context, gateway.Call) bool) error {
	s := h.cfg.Faces.Servers
	if s.Home == "" {
		return nil
	}
	cfg := s.gateway(h.catalogue, h.cfg.logger())
	cfg.OnChange, cfg.CallEnded = onChange, callEnded
	g, err := gateway.New(cfg)
	if err != nil {
		return err
	}
	h.gateway = g
	return g.Start(ctx)
}

// queueChange queues a change to be recorded. If the queue is full, it writes the change to the log of the process instead.
func (jn *journal) queueChange(ctx context.Context, c registry.Change) {
	select {
	case jn.changes <- c:
	default:
		jn.cfg.logger().WarnContext(ctx, "mcp_change_not_noted", slog.String("server", c.Server), slog.String("change", string(c.Kind)))
	}
}

// isOver reports whether the log records the end of a call.
func (h *host) isOver(ctx context.Context, call gateway.Call) bool {
	t, err := h.orch.Get(ctx, api.GetRequest{ID: call.Task})
	if err != nil {
		return false
	}
	i := slices.IndexFunc(t.Steps, func(s api.StepView) bool { return s.Key == call.Step })
	return i >= 0 && t.Steps[i].State.Terminal()
}

// startJournal records changes of MCP servers in the log (S1-035, S1-050, S1-052), in a permanent node.
func (jn *journal) startJournal(ctx context.Context) error {
	if jn.executor.gateway == nil || jn.cfg.Faces.Servers.Connect != gateway.AtOnce {
		return nil
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		jn.recordChanges(run)
	}()
	jn.onStop(func(context.Context) error { stop(); <-ended; return nil })
	return nil
}

const (
	// One task records all changes within collectFor after the first, at most maxRecorded of them.
	collectFor, maxRecorded = 500 * time.Millisecond, 500
	// recordWithin limits the time to submit that task.
	recordWithin = 10 * time.Second
)

// recordChanges records changes of external MCP servers until ctx ends. It then records the remaining ones.
func (jn *journal) recordChanges(ctx context.Context) {
	var changes []registry.Change
	timer := time.NewTimer(collectFor)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			jn.submitChanges(context.WithoutCancel(ctx), jn.withQueued(changes))
			return
		case c := <-jn.changes:
			if len(changes) == 0 {
				timer.Reset(collectFor)
			}
			if changes = append(changes, c); len(changes) < maxRecorded {
				continue
			}
		case <-timer.C:
		}
		jn.submitChanges(ctx, changes)
		changes = nil
	}
}

// withQueued returns changes and the changes that are still queued.
func (jn *journal) withQueued(changes []registry.Change) []registry.Change {
	for len(changes) < maxRecorded {
		select {
		case c := <-jn.changes:
			changes = append(changes, c)
		default:
			return changes
		}
	}
	return changes
}

// submitChanges submits a task that records changes.
func (jn *journal) submitChanges(ctx context.Context, changes []registry.Change) {
	if len(changes) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(ctx, recordWithin)
	defer stop()
	_, err := jn.orch.Submit(ctx, api.SubmitRequest{Plan: changesPlan(changes), Actor: "system:mcp", Internal: true})
	if err != nil {
		jn.cfg.logger().WarnContext(ctx, "mcp_changes_not_noted", slog.Int("changes", len(changes)), slog.Any("error", err))
	}
}

// messageOf returns a sentence about a change.
func messageOf(c registry.Change) string {
	text := string(c.Kind) + " " + c.Server
	if c.Tool != "" {
		text += " " + c.Tool
	}
	if c.By != "" {
		text += " by " + c.By
	}
	return text
}

// contextOf returns the fields of a change.
func contextOf(c registry.Change) map[string]any {
	all := map[string]any{"event": c.Kind, "server": c.Server}
	for name, value := range map[string]string{"tool": c.Tool, "by": c.By} {
		if value != "" {
			all[name] = value
		}
	}
	return all
}

// changesPlan returns a plan that writes changes into the log of its task.
func changesPlan(changes []registry.Change) json.RawMessage {
	type object = map[string]any
	steps, names := []object{}, []string{}
	for i, c := range changes {
		steps = append(steps, object{"id": "change_" + strconv.Itoa(i+1), "tool": "LOG_WRITE", "with": object{
			"level": "INFO", "message": messageOf(c), "context": contextOf(c),
		}})
		if i < 8 {
			names = append(names, string(c.Kind)+" "+c.Server)
		}
	}
	plan, err := json.Marshal(object{"orch": "v1", "name": api.OwnPrefix + "mcp", "summary": strings.Join(names, ", "), "steps": steps})
	if err != nil {
		panic(err) // only texts
	}
	return plan
}

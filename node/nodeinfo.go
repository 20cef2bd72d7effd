package node

import (
	"context"
	"slices"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/stats"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/builtin"
	"github.com/orch-dev/orch/tools/onboarding"
	"github.com/orch-dev/orch/tools/system"
)

// nodeInfo provides information about the node to its tools. Only the process of a node has a nodeInfo.
type nodeInfo struct {
	n      *Node
	health *health
	// families are the categories of the built-in tools, by name.
	families map[string]string
}

// openStats starts the statistics of calls. They start before the orchestrator and end after it, so that they miss no commit.
func (h *host) openStats(ctx context.Context) error {
	keeper, err := stats.NewProjector(ctx, stats.ProjectorConfig{Log: h.store, Snapshots: h.store, Logger: h.cfg.logger()})
	if err != nil {
		return err
	}
	keeper.WatchBudgets(h.cfg.budgets(), h.cfg.wall()())
	h.stats = keeper
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		keeper.Run(run)
	}()
	h.onStop(func(context.Context) error { stop(); <-ended; return nil })
	return nil
}

// publishInfo makes the information available to tools.
func (n *Node) publishInfo(context.Context) error {
	a := &nodeInfo{n: n, health: newHealth(n), families: map[string]string{}}
	for _, f := range builtin.Families(n.executor.families) {
		for _, t := range f.Tools {
			a.families[t.Spec().Name] = f.Category
		}
	}
	n.executor.nodeInfo.Store(a)
	n.onStop(func(context.Context) error { n.executor.nodeInfo.Store(nil); return nil })
	return nil
}

// Stats returns the call statistics of the node.
func (n *Node) Stats() *stats.Projector { return n.stats }

// system returns the information for the tools of package system; nil in a process without a node.
func (h *executor) system() *system.Node {
	a := h.nodeInfo.Load()
	if a == nil {
		return nil
	}
	return &system.Node{Version: a.n.cfg.Version, Skills: a.skills, Agents: h.agents(), Queue: a, Usage: a, Health: a.health}
}

// onboarding returns the information for the tools of package onboarding; nil in a process without a node.
func (h *executor) onboarding() *onboarding.Node {
	a := h.nodeInfo.Load()
	if a == nil {
		return nil
	}
	node := &onboarding.Node{Version: a.n.cfg.Version, Offered: a.offered, Called: a.called}
	if a.n.cfg.User != "" {
		node.Contacts = []string{"user:" + a.n.cfg.User + ", who runs this node"}
	}
	return node
}

// skills returns the tools that a task may call, without internal ones.
func (a *nodeInfo) skills(ctx context.Context, task events.TaskID) ([]system.Tool, error) {
	allowed, err := a.n.orch.Callable(ctx, task)
	if err != nil && !fault.Has(err, fault.NotFound) {
		return nil, err
	}
	servers := a.servers()
	var all []system.Tool
	for _, name := range a.n.executor.catalogue.Names() {
		t, ok := a.n.executor.catalogue.Get(name)
		if !ok || t.Spec().Internal || len(allowed) > 0 && !slices.Contains(allowed, name) {
			continue
		}
		all = append(all, a.skill(t, servers[name]))
	}
	return all, nil
}

// skill describes a tool of an external MCP server, or a built-in tool if server is empty.
func (a *nodeInfo) skill(t tools.Tool, server string) system.Tool {
	if server != "" {
		return system.Tool{Tool: t, Category: server, Author: server}
	}
	category := a.families[t.Spec().Name]
	if category == "" {
		category = "other"
	}
	return system.Tool{Tool: t, Category: category, Author: "orch", Version: a.n.cfg.Version}
}

// servers maps the name of each external tool to its MCP server.
func (a *nodeInfo) servers() map[string]string {
	byTool := map[string]string{}
	if g := a.n.executor.gateway; g != nil {
		for _, e := range g.Entries() {
			byTool[e.Spec.Name] = e.Server
		}
	}
	return byTool
}

func (a *nodeInfo) offered(ctx context.Context, task events.TaskID) (map[string][]string, error) {
	all, err := a.skills(ctx, task)
	by := map[string][]string{}
	for _, t := range all {
		by[t.Category] = append(by[t.Category], t.Spec().Name)
	}
	return by, err
}

// called reports whether an identity has successfully called a tool since a time. Each call is a task that has the name of the
// tool.
func (a *nodeInfo) called(ctx context.Context, who, tool string, since time.Time) (bool, error) {
	list, err := a.n.orch.List(ctx, api.ListRequest{
		Requestor: who, Name: tool, States: []statemachine.State{statemachine.Done}, Since: since, Limit: 1,
	})
	return len(list.Tasks) > 0, err
}

// Queue implements system.Queue.
func (a *nodeInfo) Queue(ctx context.Context, r system.QueueRequest) ([]system.QueuedTask, system.QueueStats, error) {
	reply, err := a.n.orch.Queue(ctx, api.QueueRequest{
		Agent: r.Agent, AgentType: r.AgentType, Capabilities: r.Capabilities, Priority: r.Priority, Status: r.Status, Type: r.Type,
		IncludeAssigned: r.IncludeAssigned, Limit: r.Limit, Except: r.Except,
	})
	if err != nil {
		return nil, system.QueueStats{}, err
	}
	var list []system.QueuedTask
	for _, q := range reply.Tasks {
		list = append(list, system.QueuedTask{
			ID: q.ID, Type: q.Type, Requires: q.Requires, AssignedTo: q.AssignedTo, Priority: q.Priority, Status: q.Status,
			State: string(q.State), Block: q.Block, Reason: q.Reason, Name: q.Name, Summary: q.Summary, Queue: q.Queue, Parent: q.Parent,
			Paused: q.Paused, CreatedAt: q.CreatedAt, Deadline: q.Deadline, DependsOn: q.DependsOn,
		})
	}
	s := reply.Stats
	return list, system.QueueStats{
		Total: s.Total, Pending: s.Pending, Assigned: s.Assigned, InProgress: s.InProgress, Blocked: s.Blocked, Wait: s.Wait, Oldest: s.Oldest,
	}, nil
}

// Tool implements system.Usage.
func (a *nodeInfo) Tool(name string) system.Uses { return usesOf(a.n.stats.Tool(name)) }

// Agent implements system.Usage. The log records an agent as a worker with the agent's actor name.
func (a *nodeInfo) Agent(name string) system.Uses {
	return usesOf(a.n.stats.Worker(agents.Prefix + name))
}

// Tools implements system.Usage.
func (a *nodeInfo) Tools() map[string]system.Uses {
	all := map[string]system.Uses{}
	for name, c := range a.n.stats.Table().Tools {
		all[name] = usesOf(*c)
	}
	return all
}

func usesOf(c stats.Counter) system.Uses {
	return system.Uses{Count: c.Count, Successes: c.Successes, Took: c.Took, LastUsed: c.LastUsed, Errors: c.Errors}
}

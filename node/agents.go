package node

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/audit"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/tools/onboarding"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

// agentDesk manages the registered agents and dispatches calls to them.
type agentDesk struct {
	*host

	credentials     *credentials
	mailroom        *mailroom
	agents          *agents.Registry
	agentDispatcher *agents.Dispatcher
}

// startAgents starts the services for agents.
func (ag *agentDesk) startAgents(ctx context.Context) error {
	ag.agents = agents.NewRegistry(agents.Config{Credentials: ag.agentCredentials(), Running: ag.runningCalls, Records: ag.records, URL: ag.address})
	ag.executor.registry.Store(&auditedAgents{ag.agents, ag.host, audit.FaceTask})
	gates := &chain{executor: ag.executor, owner: ag.orch}
	ag.agents.OnSweep(gates.dropRemoved)
	ag.agentDispatcher = agents.NewDispatcher(ag.orch, gates, ag.agents)
	c, err := ag.connect(ctx, "agents")
	if err != nil {
		return err
	}
	end, err := rpc.ServeAgents(c, auditedAgents{ag.agents, ag.host, audit.FaceBus}, ag.forOperator())
	if err == nil {
		ag.onStop(closeSoon(end))
	}
	return err
}

// address returns the origin (scheme, host and port) at which the node serves HTTP; "" if it does not.
func (ag *agentDesk) address() string { return ag.urlOf("") }

// agents returns the service for agents; nil in a process without one.
func (h *executor) agents() agents.Service {
	if r := h.registry.Load(); r != nil {
		return *r
	}
	return nil
}

// records returns the counts of completed and failed calls of each agent, by actor.
func (ag *agentDesk) records() map[string]agents.Record {
	done := map[string]agents.Record{}
	for name, c := range ag.stats.Table().Workers {
		if strings.HasPrefix(name, agents.Prefix) {
			done[name] = agents.Record{
				Completed: int(c.Successes), Failed: int(c.Count - c.Successes), Streak: int(c.Failing), Busy: c.Took, //nolint:gosec // counts do not overflow
			}
		}
	}
	return done
}

// runningCalls returns the calls of agents, by actor.
func (ag *agentDesk) runningCalls(context.Context) (map[string][]agents.RunningCall, error) {
	held, err := ag.orch.HeldCalls()
	if err != nil {
		return nil, err
	}
	running := make(map[string][]agents.RunningCall, len(held))
	for actor, calls := range held {
		for _, c := range calls {
			running[actor] = append(running[actor], agents.RunningCall{Ref: c.Ref, Since: c.Since, Until: c.Until})
		}
	}
	return running, nil
}

// agentPaths serves the HTTP paths for agents.
func (ag *agentDesk) agentPaths() http.Handler {
	return httpapi.Agents(httpapi.AgentsConfig{
		Dispatcher: ag.agentDispatcher, Verify: ag.verifyAgent, Renew: ag.agentCredentials().renew, Admit: ag.admit, Logger: ag.cfg.logger(),
	})
}

// verifyAgent returns the agent that a secret authenticates.
func (ag *agentDesk) verifyAgent(_ context.Context, secret string) (agents.Member, error) {
	t, err := ag.credentials.tokens.VerifyToken(secret)
	if fault.Has(err, fault.Unauthorized) {
		return agents.Member{}, fault.New(fault.Unauthorized, "the agent was removed, or this is not its newest secret").
			WithHint("use the one that was renewed last, or register again: orch agents register NAME")
	}
	if err != nil {
		return agents.Member{}, err
	}
	if t.Agent == nil {
		return agents.Member{}, fault.New(fault.Forbidden, "%s is not a registered agent", t.Name).WithHint("orch agents register")
	}
	return memberOf(t), nil
}

// chain implements agents.Chain: it applies the checks of a worker (policy, limits, secrets) to the calls of agents. For each
// agent it has a worker with the agent's name, which calls no tool itself.
type chain struct {
	executor *executor
	owner    work.Owner

	mu      sync.Mutex
	workers map[string]*worker.Worker
}

// Pass implements agents.Chain.
func (c *chain) Pass(ctx context.Context, actor string, call work.Call) (work.Outcome, error) {
	w, err := c.worker(actor)
	if err != nil {
		return work.Outcome{}, err
	}
	return w.Execute(ctx, call), nil
}

// mayHandOn returns an error if the policy file forbids an agent to hand its call over to another agent.
func (h *executor) mayHandOn(o decide.HandOn) error {
	tool, ok := h.catalogue.Get(o.Tool)
	if !ok {
		return fault.New(fault.NotFound, "the node has no tool %s", o.Tool).WithField("hand_to")
	}
	return h.policy.CheckHandover(policy.Handover{Spec: tool.Spec(), Requester: o.Requester, By: o.By, From: o.From, To: o.To})
}

// Vet implements agents.Chain.
func (c *chain) Vet(output json.RawMessage) (json.RawMessage, error) {
	w, err := c.worker(agents.Prefix)
	if err != nil {
		return nil, err
	}
	return w.Vet(output)
}

// dropRemoved returns a function that drops the workers of agents missing from a roster. It drops only workers that exist at
// the time of the call to dropRemoved, because the roster does not contain agents that are registered later.
func (c *chain) dropRemoved() func(agents.Roster) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := maps.Clone(c.workers)
	return func(living agents.Roster) {
		c.mu.Lock()
		defer c.mu.Unlock()
		maps.DeleteFunc(c.workers, func(actor string, w *worker.Worker) bool {
			return actor != agents.Prefix && !living.Actors[actor] && known[actor] == w
		})
	}
}

func (c *chain) worker(actor string) (*worker.Worker, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.workers[actor]; w != nil {
		return w, nil
	}
	w, err := c.executor.worker(c.owner, worker.Config{Name: actor})
	if err == nil {
		if c.workers == nil {
			c.workers = map[string]*worker.Worker{}
		}
		c.workers[actor] = w
	}
	return w, err
}

// Agents returns the service for the agents of the node.
func (ag *agentDesk) Agents() agents.Service {
	return auditedAgents{ag.agents, ag.host, audit.FaceProcess}
}

// reveal adds the secret of a new credential to the result of the call that registered an agent. It does so only once.
func (ag *agentDesk) reveal(ctx context.Context, task events.TaskID, who string, result json.RawMessage) json.RawMessage {
	return onboarding.Reveal(ctx, ag.agents, task, who, result)
}

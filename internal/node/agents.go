package node

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/tools/onboarding"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

// startAgents serves the network of agents.
func (n *Node) startAgents(ctx context.Context) error {
	n.agents = agents.NewRegistry(agents.Config{Credentials: roll{n.tokens, n.orch.Callable}, Running: n.runningCalls, Records: n.records, URL: n.address})
	n.hands.registry.Store(n.agents)
	n.agentDesk = agents.NewDesk(n.orch, &chain{hands: n.hands, owner: n.orch}, n.agents)
	c, err := n.connect(ctx, "agents")
	if err != nil {
		return err
	}
	end, err := bus.ServeAgents(c, n.agents, bus.EndpointConfig{Logger: n.cfg.logger()})
	if err == nil {
		n.onStop(closeSoon(end))
	}
	return err
}

// address is where the node serves HTTP, without a path; "" when it does not.
func (n *Node) address() string { return strings.TrimSuffix(n.faceURL, mcpPath) }

// agents returns the node that knows the agents; nil where there is none.
func (h *hands) agents() agents.Service {
	if r := h.registry.Load(); r != nil {
		return r
	}
	return nil
}

// records says what agents have done, by actor.
func (n *Node) records() map[string]agents.Record {
	done := map[string]agents.Record{}
	for name, c := range n.stats.Table().Workers {
		if strings.HasPrefix(name, agents.Prefix) {
			done[name] = agents.Record{
				Completed: int(c.Successes), Failed: int(c.Count - c.Successes), Streak: int(c.Failing), Busy: c.Took, //nolint:gosec // nobody counts that far
			}
		}
	}
	return done
}

// runningCalls counts the calls of workers, by their name.
func (n *Node) runningCalls(ctx context.Context) (map[string]int, error) {
	status, err := n.orch.Status(ctx, orchestrator.StatusRequest{})
	if err != nil {
		return nil, err
	}
	running := make(map[string]int, len(status.Workers))
	for _, w := range status.Workers {
		running[w.Name] = w.Running
	}
	return running, nil
}

// agentPaths are what agents ask for over HTTP.
func (n *Node) agentPaths() http.Handler {
	return httpapi.Agents(httpapi.AgentsConfig{
		Desk: n.agentDesk, Verify: n.verifyAgent, Renew: roll{tokens: n.tokens}.renew, Logger: n.cfg.logger(),
	})
}

// verifyAgent says which agent speaks with a secret.
func (n *Node) verifyAgent(_ context.Context, secret string) (agents.Member, error) {
	t, err := n.tokens.VerifyToken(secret)
	if err != nil {
		return agents.Member{}, err
	}
	if t.Agent == nil {
		return agents.Member{}, fault.New(fault.Forbidden, "%s is no registered agent", t.Name).WithHint("orch agents register")
	}
	return memberOf(t), nil
}

// roll keeps agents as tokens with a profile.
type roll struct {
	tokens *bus.Tokens
	// callable returns the only tools that a task may call; none when it may call any.
	callable func(ctx context.Context, task events.TaskID) ([]string, error)
}

// agentLife is how long the credential of an agent is good; the agent can renew it before.
const agentLife = 24 * time.Hour

// Enrol implements agents.Credentials. Who is no operator makes agents that work for nobody else.
func (r roll) Enrol(ctx context.Context, reg agents.Registration) (agents.Member, string, error) {
	p := reg.Profile
	all, err := r.tokens.ListTokens(ctx)
	if err != nil {
		return agents.Member{}, "", err
	}
	if p.ID, p.For = events.NewAgentID(time.Now()), ""; !operates(all, reg.By) {
		p.For = reg.By
	}
	in := bus.NewToken{Name: reg.Name, Role: bus.RoleAgent, Actor: cmp.Or(reg.By, "user:unknown"), Life: agentLife, Agent: &p}
	if in.Tools, in.ReadOnly, err = r.reach(ctx, reg); err != nil {
		return agents.Member{}, "", err
	}
	t, secret, err := bus.IssueToken(ctx, r.tokens, in)
	if fault.Has(err, fault.Conflict) {
		err = fault.New(fault.Conflict, "there is an agent, or a token, of the name %s", reg.Name).WithField("agentInfo.name").
			WithHint("choose another name, or remove that one: orch agents remove %s", reg.Name)
	}
	if err != nil {
		return agents.Member{}, "", err
	}
	return memberOf(t), secret, nil
}

// operates reports whether an identity is that of an operator: by a token, or by having none, as people at the command
// line, whom the credential of the bus makes operators.
func operates(all []bus.Token, who string) bool {
	known := strings.HasPrefix(who, agents.Prefix)
	for _, t := range all {
		if identityOf(t).Name != who {
			continue
		}
		if t.Role == bus.RoleOperator {
			return true
		}
		known = true
	}
	return !known
}

// reach is what a new agent sees: no more than the token of who registers it, nor than the task by which that is done. The
// token may have ended meanwhile, and a face may show less than any token says: the task knows.
func (r roll) reach(ctx context.Context, reg agents.Registration) (shown []string, readOnly bool, err error) {
	all, err := r.tokens.ListTokens(ctx)
	if err != nil {
		return nil, false, err
	}
	for _, t := range all {
		if identityOf(t).Name == reg.By && (len(t.Tools) > 0 || t.ReadOnly) {
			shown, readOnly = t.Tools, t.ReadOnly
		}
	}
	if len(shown) > 0 || readOnly {
		return shown, readOnly, nil
	}
	shown, err = r.callable(ctx, reg.Task)
	if fault.Has(err, fault.NotFound) { // it was asked for by no task
		err = nil
	}
	return shown, false, err
}

// renew replaces the credential of an agent.
func (r roll) renew(ctx context.Context, m agents.Member) (httpapi.Credential, error) {
	all, err := r.tokens.ListTokens(ctx)
	if err != nil {
		return httpapi.Credential{}, err
	}
	for _, old := range all {
		if old.ID != m.Key {
			continue
		}
		t, secret, err := bus.IssueToken(ctx, r.tokens, bus.NewToken{
			Name: old.Name, Role: old.Role, Actor: old.CreatedBy, Life: agentLife, Tools: old.Tools, ReadOnly: old.ReadOnly,
			Agent: old.Agent, Replaces: old.ID,
		})
		return httpapi.Credential{Key: t.ID, Secret: secret, ExpiresAt: t.ExpiresAt}, err
	}
	return httpapi.Credential{}, fault.New(fault.Unauthorized, "the credential was revoked")
}

// Members implements agents.Credentials.
func (r roll) Members(ctx context.Context) ([]agents.Member, error) {
	all, err := r.tokens.ListTokens(ctx)
	if err != nil {
		return nil, err
	}
	var members []agents.Member
	for _, t := range all {
		if t.Agent != nil {
			members = append(members, memberOf(t))
		}
	}
	return members, nil
}

// Expel implements agents.Credentials.
func (r roll) Expel(ctx context.Context, m agents.Member, by string) error {
	_, err := r.tokens.RevokeToken(ctx, bus.RevokeToken{Token: m.Key, Actor: by})
	return err
}

func memberOf(t bus.Token) agents.Member {
	return agents.Member{
		Profile: *t.Agent, Name: t.Name, Key: t.ID, RegisteredAt: t.CreatedAt, RegisteredBy: t.CreatedBy, ExpiresAt: t.ExpiresAt,
	}
}

// chain takes calls through the gates for agents: by a worker that bears the name of the agent, and calls no tool.
type chain struct {
	hands *hands
	owner work.Owner

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

// Vet implements agents.Chain.
func (c *chain) Vet(output json.RawMessage) (json.RawMessage, error) {
	w, err := c.worker("agent:")
	if err != nil {
		return nil, err
	}
	return w.Vet(output)
}

func (c *chain) worker(actor string) (*worker.Worker, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.workers[actor]; w != nil {
		return w, nil
	}
	w, err := c.hands.worker(c.owner, actor, nil)
	if err == nil {
		if c.workers == nil {
			c.workers = map[string]*worker.Worker{}
		}
		c.workers[actor] = w
	}
	return w, err
}

// Agents returns what can be asked about the agents of the node.
func (n *Node) Agents() agents.Service { return n.agents }

// reveal shows a new credential to whoever registered the agent, once.
func (n *Node) reveal(ctx context.Context, task events.TaskID, who string, result json.RawMessage) json.RawMessage {
	return onboarding.Reveal(ctx, n.agents, task, who, result)
}

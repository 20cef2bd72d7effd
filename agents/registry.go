package agents

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// Member is a registered agent.
type Member struct {
	Profile

	// Name is unique among registered agents. In the log the agent is "agent:NAME".
	Name string `json:"name"`
	// Key is the id of its credential.
	Key          string    `json:"key"`
	RegisteredAt time.Time `json:"registered_at"`
	RegisteredBy string    `json:"registered_by"`
	ExpiresAt    time.Time `json:"expires_at"`
}

// Actor returns the name of the agent in the log.
func (m *Member) Actor() string { return Prefix + m.Name }

// Prefix is the prefix of agents in the log.
const Prefix = events.AgentPrefix

// Credentials stores agents and the digests of their credentials.
type Credentials interface {
	// Enrol creates an agent and returns the secret of its credential, which is not stored. The agent's permissions do
	// not exceed those of the registrar and of the registering task. CONFLICT when the name is taken.
	Enrol(ctx context.Context, in Registration) (Member, string, error)
	// Members returns all agents, including those with an expired credential.
	Members(ctx context.Context) ([]Member, error)
	// Revoke invalidates the credential of an agent.
	Revoke(ctx context.Context, m Member, by string) error
}

// View is an agent with its status.
type View struct {
	Member

	Status Status `json:"status"`
	// Problem is the message that the agent reported with the status error.
	Problem string `json:"problem,omitempty"`
	Current int    `json:"current_tasks"`
	// Calls are the calls that the agent works on, including calls that it must stop but still reports.
	Calls []RunningCall `json:"calls,omitempty"`
	// URL is the URL of the node's HTTP server, without a path; "" if there is none.
	URL string `json:"url,omitempty"`
	// LastSeen is zero for an agent that has made no request since this node started.
	LastSeen time.Time `json:"last_seen,omitzero"`
	// Uptime is how long the agent has been online; 0 if it is offline.
	Uptime time.Duration `json:"uptime,omitempty"`
	Record Record        `json:"record"`
}

// RunningCall is a call that an agent works on.
type RunningCall struct {
	work.Ref

	// Since is when it was assigned to the agent; zero if unknown.
	Since time.Time `json:"since,omitzero"`
	// Until is its deadline; zero if unknown.
	Until time.Time `json:"until,omitzero"`
	// Ending is true for a call that is no longer assigned to the agent, and that the agent has not stopped yet.
	Ending bool `json:"ending,omitempty"`
}

// Record counts the finished calls of an agent, according to the log.
type Record struct {
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	// Streak counts the failures since the last success.
	Streak int `json:"streak"`
	// Busy is the total duration of its calls.
	Busy time.Duration `json:"busy"`
}

// SuccessRate returns the share of successful calls, 0 to 1; it is 1 for an agent without calls.
func (r Record) SuccessRate() float64 {
	if n := r.Completed + r.Failed; n > 0 {
		return float64(r.Completed) / float64(n)
	}
	return 1
}

// Config configures a Registry.
type Config struct {
	// Credentials is required.
	Credentials Credentials
	// Running returns the calls of agents, by actor. Required.
	Running func(ctx context.Context) (map[string][]RunningCall, error)
	// Records returns the records of agents, by actor; nil for none.
	Records func() map[string]Record
	// URL returns the URL of the node's HTTP server, without a path; nil for none.
	URL func() string
	// Clock returns the current time. Default: time.Now.
	Clock func() time.Time
}

// Registry lists the registered agents and tracks their status. All methods are safe for concurrent use.
type Registry struct {
	cfg Config

	mu sync.Mutex
	// presences maps agent ids to the state of agents that have made a request.
	presences map[string]*presence
	// pendingSecrets are the secrets that wait to be collected.
	pendingSecrets map[registrationKey]pendingSecret
	// swept is the time of the last sweep; onSweep are its hooks.
	swept   time.Time
	onSweep []func() func(Roster)
}

type presence struct {
	// first and last are the times of the first and the newest request since the agent was last offline.
	first, last time.Time
	problem     string
	failing     bool
	// named are the calls in the agent's newest request.
	named []work.Ref
	// left is true when the agent reported that it exits.
	left bool
}

// Roster is the set of registered agents.
type Roster struct {
	// IDs and Actors contain each agent by id and by actor.
	IDs, Actors map[string]bool
}

// sweepEvery is the interval at which the state of removed agents is dropped.
const sweepEvery = time.Minute

// OnSweep registers a hook that drops state of removed agents. A sweep first calls f, which records the agents for
// which it has state. It then reads the roster and calls the function that f returned, which drops the state of the
// recorded agents that are not in the roster. An agent that registers in between is in neither list, so its state is
// kept.
func (r *Registry) OnSweep(f func() func(Roster)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onSweep = append(r.onSweep, f)
}

// sweep drops the state of removed agents if the last sweep is at least sweepEvery ago.
func (r *Registry) sweep(ctx context.Context) {
	r.mu.Lock()
	now := r.cfg.Clock()
	due := now.Sub(r.swept) >= sweepEvery
	if due {
		r.swept = now
	}
	r.mu.Unlock()
	if due {
		r.sweepNow(ctx)
	}
}

// sweepNow drops the state of removed agents. It does nothing when the agents cannot be listed.
func (r *Registry) sweepNow(ctx context.Context) {
	if r.cfg.Credentials == nil {
		return
	}
	r.mu.Lock()
	known, hooks := slices.Collect(maps.Keys(r.presences)), slices.Clone(r.onSweep)
	r.mu.Unlock()
	drops := make([]func(Roster), len(hooks)) // before the members are read: an agent may register meanwhile
	for i, f := range hooks {
		drops[i] = f()
	}
	members, err := r.cfg.Credentials.Members(ctx)
	if err != nil {
		return
	}
	roster := Roster{IDs: make(map[string]bool, len(members)), Actors: make(map[string]bool, len(members))}
	for _, m := range members {
		roster.IDs[m.ID], roster.Actors[m.Actor()] = true, true
	}
	r.mu.Lock()
	for _, id := range known {
		if !roster.IDs[id] {
			delete(r.presences, id)
		}
	}
	r.mu.Unlock()
	for _, drop := range drops {
		drop(roster)
	}
}

// NewRegistry returns a registry.
func NewRegistry(cfg Config) *Registry {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.URL == nil {
		cfg.URL = func() string { return "" }
	}
	if cfg.Records == nil {
		cfg.Records = func() map[string]Record { return nil }
	}
	return &Registry{cfg: cfg, presences: map[string]*presence{}, pendingSecrets: map[registrationKey]pendingSecret{}}
}

// find returns the agent with an id or a name, or NOT_FOUND.
func (r *Registry) find(ctx context.Context, text string) (Member, error) {
	members, err := r.cfg.Credentials.Members(ctx)
	if err != nil {
		return Member{}, err
	}
	for _, matches := range []func(Member) bool{ // a name may look like the id of another agent
		func(m Member) bool { return m.ID == text }, func(m Member) bool { return m.Name == text },
	} {
		if i := slices.IndexFunc(members, matches); i >= 0 {
			return members[i], nil
		}
	}
	return Member{}, fault.New(fault.NotFound, "there is no agent %q", clip(text)).WithField("agentId").WithHint("see: orch agents")
}

// Remove implements Service.
func (r *Registry) Remove(ctx context.Context, in Removal) (Member, error) {
	m, err := r.find(ctx, in.Agent)
	if err != nil {
		return Member{}, err
	}
	if err := r.cfg.Credentials.Revoke(ctx, m, in.By); err != nil {
		return Member{}, err
	}
	r.sweepNow(ctx)
	return m, nil
}

// MarkSeen records a request of an agent. failing and problem are its reported state.
func (r *Registry) MarkSeen(id string, failing bool, problem string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Clock()
	h := r.presences[id]
	if h == nil || h.left || now.Sub(h.last) >= OfflineAfter {
		h = &presence{first: now}
		r.presences[id] = h
	}
	h.last, h.failing, h.problem = now, failing, problem
}

// setCalls records the calls that an agent reports to have.
func (r *Registry) setCalls(id string, calls []work.Ref) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.presences[id]; h != nil {
		h.named = calls
	}
}

// removeCall records that an agent has ended a call.
func (r *Registry) removeCall(id string, call work.Ref) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.presences[id]; h != nil {
		h.named = slices.DeleteFunc(slices.Clone(h.named), func(ref work.Ref) bool { return ref == call })
	}
}

// markLeft records that an agent has exited cleanly.
func (r *Registry) markLeft(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.presences[id]; h != nil {
		h.left = true
	}
}

// markPresent records a request of an agent and keeps its reported state.
func (r *Registry) markPresent(id string) {
	r.mu.Lock()
	failing, problem := false, ""
	if h := r.presences[id]; h != nil {
		failing, problem = h.failing, h.problem
	}
	r.mu.Unlock()
	r.MarkSeen(id, failing, problem)
}

// Agents implements Service.
func (r *Registry) Agents(ctx context.Context) ([]View, error) {
	members, err := r.cfg.Credentials.Members(ctx)
	if err != nil {
		return nil, err
	}
	running, err := r.cfg.Running(ctx)
	if err != nil {
		return nil, err
	}
	records := r.cfg.Records()
	views := make([]View, len(members))
	r.mu.Lock()
	for i, m := range members {
		views[i] = r.view(m, running[m.Actor()], records[m.Actor()])
	}
	r.mu.Unlock()
	slices.SortFunc(views, func(a, b View) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID)) })
	return views, nil
}

func (r *Registry) view(m Member, calls []RunningCall, record Record) View {
	v := View{Member: m, Calls: calls, Record: record, URL: r.cfg.URL()}
	load := Load{Silence: OfflineAfter, Streak: record.Streak, Max: m.MaxTasks}
	now := r.cfg.Clock()
	if h := r.presences[m.ID]; h != nil {
		v.LastSeen, v.Problem = h.last, h.problem
		load.Silence, load.Failing = now.Sub(h.last), h.failing
		if h.left {
			load.Silence = OfflineAfter
		}
	}
	if !m.ExpiresAt.IsZero() && !now.Before(m.ExpiresAt) {
		load.Silence = OfflineAfter // the agent can make no more requests
	}
	if load.Silence < OfflineAfter {
		v.Calls = withEnding(calls, r.presences[m.ID].named)
	}
	v.Current, load.Current = len(v.Calls), len(v.Calls)
	if v.Status = load.Status(); v.Status != Offline {
		v.Uptime = now.Sub(r.presences[m.ID].first)
	}
	return v
}

// withEnding returns the calls assigned to an agent, and the calls that it still reports although they are no longer
// assigned to it.
func withEnding(calls []RunningCall, named []work.Ref) []RunningCall {
	all := slices.Clone(calls)
	for _, ref := range named {
		if !slices.ContainsFunc(calls, func(c RunningCall) bool { return c.Ref == ref }) {
			all = append(all, RunningCall{Ref: ref, Ending: true})
		}
	}
	return all
}

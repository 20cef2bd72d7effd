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

	// Name is unique among those that are registered. In the log the agent is "agent:NAME".
	Name string `json:"name"`
	// Key is the id of its credential.
	Key          string    `json:"key"`
	RegisteredAt time.Time `json:"registered_at"`
	RegisteredBy string    `json:"registered_by"`
	ExpiresAt    time.Time `json:"expires_at"`
}

// Actor is who the agent is in the log.
func (m *Member) Actor() string { return Prefix + m.Name }

// Prefix begins the names of agents in the log.
const Prefix = events.AgentPrefix

// Credentials is where agents and the digests of their credentials are kept.
type Credentials interface {
	// Enrol makes an agent with a credential whose secret is returned this one time. It reaches no further than who asks
	// for it, nor than the task that does. CONFLICT when there is an agent of the name.
	Enrol(ctx context.Context, in Registration) (Member, string, error)
	// Members returns all agents, also those whose credential has expired.
	Members(ctx context.Context) ([]Member, error)
	// Revoke refuses an agent from now on.
	Revoke(ctx context.Context, m Member, by string) error
}

// View is an agent as others see it.
type View struct {
	Member

	Status Status `json:"status"`
	// Problem is what the agent has reported of itself with the status error.
	Problem string `json:"problem,omitempty"`
	Current int    `json:"current_tasks"`
	// Calls are those that it has, and those that it was told to end and still names.
	Calls []HeldCall `json:"calls,omitempty"`
	// URL is where the node serves HTTP, without a path; "" when it does not.
	URL string `json:"url,omitempty"`
	// LastSeen is zero for an agent that this node has never heard of since it started.
	LastSeen time.Time `json:"last_seen,omitzero"`
	// Uptime is how long it has been there without being offline; 0 for one that is.
	Uptime time.Duration `json:"uptime,omitempty"`
	Record Record        `json:"record"`
}

// HeldCall is a call in the hands of an agent.
type HeldCall struct {
	work.Ref

	// Since is when it was given to the agent; zero when that is not known.
	Since time.Time `json:"since,omitzero"`
	// Until is when its time is over; zero when that is not known.
	Until time.Time `json:"until,omitzero"`
	// Ending is set for a call that is the agent's no longer, and that it has not ended yet.
	Ending bool `json:"ending,omitempty"`
}

// Record is what an agent has done, as the log tells.
type Record struct {
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	// Streak counts the failures since the last success.
	Streak int `json:"streak"`
	// Busy is the time that its calls took together.
	Busy time.Duration `json:"busy"`
}

// SuccessRate is 0 to 1, and 1 for an agent that has done nothing yet.
func (r Record) SuccessRate() float64 {
	if n := r.Completed + r.Failed; n > 0 {
		return float64(r.Completed) / float64(n)
	}
	return 1
}

// Config says what a registry works with.
type Config struct {
	// Credentials is required.
	Credentials Credentials
	// Running returns the calls that the agents have, by actor.
	Running func(ctx context.Context) (map[string][]HeldCall, error)
	// Records returns what the agents have done, by actor; nil for nothing.
	Records func() map[string]Record
	// URL is where the node serves HTTP, without a path; nil for nowhere.
	URL func() string
	// Clock is the time. Default: time.Now.
	Clock func() time.Time
}

// Registry knows the agents, and how they are. All methods are safe for concurrent use.
type Registry struct {
	cfg Config

	mu sync.Mutex
	// presences holds what is known of agents that were heard of, by id.
	presences map[string]*presence
	// pendingSecrets wait to be collected.
	pendingSecrets map[registrationKey]pendingSecret
	// swept is when what belongs to agents that are gone was last dropped, onSweep who is told of that.
	swept   time.Time
	onSweep []func() func(Living)
}

type presence struct {
	// first and last are when the agent was heard of since it was last offline.
	first, last time.Time
	problem     string
	failing     bool
	// named are the calls that the agent has named last.
	named []work.Ref
	// left is set when the agent has said that it ends.
	left bool
}

// Living are the agents that there are.
type Living struct {
	// IDs and Actors hold true for each of them.
	IDs, Actors map[string]bool
}

// sweepEvery is how often what belongs to agents that are gone is dropped.
const sweepEvery = time.Minute

// OnSweep has a function called now and then, by which whoever keeps something of agents drops that of those who are gone.
// It notes of whom something is kept, and returns what drops that of those of them who are not among the living. Who comes
// in between is in neither list.
func (r *Registry) OnSweep(f func() func(Living)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onSweep = append(r.onSweep, f)
}

// sweep drops what belongs to agents that are gone, unless that was done lately.
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

// sweepNow drops what belongs to agents that are gone. Where they cannot be listed it is done another time.
func (r *Registry) sweepNow(ctx context.Context) {
	if r.cfg.Credentials == nil {
		return
	}
	r.mu.Lock()
	known, told := slices.Collect(maps.Keys(r.presences)), slices.Clone(r.onSweep)
	r.mu.Unlock()
	drops := make([]func(Living), len(told)) // known before the members are read: an agent may come meanwhile
	for i, f := range told {
		drops[i] = f()
	}
	members, err := r.cfg.Credentials.Members(ctx)
	if err != nil {
		return
	}
	living := Living{IDs: make(map[string]bool, len(members)), Actors: make(map[string]bool, len(members))}
	for _, m := range members {
		living.IDs[m.ID], living.Actors[m.Actor()] = true, true
	}
	r.mu.Lock()
	for _, id := range known {
		if !living.IDs[id] {
			delete(r.presences, id)
		}
	}
	r.mu.Unlock()
	for _, drop := range drops {
		drop(living)
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

// find returns the agent of an id or a name. NOT_FOUND.
func (r *Registry) find(ctx context.Context, text string) (Member, error) {
	members, err := r.cfg.Credentials.Members(ctx)
	if err != nil {
		return Member{}, err
	}
	for _, is := range []func(Member) bool{ // a name may look like the id of another agent
		func(m Member) bool { return m.ID == text }, func(m Member) bool { return m.Name == text },
	} {
		if i := slices.IndexFunc(members, is); i >= 0 {
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

// MarkSeen notes that an agent was heard of. problem is what it reports of itself; "" for nothing.
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

// names notes which calls an agent says that it has.
func (r *Registry) names(id string, calls []work.Ref) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.presences[id]; h != nil {
		h.named = calls
	}
}

// reported notes that an agent has ended a call.
func (r *Registry) reported(id string, call work.Ref) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.presences[id]; h != nil {
		h.named = slices.DeleteFunc(slices.Clone(h.named), func(ref work.Ref) bool { return ref == call })
	}
}

// leave notes that an agent has ended in order.
func (r *Registry) leave(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.presences[id]; h != nil {
		h.left = true
	}
}

// touch notes that an agent is there, and leaves what it has reported.
func (r *Registry) touch(id string) {
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

func (r *Registry) view(m Member, calls []HeldCall, record Record) View {
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
		load.Silence = OfflineAfter // nobody can speak for it
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

// withEnding adds to the calls of an agent those that it names and that are not its own any more.
func withEnding(calls []HeldCall, named []work.Ref) []HeldCall {
	all := slices.Clone(calls)
	for _, ref := range named {
		if !slices.ContainsFunc(calls, func(c HeldCall) bool { return c.Ref == ref }) {
			all = append(all, HeldCall{Ref: ref, Ending: true})
		}
	}
	return all
}

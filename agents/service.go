package agents

import (
	"context"
	"maps"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Service is what can be asked about agents, here or of a node elsewhere.
type Service interface {
	// Register makes an agent (S3-085…S3-088). The secret of its credential is kept for a while, to be collected once.
	// CONFLICT when there is an agent of the name, QUOTA_EXCEEDED when too many secrets are kept, and the errors of
	// Profile.Check.
	Register(ctx context.Context, in Registration) (Registered, error)
	// Collect returns the secret of a registration to whoever asked for that, once. NOT_FOUND.
	Collect(ctx context.Context, in Collection) (Collected, error)
	// Agents returns all agents, by name.
	Agents(ctx context.Context) ([]View, error)
	// Remove takes an agent out: its credential is refused from now on, and what it was given goes to others when its
	// lease ends. NOT_FOUND.
	Remove(ctx context.Context, in Removal) (Member, error)
}

// Registration asks for an agent.
type Registration struct {
	Name    string  `json:"name"`
	Profile Profile `json:"profile"`
	// Task is the one that asks, By who it acts for.
	Task events.TaskID `json:"task"`
	By   string        `json:"by"`
}

// Registered is a new agent.
type Registered struct {
	Member

	// URL is where the node serves HTTP, without a path; "" when it does not.
	URL string `json:"url,omitempty"`
}

// Collection asks for the secret of a registration.
type Collection struct {
	Task events.TaskID `json:"task"`
	// Agent is the id of the agent; empty for the only one of the task.
	Agent string `json:"agent,omitempty"`
	By    string `json:"by"`
}

// Collected is the secret of a registration.
type Collected struct {
	// Key is the id of the credential.
	Key    string `json:"key"`
	Secret string `json:"secret"`
}

// Removal asks for the end of an agent.
type Removal struct {
	// Agent is an id or a name.
	Agent string `json:"agent"`
	By    string `json:"by"`
}

// ActorFields returns the field that names who acts.
func (r *Registration) ActorFields() []*string { return []*string{&r.By} }

// ActorFields returns the field that names who acts.
func (c *Collection) ActorFields() []*string { return []*string{&c.By} }

// ActorFields returns the field that names who acts.
func (r *Removal) ActorFields() []*string { return []*string{&r.By} }

// registrationKey is where a secret is kept: a task may register many agents.
type registrationKey struct {
	task  events.TaskID
	agent string
}

// pendingSecret is a secret that was not collected yet.
type pendingSecret struct {
	key, secret, by string
	until           time.Time
}

const (
	// secretTTL is how long a secret can be collected, maxSecrets how many there are at most.
	secretTTL  = 10 * time.Minute
	maxSecrets = 1000
)

// Register implements Service.
func (r *Registry) Register(ctx context.Context, in Registration) (Registered, error) {
	if err := in.Profile.Check(in.Name); err != nil {
		return Registered{}, err
	}
	if err := r.checkSecretQuota(); err != nil {
		return Registered{}, err
	}
	m, secret, err := r.cfg.Credentials.Enrol(ctx, in)
	if err != nil {
		return Registered{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pendingSecrets[registrationKey{in.Task, m.ID}] = pendingSecret{m.Key, secret, in.By, r.cfg.Clock().Add(secretTTL)}
	return Registered{Member: m, URL: r.cfg.URL()}, nil
}

// checkSecretQuota returns QUOTA_EXCEEDED when no secret can be kept: an agent without one could do nothing, and would have the name.
func (r *Registry) checkSecretQuota() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Clock()
	maps.DeleteFunc(r.pendingSecrets, func(_ registrationKey, k pendingSecret) bool { return now.After(k.until) })
	if len(r.pendingSecrets) >= maxSecrets {
		return fault.New(fault.QuotaExceeded, "the secrets of %d agents wait to be collected", len(r.pendingSecrets)).WithHint("try again in %s", secretTTL)
	}
	return nil
}

// Collect implements Service.
func (r *Registry) Collect(_ context.Context, in Collection) (Collected, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.registrationKeyOf(in)
	k, ok := r.pendingSecrets[at]
	if !ok || k.by != in.By || r.cfg.Clock().After(k.until) {
		return Collected{}, fault.New(fault.NotFound, "there is no secret of %s to collect", in.Task).
			WithHint("it is shown once, within %s; register the agent anew", secretTTL)
	}
	delete(r.pendingSecrets, at)
	return Collected{k.key, k.secret}, nil
}

// registrationKeyOf is where the secret is that somebody asks for; of several none is meant without the id of an agent. The lock is
// held.
func (r *Registry) registrationKeyOf(in Collection) registrationKey {
	at := registrationKey{in.Task, in.Agent}
	if in.Agent != "" {
		return at
	}
	found := 0
	for mark := range r.pendingSecrets {
		if mark.task == in.Task {
			at, found = mark, found+1
		}
	}
	if found > 1 {
		return registrationKey{task: in.Task}
	}
	return at
}

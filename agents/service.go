package agents

import (
	"context"
	"maps"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Service manages agents, in this process or on a remote node.
type Service interface {
	// Register registers an agent (S3-085…S3-088). The secret of its credential is stored for ten minutes, and Collect
	// returns it once. Errors: CONFLICT when the name is taken, QUOTA_EXCEEDED when too many secrets are stored, and
	// the errors of Profile.Check.
	Register(ctx context.Context, in Registration) (Registered, error)
	// Collect returns the secret of a registration, once, to the identity that registered the agent; else NOT_FOUND.
	Collect(ctx context.Context, in Collection) (Collected, error)
	// Agents returns all agents, sorted by name.
	Agents(ctx context.Context) ([]View, error)
	// Remove removes an agent, or returns NOT_FOUND. Its credential becomes invalid, and its calls go to other agents
	// when their leases expire.
	Remove(ctx context.Context, in Removal) (Member, error)
}

// Registration is a request to register an agent.
type Registration struct {
	Name    string  `json:"name"`
	Profile Profile `json:"profile"`
	// Task is the task that makes the request. By is the identity on whose behalf the task acts.
	Task events.TaskID `json:"task"`
	By   string        `json:"by"`
}

// Registered is a newly registered agent.
type Registered struct {
	Member

	// URL is the URL of the node's HTTP server, without a path; "" if there is none.
	URL string `json:"url,omitempty"`
}

// Collection is a request for the secret of a registration.
type Collection struct {
	Task events.TaskID `json:"task"`
	// Agent is the id of the agent; it may be empty if the task registered only one.
	Agent string `json:"agent,omitempty"`
	By    string `json:"by"`
}

// Collected is the secret of a registration.
type Collected struct {
	// Key is the id of the credential.
	Key    string `json:"key"`
	Secret string `json:"secret"`
}

// Removal is a request to remove an agent.
type Removal struct {
	// Agent is an id or a name.
	Agent string `json:"agent"`
	By    string `json:"by"`
}

// ActorFields returns the fields that name the actor of the request.
func (r *Registration) ActorFields() []*string { return []*string{&r.By} }

// ActorFields returns the fields that name the actor of the request.
func (c *Collection) ActorFields() []*string { return []*string{&c.By} }

// ActorFields returns the fields that name the actor of the request.
func (r *Removal) ActorFields() []*string { return []*string{&r.By} }

// registrationKey identifies a stored secret: a task may register several agents.
type registrationKey struct {
	task  events.TaskID
	agent string
}

// pendingSecret is a secret that has not been collected yet.
type pendingSecret struct {
	key, secret, by string
	until           time.Time
}

const (
	// secretTTL is how long a secret can be collected. maxSecrets bounds the stored secrets.
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

// checkSecretQuota returns QUOTA_EXCEEDED when no further secret can be stored: an agent without a secret would be
// useless and occupy its name.
func (r *Registry) checkSecretQuota() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Clock()
	maps.DeleteFunc(r.pendingSecrets, func(_ registrationKey, pending pendingSecret) bool { return now.After(pending.until) })
	if len(r.pendingSecrets) >= maxSecrets {
		return fault.New(fault.QuotaExceeded, "the secrets of %d agents wait to be collected", len(r.pendingSecrets)).WithHint("try again in %s", secretTTL)
	}
	return nil
}

// Collect implements Service.
func (r *Registry) Collect(_ context.Context, in Collection) (Collected, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := r.registrationKeyOf(in)
	pending, ok := r.pendingSecrets[key]
	if !ok || pending.by != in.By || r.cfg.Clock().After(pending.until) {
		return Collected{}, fault.New(fault.NotFound, "there is no secret of %s to collect", in.Task).
			WithHint("it is shown once, within %s; register the agent anew", secretTTL)
	}
	delete(r.pendingSecrets, key)
	return Collected{pending.key, pending.secret}, nil
}

// registrationKeyOf returns the key of the requested secret. Without the id of an agent it finds a secret only if the
// task has exactly one. r.mu must be held.
func (r *Registry) registrationKeyOf(in Collection) registrationKey {
	found := registrationKey{in.Task, in.Agent}
	if in.Agent != "" {
		return found
	}
	matches := 0
	for key := range r.pendingSecrets {
		if key.task == in.Task {
			found, matches = key, matches+1
		}
	}
	if matches > 1 {
		return registrationKey{task: in.Task}
	}
	return found
}

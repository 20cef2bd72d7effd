package agents

import (
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/work"
)

// Profile is the self-description of an agent (S3-085).
type Profile struct {
	// ID is "agent-" and a ULID in lower case. It is never reused.
	ID          string `json:"id"`
	Type        string `json:"type"`
	Version     string `json:"version"`
	Description string `json:"description,omitempty"`
	// Creator is the author that the agent claims. Member.RegisteredBy is the identity that registered the agent.
	Creator      string       `json:"creator,omitempty"`
	Capabilities []Capability `json:"capabilities"`
	// MaxTasks is how many calls the agent works on concurrently.
	MaxTasks int `json:"max_tasks"`
	// Timeout is the time limit of a call. MaxRetries is how often a failed call that may be repeated is retried,
	// Backoff the first delay. The settings of a plan take precedence.
	Timeout    time.Duration `json:"timeout"`
	MaxRetries int           `json:"max_retries"`
	Backoff    time.Duration `json:"backoff"`
	// For is the only identity for which the agent works: its registrar, if that is not an operator. Empty means
	// everybody.
	For string `json:"for,omitempty"`
}

// Capability is a kind of work that an agent can do.
type Capability struct {
	Name     string `json:"name"`
	Category string `json:"category"`
	// Parameters is a free-form JSON object. Its inputSchema is the JSON Schema of the data of calls for the
	// capability.
	Parameters map[string]any `json:"parameters,omitempty"`
}

// Types returns the types of agents (S3-085).
func Types() []string {
	return []string{"researcher", "developer", "coordinator", "analyst", "specialist"}
}

// The bounds of a profile.
const (
	// MaxCapabilities bounds the capabilities of an agent, MaxTasks its concurrent calls.
	MaxCapabilities = 64
	MaxTasks        = 1000
	maxCapability   = 64
	maxDescription  = 500
	maxCreator      = 256
	minTimeout      = time.Second
	maxTimeout      = 24 * time.Hour
	maxRetries      = 100
)

var (
	nameForm    = regexp.MustCompile(`^[a-zA-Z0-9_-]{3,50}$`)
	versionForm = regexp.MustCompile(`^\d+\.\d+\.\d+$`)
)

// IsName reports whether name is a valid name of an agent.
func IsName(name string) bool { return nameForm.MatchString(name) }

// Check validates a profile and the name of its agent. Errors are INVALID_FORMAT, REQUIRED_FIELD and VALIDATION_ERROR
// with the invalid field.
func (p *Profile) Check(name string) error {
	switch {
	case !IsName(name):
		return fault.New(fault.InvalidFormat, "%q is not a valid name of an agent", clip(name)).WithField("agentInfo.name").
			WithHint("use 3 to 50 letters, digits, - and _")
	case !slices.Contains(Types(), p.Type):
		return fault.New(fault.ValidationError, "%q is not a type of agents", clip(p.Type)).WithField("agentInfo.type").
			WithHint("use one of %s", strings.Join(Types(), ", "))
	case !versionForm.MatchString(p.Version):
		return fault.New(fault.InvalidFormat, "%q is not a version", clip(p.Version)).WithField("agentInfo.version").WithHint("write it as 1.0.0")
	case utf8.RuneCountInString(p.Description) > maxDescription:
		return fault.New(fault.ValidationError, "has more than %d characters", maxDescription).WithField("agentInfo.description")
	case utf8.RuneCountInString(p.Creator) > maxCreator:
		return fault.New(fault.ValidationError, "has more than %d characters", maxCreator).WithField("agentInfo.creator")
	}
	if err := p.checkCapabilities(); err != nil {
		return err
	}
	return p.checkLimits()
}

func (p *Profile) checkCapabilities() error {
	switch n := len(p.Capabilities); {
	case n == 0:
		return fault.New(fault.RequiredField, "an agent has at least one capability").WithField("capabilities")
	case n > MaxCapabilities:
		return fault.New(fault.ValidationError, "there are %d capabilities, the limit is %d", n, MaxCapabilities).WithField("capabilities")
	}
	for _, c := range p.Capabilities {
		if !isCapability(c.Name) || !isCapability(c.Category) {
			return fault.New(fault.InvalidFormat, "a capability has a name and a category of 1 to %d bytes", maxCapability).WithField("capabilities")
		}
		if err := c.checkSchema(); err != nil {
			return err
		}
	}
	return nil
}

// isCapability reports whether s is a valid name or category of a capability.
func isCapability(s string) bool {
	return s != "" && len(s) <= maxCapability && !strings.ContainsFunc(s, isControl)
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func (p *Profile) checkLimits() error {
	switch {
	case p.MaxTasks < 1 || p.MaxTasks > MaxTasks:
		return fault.New(fault.ValidationError, "must be 1 to %d", MaxTasks).WithField("configuration.maxConcurrentTasks")
	case p.Timeout < minTimeout || p.Timeout > maxTimeout:
		return fault.New(fault.ValidationError, "must be %d to %d ms", minTimeout.Milliseconds(), maxTimeout.Milliseconds()).WithField("configuration.timeout")
	case p.MaxRetries < 0 || p.MaxRetries > maxRetries:
		return fault.New(fault.ValidationError, "must be 0 to %d", maxRetries).WithField("configuration.retryPolicy.maxRetries")
	case p.Backoff < 0 || p.Backoff > maxTimeout:
		return fault.New(fault.ValidationError, "must be 0 to %d ms", maxTimeout.Milliseconds()).WithField("configuration.retryPolicy.backoffMs")
	}
	return nil
}

// retry returns the retry settings of the agent.
func (p *Profile) retry() *work.Retry { return &work.Retry{Max: p.MaxRetries, Backoff: p.Backoff} }

// CapabilityNames returns the sorted names of the capabilities without duplicates.
func (p *Profile) CapabilityNames() []string {
	names := make([]string, len(p.Capabilities))
	for i, c := range p.Capabilities {
		names[i] = c.Name
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func clip(s string) string { return fault.Clip(s, 80) }

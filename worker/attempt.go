package worker

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/internal/secret"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// attempt is one call on its way through this worker.
type attempt struct {
	work.Call
	tool tools.Tool
	spec tools.Spec
	args json.RawMessage
	// secrets are those of the call, nil for none; given are the arguments with them, nil for the same.
	secrets atomic.Pointer[secret.Set]
	given   json.RawMessage
	paths   map[string]string
	env     tools.Env
	// asked is the call as the policy sees it.
	asked policy.Call
	// root is that of the worker without the workspaces of other identities.
	root *pathguard.Root
	// began is when the call was taken, later when its tool was called.
	began time.Time
	// cancel ends the context of the call; finish takes the outcome, once.
	cancel context.CancelCauseFunc
	finish func(work.Outcome)

	// begun is when the time of the call began: when the owner was asked to note its start, or else its tool was called.
	begun time.Time
	// renewed is when the lease was last renewed, in uptime.
	renewed atomic.Int64
	// inTool is set once the tool was called, over is closed when that has returned or was given up.
	inTool atomic.Bool
	over   chan struct{}

	// settled is set by who makes the outcome: the call itself, or who gives it up.
	settled atomic.Bool
	// dropped means that nobody wants the outcome.
	dropped atomic.Bool
	// progress is the newest, told the one that was sent last.
	progress, told atomic.Pointer[work.Progress]
	// tail is the newest output of its programs.
	tail tail
	// effect is that of this very call, nil before it is known and where it is that of the contract.
	effect atomic.Pointer[tools.Effect]

	mu    sync.Mutex
	facts []events.Event
	child *tools.Spawn
}

// impact lists what the call is about to change.
func (a *attempt) impact() []string {
	var names []string
	for _, field := range slices.Sorted(maps.Keys(a.paths)) {
		names = append(names, a.paths[field])
	}
	for _, target := range a.asked.Intent.Targets {
		names = append(names, target.Name)
	}
	for _, s := range a.Secrets {
		names = append(names, "secret "+s.Name+" from "+s.Source)
	}
	return names
}

// ordered reports whether the owner takes the call for one with effects for a reason that is not the contract of
// the tool: the plan, or a newer contract.
func (a *attempt) ordered() bool {
	owners := tools.Effect(a.Effect)
	return owners.AtMostOnce() && (a.Declared || owners != a.spec.Effect)
}

// resolved returns the effect of this very call, "" before it is known and where it is that of the contract.
func (a *attempt) resolved() string {
	if effect := a.effect.Load(); effect != nil {
		return string(*effect)
	}
	return ""
}

// record keeps a fact for the case that the call succeeds.
func (a *attempt) record(kind events.Kind, data events.Payload) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.facts) <= maxFacts {
		a.facts = append(a.facts, events.Event{Kind: kind, Data: data})
	}
}

// spawn keeps the child that the call asks for, for the case that it succeeds.
func (a *attempt) spawn(s tools.Spawn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.child = &s
}

// takeChild returns the child that the call has asked for, nil for none.
func (a *attempt) takeChild() *tools.Spawn {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.child
}

// takeFacts returns the facts so far. What a tool records later is lost.
func (a *attempt) takeFacts() []events.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	facts := a.facts
	a.facts = nil
	return facts
}

// begin begins the time of the call, once.
func (a *attempt) begin() {
	if a.begun.IsZero() {
		a.begun = time.Now()
	}
}

func (a *attempt) timeout() time.Duration {
	switch {
	case a.Timeout > 0:
		return a.Timeout
	case a.spec.Timeout > 0:
		return a.spec.Timeout
	default:
		return work.DefaultTimeout
	}
}

// place is what the notes in the workspace of the call say that it belongs to.
func (a *attempt) place() string {
	if a.Session != "" {
		return "session"
	}
	return a.Name
}

// untold reports whether there is progress that the owner does not know yet.
func (a *attempt) untold() bool {
	return a.progress.Load() != a.told.Load() || a.tail.watched.Load()
}

// about is what a line of the log says about an attempt; cause may be nil.
func (a *attempt) about(cause error) []slog.Attr {
	attrs := []slog.Attr{
		slog.String("task", string(a.Task)), slog.String("step", a.Step), slog.Int("attempt", a.Attempt), slog.String("tool", a.Tool),
	}
	if cause != nil {
		attrs = append(attrs, slog.Any("cause", cause))
	}
	return attrs
}

// withSecrets returns the arguments with the values of the secrets.
func (a *attempt) withSecrets(values map[string]string) (json.RawMessage, error) {
	var args map[string]json.RawMessage
	if err := json.Unmarshal(a.args, &args); err != nil {
		return nil, fault.Wrap(fault.InvalidFormat, err, "the arguments are no valid JSON")
	}
	for _, s := range a.Secrets {
		var entries map[string]string
		_, takes := a.spec.Secrets[s.Field]
		if err := json.Unmarshal(args[s.Field], &entries); err != nil || !takes || entries[s.Key] != s.Text {
			return nil, noPlace(s)
		}
		entries[s.Key] = s.Prefix + values[s.Name]
		raw, err := json.Marshal(entries)
		if err != nil {
			return nil, noPlace(s)
		}
		args[s.Field] = raw
	}
	return json.Marshal(args)
}

// arguments are what the tool is called with.
func (a *attempt) arguments() json.RawMessage {
	if a.given != nil {
		return a.given
	}
	return a.args
}

// guardObeyed returns what moves the places out of the project that a call has made and that make git or orch run or obey something:
// PROTECTED_PATH says where the first of them is then. A call that a person has approved may make them.
func (a *attempt) guardObeyed() (ended func() error) {
	if a.env.Approval != "" || len(a.env.Writable) == 0 {
		return func() error { return nil }
	}
	before := a.obeyed(a.env.Repositories)
	return func() error {
		working := filepath.Dir(a.env.Workspace)
		now := a.obeyed(func(place string) []string { return tools.RepositoriesIn(place, working) })
		var first error
		for _, path := range now {
			if slices.Contains(before, path) || plainRepository(path, before) {
				continue
			}
			if err := a.setAside(path); first == nil {
				first = err
			}
		}
		return first
	}
}

// obeyed lists what git and orch obey in the project: repositories, what leads those to other settings, and settings of orch.
func (a *attempt) obeyed(repositories func(place string) []string) (found []string) {
	for _, place := range a.env.Writable {
		candidates := []string{filepath.Join(place, ".orch")}
		for _, repository := range repositories(place) {
			found = append(found, repository)
			candidates = append(candidates, filepath.Join(repository, "commondir"), filepath.Join(repository, "config.worktree"))
		}
		for _, path := range candidates {
			if _, err := os.Lstat(path); err == nil {
				found = append(found, path)
			}
		}
	}
	return found
}

func (a *attempt) setAside(path string) error {
	aside := filepath.Join(a.env.Workspace, "temp", "set-aside-"+rand.Text()+filepath.Base(path))
	if err := os.Rename(path, aside); err != nil {
		return fault.New(fault.ProtectedPath, "the call has made %s, which git or orch would obey, and it cannot be moved away: %w", path, err)
	}
	return fault.New(fault.ProtectedPath, "the call has made %s, which git or orch would obey; it lies in %s now", path, aside).
		WithHint("make a repository with git init, in a command of its own")
}

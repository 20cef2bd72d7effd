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

// attempt is one call in this worker.
type attempt struct {
	*work.Call
	tool tools.Tool
	spec *tools.Spec
	args json.RawMessage
	// secrets are the secrets of the call, nil for none. argsWithSecrets are the arguments with their values, nil without secrets.
	secrets         atomic.Pointer[secret.Set]
	argsWithSecrets json.RawMessage
	// paths maps the path fields of the arguments to absolute paths.
	paths map[string]string
	env   tools.Env
	// policyCall is the call as the policy sees it.
	policyCall policy.Call
	// root is the root of the worker without the workspaces of other identities.
	root *pathguard.Root
	// startedAt is when the call was received, or, once its tool was called, when that happened.
	startedAt time.Time
	// cancel ends the context of the call. finish receives the outcome, once.
	cancel context.CancelCauseFunc
	finish func(work.Outcome)

	// clockStart is when the time limit of the call started: when Start was sent to the owner, or else when its tool was called.
	clockStart time.Time
	// renewed is when the lease was last renewed, in uptime.
	renewed atomic.Int64
	// inTool is set once the tool was called. ended is closed when the call has ended: its tool has returned, was abandoned, or
	// was never called.
	inTool atomic.Bool
	ended  chan struct{}

	// concluded is set by whoever produces the outcome: the call itself, or the code that abandons it.
	concluded atomic.Bool
	// dropped means that the outcome must not be reported.
	dropped atomic.Bool
	// progress is the newest progress, sentProgress the last one that was sent.
	progress, sentProgress atomic.Pointer[work.Progress]
	// tail is the newest output of its programs.
	tail tail
	// effect is the effect of this particular call, nil while it is unknown or if it equals the effect of the tool.
	effect atomic.Pointer[tools.Effect]

	mu    sync.Mutex
	facts []events.Event
	child *tools.Spawn
}

// impact lists the names of the paths, targets and secrets that the call is about to use.
func (a *attempt) impact() []string {
	var names []string
	for _, field := range slices.Sorted(maps.Keys(a.paths)) {
		names = append(names, a.paths[field])
	}
	for _, target := range a.policyCall.Intent.Targets {
		names = append(names, target.Name)
	}
	for _, s := range a.Secrets {
		names = append(names, "secret "+s.Name+" from "+s.Source)
	}
	return names
}

// ownerAssumesEffects reports whether the owner assumes effects that the tool's own spec does not declare, because of the plan
// or of a newer spec.
func (a *attempt) ownerAssumesEffects() bool {
	owners := tools.Effect(a.Effect)
	return owners.AtMostOnce() && (a.Declared || owners != a.spec.Effect)
}

// resolvedEffect returns the effect of this particular call, "" while it is unknown or if it equals the effect of the tool.
func (a *attempt) resolvedEffect() string {
	if effect := a.effect.Load(); effect != nil {
		return string(*effect)
	}
	return ""
}

// record adds a fact, which is reported if the call succeeds.
func (a *attempt) record(kind events.Kind, data events.Payload) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.facts) <= maxFacts {
		a.facts = append(a.facts, events.Event{Kind: kind, Data: data})
	}
}

// spawn sets the child of the call, which is reported if the call succeeds.
func (a *attempt) spawn(s tools.Spawn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.child = &s
}

// spawnedChild returns the child that the call has set, nil for none.
func (a *attempt) spawnedChild() *tools.Spawn {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.child
}

// takeFacts removes and returns the facts so far. Facts that the tool records later are lost.
func (a *attempt) takeFacts() []events.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	facts := a.facts
	a.facts = nil
	return facts
}

// startClock starts the time limit of the call, once.
func (a *attempt) startClock() {
	if a.clockStart.IsZero() {
		a.clockStart = time.Now()
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

// noteContext returns the context of the call for the notes in its workspace.
func (a *attempt) noteContext() string {
	if a.Session != "" {
		return "session"
	}
	return a.Name
}

// unsent reports whether there is progress that was not sent to the owner.
func (a *attempt) unsent() bool {
	return a.progress.Load() != a.sentProgress.Load() || a.tail.watched.Load()
}

// logAttrs returns the log attributes of an attempt. cause may be nil.
func (a *attempt) logAttrs(cause error) []slog.Attr {
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
		return nil, fault.Wrap(fault.InvalidFormat, err, "the arguments are not valid JSON")
	}
	for _, s := range a.Secrets {
		var entries map[string]string
		_, takes := a.spec.Secrets[s.Field]
		if err := json.Unmarshal(args[s.Field], &entries); err != nil || !takes || entries[s.Key] != s.Text {
			return nil, errSecretNotTaken(s)
		}
		entries[s.Key] = s.Prefix + values[s.Name]
		raw, err := json.Marshal(entries)
		if err != nil {
			return nil, errSecretNotTaken(s)
		}
		args[s.Field] = raw
	}
	return json.Marshal(args)
}

// arguments returns the arguments for the tool.
func (a *attempt) arguments() json.RawMessage {
	if a.argsWithSecrets != nil {
		return a.argsWithSecrets
	}
	return a.args
}

// guardObeyed remembers the files in the project that git or orch obey (see obeyed). The returned function must be called when
// the call has ended. It moves new files of this kind out of the project; its error PROTECTED_PATH names the new location of
// the first one. A call that a person has approved may create them.
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

// obeyed lists the paths in the project that make git or orch execute or read something: repositories, files that point git to
// further settings, and the settings of orch.
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

package node

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/forge"
	"github.com/orch-dev/orch/tools/system"
)

const (
	// githubCacheTime is how long an answer of GitHub is cached, because a probe is a network request.
	githubCacheTime = 30 * time.Second
	// firebaseCacheTime is how long the status of the Firebase databases is cached, because they may be remote.
	firebaseCacheTime = 5 * time.Second
	// cpuInterval is the minimum interval between two measurements of the processor use.
	cpuInterval = time.Second
)

// health probes the dependencies of the node.
type health struct {
	n      *Node
	github *forge.Probe

	mu sync.Mutex
	// githubProbed is the time of the last probe of GitHub, githubStatus is its result.
	githubProbed time.Time
	githubStatus system.Part
	// firebaseProbed is the time of the last probe of the databases, firebaseStatus is its result.
	firebaseProbed time.Time
	firebaseStatus system.Part
	// cpuMeasured and cpuTime are the time and the processor time at the last measurement, cpuPercent is its result.
	cpuMeasured time.Time
	cpuTime     time.Duration
	cpuPercent  float64
}

func newHealth(n *Node) *health {
	return &health{n: n, github: forge.NewProbe(n.executor.families.GitHub), cpuMeasured: time.Now(), cpuTime: processorTime()}
}

// statusOf returns the status of a dependency from the result of its probe. Every caller may see the message of err.
func statusOf(name string, took time.Duration, err error) system.Part {
	if err != nil {
		return system.Part{Name: name, Status: system.Down, Latency: took, Why: fault.From(err).Message}
	}
	return system.Part{Name: name, Status: system.Up, Latency: took}
}

// NATS implements system.Health.
func (h *health) NATS(context.Context) system.Part {
	took, err := h.n.requests.NATS().RTT()
	if err != nil {
		err = fault.Wrap(fault.Unavailable, err, "the server does not answer")
	}
	return statusOf("nats", took, err)
}

// JetStream implements system.Health. If the store refuses commits, the status contains the reason.
func (h *health) JetStream(ctx context.Context) system.Part {
	begin := time.Now()
	s, err := h.n.store.Status(ctx)
	took := time.Since(begin)
	if err == nil && s.Refusing != nil {
		err = s.Refusing
	}
	if err == nil {
		var r api.StatusReply
		if r, err = h.n.orch.Status(ctx, api.StatusRequest{}); err == nil && r.Refusing != nil {
			err = fault.New(r.Refusing.Code, "%s", r.Refusing.Message)
		}
	}
	return statusOf("jetstream", took, err)
}

// Servers implements system.Health.
func (h *health) Servers(ctx context.Context) []system.Part {
	if h.n.executor.gateway == nil {
		return nil
	}
	list, err := h.n.executor.gateway.Servers().List(ctx)
	if err != nil {
		return []system.Part{statusOf("mcp servers", 0, err)}
	}
	var all []system.Part
	for _, s := range list {
		p := system.Part{Name: s.Name, Status: system.Up}
		switch {
		case !s.Enabled:
			p.Status = system.Off
		case s.Status != registry.Ready:
			p.Status, p.Why = system.Down, "the server is "+string(s.Status)+"; see: orch mcp test "+s.Name
		}
		all = append(all, p)
	}
	return all
}

// Firebase implements system.Health. It probes both databases with a read, at most once per firebaseCacheTime. A database is
// up if it answers, even with an error such as FORBIDDEN.
func (h *health) Firebase(ctx context.Context) system.Part {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.firebaseProbed) < firebaseCacheTime {
		return h.firebaseStatus
	}
	begin := time.Now()
	_, err := h.n.databases.Realtime.Read(ctx, firebaseProbePath, firebase.Query{})
	if err = unreachable(err); err == nil {
		_, err = h.n.databases.Firestore.Read(ctx, firebaseProbePath, firebase.Query{})
		err = unreachable(err)
	}
	found := statusOf("firebase", time.Since(begin), err)
	if !abandoned(ctx) {
		h.firebaseStatus, h.firebaseProbed = found, time.Now()
	}
	return found
}

// firebaseProbePath is the path that probes read. Nothing is stored there.
const firebaseProbePath = "orch-status/probe"

// unreachable returns err if it means that a database is not available, else nil.
func unreachable(err error) error {
	switch fault.CodeOf(err) {
	case fault.Forbidden, fault.Unauthorized, fault.NotFound:
		return nil
	default:
		return err
	}
}

// GitHub implements system.Health. If GitHub is configured, it is probed at most once per githubCacheTime.
func (h *health) GitHub(ctx context.Context) system.Part {
	if !h.github.Configured() {
		return system.Part{Name: "github", Status: system.Off}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.githubProbed.IsZero() && time.Since(h.githubProbed) < githubCacheTime {
		return h.githubStatus
	}
	begin := time.Now()
	rate, err := h.github.Ask(ctx)
	found := statusOf("github", time.Since(begin), err)
	if err == nil {
		found.Limit = &system.Limit{Limit: rate.Limit, Remaining: rate.Remaining, ResetAt: rate.Reset}
	}
	if !abandoned(ctx) {
		h.githubStatus, h.githubProbed = found, time.Now()
	}
	return found
}

// abandoned reports whether the caller of a probe has cancelled it. The result must not be cached then.
func abandoned(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// Process implements system.Health.
func (h *health) Process() system.Process {
	p := system.Process{CPU: h.processor()}
	if r, err := h.n.orch.Status(context.Background(), api.StatusRequest{}); err == nil {
		p.Uptime, p.Memory = time.Since(r.StartedAt), float64(r.MemoryMiB)
		for _, hold := range r.Paused {
			p.Paused = p.Paused || hold.Kind == "node"
		}
	}
	return p
}

// processor returns the processor use between the last two measurements, in percent of one core.
func (h *health) processor() float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, used := time.Now(), processorTime()
	if passed := now.Sub(h.cpuMeasured); passed >= cpuInterval || h.cpuPercent == 0 && passed > 0 {
		h.cpuPercent = 100 * float64(used-h.cpuTime) / float64(passed)
		h.cpuMeasured, h.cpuTime = now, used
	}
	return h.cpuPercent
}

// processorTime returns the processor time of this process.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // never fails for the own process
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

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
	// firebaseCacheTime is the same for the databases, which may be remote.
	firebaseCacheTime = 5 * time.Second
	// cpuInterval is the minimum interval for measuring the processor use.
	cpuInterval = time.Second
)

// health probes the dependencies of the node.
type health struct {
	n      *Node
	github *forge.Probe

	mu sync.Mutex
	// asked is when GitHub was probed last, told is the result.
	asked time.Time
	told  system.Part
	// read and databases are the same for Firebase.
	read      time.Time
	databases system.Part
	// since and used are the time and the processor time at the last measurement. cpu is the share.
	since time.Time
	used  time.Duration
	cpu   float64
}

func newHealth(n *Node) *health {
	return &health{n: n, github: forge.NewProbe(n.executor.families.GitHub), since: time.Now(), used: processorTime()}
}

// partOf returns the status of a dependency from the result of its probe. Messages of coded errors may be shown to everybody.
func partOf(name string, took time.Duration, err error) system.Part {
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
	return partOf("nats", took, err)
}

// JetStream implements system.Health. It reports the store's reason if the store accepts no commits.
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
	return partOf("jetstream", took, err)
}

// Servers implements system.Health.
func (h *health) Servers(ctx context.Context) []system.Part {
	if h.n.executor.gateway == nil {
		return nil
	}
	list, err := h.n.executor.gateway.Servers().List(ctx)
	if err != nil {
		return []system.Part{partOf("mcp servers", 0, err)}
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

// Firebase implements system.Health. Both databases are probed with a read, at most once per firebaseAgain. Any answer means
// that they are available.
func (h *health) Firebase(ctx context.Context) system.Part {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.read) < firebaseCacheTime {
		return h.databases
	}
	begin := time.Now()
	_, err := h.n.databases.Realtime.Read(ctx, firebasePlace, firebase.Query{})
	if err = unreachable(err); err == nil {
		_, err = h.n.databases.Firestore.Read(ctx, firebasePlace, firebase.Query{})
		err = unreachable(err)
	}
	found := partOf("firebase", time.Since(begin), err)
	if !abandoned(ctx) {
		h.databases, h.read = found, time.Now()
	}
	return found
}

// firebasePlace is the path of a document and a node that do not exist.
const firebasePlace = "orch-status/probe"

// unreachable returns err if it means that a database is not available, else nil.
func unreachable(err error) error {
	switch fault.CodeOf(err) {
	case fault.Forbidden, fault.Unauthorized, fault.NotFound:
		return nil
	default:
		return err
	}
}

// GitHub implements system.Health. It is probed if it is configured, at most once per githubAgain.
func (h *health) GitHub(ctx context.Context) system.Part {
	if !h.github.Configured() {
		return system.Part{Name: "github", Status: system.Off}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.asked.IsZero() && time.Since(h.asked) < githubCacheTime {
		return h.told
	}
	begin := time.Now()
	rate, err := h.github.Ask(ctx)
	found := partOf("github", time.Since(begin), err)
	if err == nil {
		found.Limit = &system.Limit{Limit: rate.Limit, Remaining: rate.Remaining, ResetAt: rate.Reset}
	}
	if !abandoned(ctx) {
		h.told, h.asked = found, time.Now()
	}
	return found
}

// abandoned reports whether the caller of a probe is gone. The result then must not be cached for others.
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

// processor returns the share of one core that the process has used since the last measurement, in percent.
func (h *health) processor() float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	now, used := time.Now(), processorTime()
	if passed := now.Sub(h.since); passed >= cpuInterval || h.cpu == 0 && passed > 0 {
		h.cpu = 100 * float64(used-h.used) / float64(passed)
		h.since, h.used = now, used
	}
	return h.cpu
}

// processorTime returns the processor time of this process.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // never fails for the own process
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

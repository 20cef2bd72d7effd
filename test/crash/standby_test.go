package crash_test

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/rpc"
)

const (
	// envStandbyRounds is the number of rounds with two nodes; the default is small, to keep `go test ./...` short.
	envStandbyRounds = "ORCH_CRASH_STANDBY_ROUNDS"
	// activeWithin bounds how long it may take until one of two nodes is active: a majority of the servers is always
	// up.
	activeWithin = 30 * time.Second
)

// The faults of the active node, and of the standby node.
const (
	killActive  kind = "kill active node"
	stopActive  kind = "stop active node"
	partActive  kind = "part active node from the servers"
	drainActive kind = "terminate active node under load"
	killStandby kind = "kill node that stands by"
)

func standbyKinds() []kind {
	return []kind{killActive, killActive, stopActive, stopActive, partActive, partActive, drainActive, killStandby}
}

// TestCrashStandby kills, stops and partitions the active one of two nodes on three NATS servers. Workers are not
// affected, so no call may be in doubt.
func TestCrashStandby(t *testing.T) {
	t.Parallel()
	rounds := int(fromEnv(t, envStandbyRounds, defaultRounds))
	if rounds == 0 {
		t.Skipf("%s is 0", envStandbyRounds)
	}
	crashRounds(t, options{cluster: true, standby: true}, fromEnv(t, envSeed, uint64(time.Now().UnixNano())), rounds)
}

// pair is two nodes on one cluster.
type pair struct {
	c     *cluster
	nodes [2]*process
	links [2]*link
	// client measures how long requests wait for a node.
	client *rpc.Remote
	// waits are the times of requests that were sent at the moment of each fault.
	waits map[kind][]time.Duration
}

func (c *cluster) startPair() {
	c.t.Helper()
	p := &pair{c: c, waits: map[kind][]time.Duration{}}
	c.pair = p
	for i := range p.nodes {
		p.links[i] = openLink(c.t, c.brokers)
		p.start(i)
	}
	var err error
	p.client, err = node.Dial(c.t.Context(), c.config())
	require.NoError(c.t, err)
	c.t.Cleanup(func() { assert.NoError(c.t, p.client.Close()) })
}

func (p *pair) start(i int) {
	p.c.t.Helper()
	env := append(p.c.models(), envData+"=data"+strconv.Itoa(i), envNATS+"="+p.links[i].url(), envStandby+"=1")
	p.nodes[i] = spawn(p.c.t, roleNode, p.c.dir, env...)
	p.c.restarts = append(p.c.restarts, p.nodes[i].ready())
}

// active is the number of the active node.
func (p *pair) active() int {
	p.c.t.Helper()
	for end := time.Now().Add(activeWithin); time.Now().Before(end); wait(20 * time.Millisecond) {
		reply, err := node.Nodes(p.c.t.Context(), p.c.config())
		if err != nil || len(reply.Nodes) == 0 || !reply.Nodes[0].Active {
			continue
		}
		for i, n := range p.nodes {
			if n.pid() == reply.Nodes[0].PID {
				return i
			}
		}
	}
	p.c.t.Fatal("no node is active")
	return 0
}

// strike does a fault and waits for a request that was sent with it.
func (p *pair) strike(s strike) {
	p.c.t.Helper()
	i := p.active()
	if s.kind == killStandby {
		i = 1 - i
	}
	var answered chan time.Duration
	switch n := p.nodes[i]; s.kind {
	case killActive, killStandby:
		n.kill()
		answered = p.probe()
		wait(s.away)
		p.start(i)
	case stopActive:
		n.signal(syscall.SIGSTOP)
		answered = p.probe()
		wait(s.away)
		n.signal(syscall.SIGCONT)
	case partActive:
		p.links[i].part()
		answered = p.probe()
		wait(s.away)
		p.links[i].heal()
	default:
		answered = p.probe()
		p.c.drains = append(p.c.drains, n.terminate())
		p.start(i)
	}
	p.waits[s.kind] = append(p.waits[s.kind], <-answered)
}

// probe sends requests until one was sent after the fault, and returns how long the slowest one took.
func (p *pair) probe() chan time.Duration {
	answered := make(chan time.Duration, 1)
	go func() {
		worst := time.Duration(0)
		for began := time.Now(); time.Since(began) < time.Second || worst == 0; {
			sent := time.Now()
			ctx, stop := context.WithTimeout(p.c.t.Context(), answerWithin)
			_, err := p.client.Status(ctx, api.StatusRequest{})
			stop()
			if err != nil {
				assert.NoError(p.c.t, err, "a request waits while another node takes over")
			}
			worst = max(worst, time.Since(sent))
		}
		answered <- worst
	}()
	return answered
}

func (p *pair) stop() {
	p.c.t.Helper()
	for _, n := range p.nodes {
		n.terminate()
	}
}

// print prints how long requests have waited.
func (p *pair) print() {
	for _, k := range slices.Compact(standbyKinds()) {
		if all := p.waits[k]; len(all) > 0 {
			p.c.t.Logf("requests during %q: %d, median wait %s, longest %s", k, len(all), median(all), longest(all))
		}
	}
}

// link is the network link from a node to the servers. It can be partitioned: then it silently drops data in both
// directions.
type link struct {
	listeners []net.Listener
	group     sync.WaitGroup

	mu sync.Mutex
	// healed is closed when the link is whole again; nil while it is.
	healed chan struct{}
	open   map[net.Conn]bool
	shut   bool
}

func openLink(t *testing.T, brokers []*broker) *link {
	t.Helper()
	l := &link{open: map[net.Conn]bool{}}
	for _, b := range brokers {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		l.listeners = append(l.listeners, listener)
		l.group.Go(func() { l.accept(listener, strings.TrimPrefix(b.url, "nats://")) })
	}
	t.Cleanup(l.close)
	return l
}

// url are the addresses of the servers through the link.
func (l *link) url() string {
	urls := make([]string, len(l.listeners))
	for i, listener := range l.listeners {
		urls[i] = "nats://" + listener.Addr().String()
	}
	return strings.Join(urls, ",")
}

func (l *link) part() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.healed = make(chan struct{})
}

func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.healed != nil {
		close(l.healed)
		l.healed = nil
	}
}

// pass waits while the link is parted.
func (l *link) pass() {
	l.mu.Lock()
	healed := l.healed
	l.mu.Unlock()
	if healed != nil {
		<-healed
	}
}

func (l *link) close() {
	l.heal()
	for _, listener := range l.listeners {
		_ = listener.Close() // nobody comes any more
	}
	l.mu.Lock()
	l.shut = true
	for c := range l.open {
		_ = c.Close() // both sides see it
	}
	l.mu.Unlock()
	l.group.Wait()
}

func (l *link) accept(listener net.Listener, behind string) {
	for {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		l.group.Go(func() { l.carry(c, behind) })
	}
}

func (l *link) carry(c net.Conn, behind string) {
	defer c.Close() //nolint:errcheck // it may be closed already
	l.pass()
	s, err := net.Dial("tcp", behind)
	if err != nil {
		return
	}
	defer s.Close() //nolint:errcheck // it may be closed already
	if !l.register(c, s) {
		return
	}
	defer l.drop(c, s)
	var back sync.WaitGroup
	back.Go(func() { l.copy(c, s) })
	l.copy(s, c)
	back.Wait()
}

// copy copies data from one side to the other, until either is closed.
func (l *link) copy(to, from net.Conn) {
	defer to.Close()   //nolint:errcheck // it may be closed already
	defer from.Close() //nolint:errcheck // it may be closed already
	part := make([]byte, 32<<10)
	for {
		n, err := from.Read(part)
		l.pass()
		if n > 0 {
			if _, err := to.Write(part[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *link) register(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		l.open[c] = true
	}
	return !l.shut
}

func (l *link) drop(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		delete(l.open, c)
	}
}

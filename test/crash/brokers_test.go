package crash_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/test/crash"
)

const (
	// envClusterRounds is the number of rounds on a cluster; the default is none.
	envClusterRounds = "ORCH_CRASH_CLUSTER_ROUNDS"
	// brokerCount is how many NATS servers are in a cluster, and on how many each stream is.
	brokerCount = 3
	// clusterWithin bounds how long the servers may take to elect a leader.
	clusterWithin = time.Minute
	// electedWithin bounds how long the other servers may take to elect leaders of all streams.
	electedWithin = 10 * time.Second
)

// broker is a NATS server in a process of its own.
type broker struct {
	*process

	conf, url string
}

// TestCrashCluster is TestCrashNetwork on three NATS servers, which are killed as well. Each started node has a new
// data directory, as on another machine. envClusterRounds is the number of rounds.
func TestCrashCluster(t *testing.T) {
	t.Parallel()
	rounds := int(fromEnv(t, envClusterRounds, 0))
	if rounds == 0 {
		t.Skipf("%s is not set", envClusterRounds)
	}
	crashRounds(t, options{network: true, cluster: true}, fromEnv(t, envSeed, uint64(time.Now().UnixNano())), rounds)
}

// startBrokers starts the servers and waits until they have a leader.
func (c *cluster) startBrokers() {
	c.t.Helper()
	ports := freePorts(c.t, 2*brokerCount)
	var routes []string
	for _, port := range ports[brokerCount:] {
		routes = append(routes, "nats://127.0.0.1:"+strconv.Itoa(port))
	}
	for i := range brokerCount {
		b := &broker{conf: filepath.Join(c.dir, fmt.Sprintf("broker%d.conf", i)), url: "nats://127.0.0.1:" + strconv.Itoa(ports[i])}
		text := fmt.Sprintf("server_name: n%d\nlisten: 127.0.0.1:%d\njetstream {store_dir: %q}\ncluster {name: crash, listen: 127.0.0.1:%d, routes: [%s], no_advertise: %t}\n",
			i, ports[i], filepath.Join(c.dir, fmt.Sprintf("broker%d", i)), ports[brokerCount+i], strings.Join(routes, ", "), c.standby) // clients of a link find no way round it
		if c.restricted {
			text += bustest.DocumentedPermissions(c.t, "../..") + usersOfBrokers
		}
		require.NoError(c.t, os.WriteFile(b.conf, []byte(text), 0o600))
		c.brokers = append(c.brokers, b)
		c.startBroker(b)
	}
	c.awaitLeader()
}

func (c *cluster) startBroker(b *broker) {
	c.t.Helper()
	b.process = spawn(c.t, roleBroker, c.dir, envBroker+"="+b.conf)
	b.ready()
}

// awaitLeader waits until the servers accept streams.
func (c *cluster) awaitLeader() {
	c.t.Helper()
	nc, err := nats.Connect(c.urlAs(adminOfBrokers), nats.MaxReconnects(-1))
	require.NoError(c.t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(c.t, err)
	for end := time.Now().Add(clusterWithin); ; wait(100 * time.Millisecond) {
		_, err = js.CreateOrUpdateStream(c.t.Context(), jetstream.StreamConfig{Name: "PROBE", Subjects: []string{"probe"}, Replicas: brokerCount})
		if err == nil || time.Now().After(end) {
			break
		}
	}
	require.NoError(c.t, err)
	require.NoError(c.t, js.DeleteStream(c.t.Context(), "PROBE"))
}

// freePorts returns unused ports outside of the range of ephemeral ports.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	const lowest, highest = 15_000, 32_000
	var ports []int
	var held []net.Listener
	for len(ports) < n {
		port := lowest + rand.IntN(highest-lowest)
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			ports, held = append(ports, port), append(held, l)
		}
	}
	for _, l := range held {
		require.NoError(t, l.Close())
	}
	return ports
}

// The users of restricted servers, as part of an address.
const (
	orchAtBrokers  = "orch:orch@"
	adminOfBrokers = "admin:admin@"
	usersOfBrokers = "\nauthorization {users: [{user: orch, password: orch, permissions: $ORCH_PERMISSIONS}, {user: admin, password: admin}]}\n"
)

// natsURL are the addresses of the servers; "" for the embedded one.
func (c *cluster) natsURL() string { return c.urlAs(orchAtBrokers) }

// urlAs are the addresses for a user; servers that are not restricted have no users.
func (c *cluster) urlAs(user string) string {
	if c.first {
		return c.brokers[0].url
	}
	urls := make([]string, 0, len(c.brokers))
	for _, b := range c.brokers {
		url := b.url
		if c.restricted {
			url = strings.Replace(url, "://", "://"+user, 1)
		}
		urls = append(urls, url)
	}
	return strings.Join(urls, ",")
}

// replicas is on how many servers the streams are; 0 for the embedded one.
func (c *cluster) replicas() int { return len(c.brokers) }

// move gives the next node a new data directory, without a log.
func (c *cluster) move() {
	if c.cluster {
		c.nodes++
		c.place = "data" + strconv.Itoa(c.nodes%2)
	}
}

func (c *cluster) isBroker(pid int) bool {
	return slices.ContainsFunc(c.brokers, func(b *broker) bool { return b.pid() == pid })
}

func (c *cluster) killBroker(s strike) {
	c.t.Helper()
	b, from := c.brokers[s.broker], time.Now()
	b.kill()
	wait(s.away)
	c.startBroker(b)
	c.wasAway(crash.TheBroker, from, time.Now().Add(electedWithin))
}

func (c *cluster) stopBroker(s strike) {
	b, from := c.brokers[s.broker], time.Now()
	b.signal(syscall.SIGSTOP)
	wait(s.away)
	b.signal(syscall.SIGCONT)
	c.wasAway(crash.TheBroker, from, time.Now().Add(electedWithin))
}

// playBroker is a NATS server.
func playBroker(ctx context.Context, stop func()) error {
	opts, err := server.ProcessConfigFile(os.Getenv(envBroker))
	if err != nil {
		return err
	}
	opts.NoSigs = true
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.SetLoggerV2(logOnly{}, false, false, false)
	s.Start()
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	if !s.ReadyForConnections(startWithin) {
		return errors.New("the server is not ready")
	}
	if err := printLine("ready"); err != nil {
		return fault.From(err)
	}
	go answer(stop)
	<-ctx.Done()
	return nil
}

// logOnly is a server logger that prints only warnings and errors.
type logOnly struct{}

func (logOnly) Noticef(string, ...any)    {}
func (logOnly) Debugf(string, ...any)     {}
func (logOnly) Tracef(string, ...any)     {}
func (logOnly) Warnf(f string, v ...any)  { fmt.Fprintf(os.Stderr, "warn "+f+"\n", v...) }
func (logOnly) Errorf(f string, v ...any) { fmt.Fprintf(os.Stderr, "error "+f+"\n", v...) }
func (logOnly) Fatalf(f string, v ...any) { fmt.Fprintf(os.Stderr, "fatal error: "+f+"\n", v...) }

package crash_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/models/modelstest"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/test/crash"
)

// workerCount is the number of worker processes.
const workerCount = 2

const (
	// drainWithin is how long a stopping process may wait for what it does.
	drainWithin = 10 * time.Second
	// orphansGoneWithin is how long children may outlive their worker.
	orphansGoneWithin = 2 * time.Second
	// trappedWithin bounds how long a process may take to reach its armed failpoint; then it is killed.
	trappedWithin = 1500 * time.Millisecond
)

// cluster is a node and its workers as processes, and, in a network, agents.
type cluster struct {
	t   *testing.T
	dir string
	// options configures what the cluster has in addition to the node and the workers.
	options
	biller  *biller
	budgets *budgets
	// round is the current round.
	round   int
	node    *process
	workers [workerCount]*process
	// lost is what was done to a worker, by process id.
	lost map[int]string
	// restarts are the times from the start of a node process to ready, drains those of SIGTERM to the
	// end of a worker or node.
	restarts, drains []time.Duration
	orphans          int
	// points counts the deaths at each failpoint, missed those that had to be helped along.
	points map[failpoint.Point]int
	missed int
	// frozen counts the workers that are to go on later.
	frozen sync.WaitGroup

	// door is where agents find the node; credentials are those of the agents, by number.
	door        *door
	agents      []*process
	credentials []peer.Credential
	brokers     []*broker
	// pair is there instead of the node where two share the cluster.
	pair *pair
	// place is the name of the data directory of the node, nodes counts those that there were.
	place string
	nodes int

	mu sync.Mutex // guards what follows
	// agentOf maps process ids to agents.
	agentOf  map[int]string
	absences []crash.Absence
}

// options configures what a cluster has in addition to a node and workers.
type options struct {
	// planted is the fault injected into the processes; "" for none.
	planted failpoint.Fault
	// network adds agents, messages and databases, cluster three NATS servers in place of the embedded one.
	network, cluster bool
	// standby has two nodes on the cluster in place of one.
	standby bool
	// zombies uses only writes with a verify tool, and suspends workers, some for longer than the time limit of a call.
	zombies bool
	// first makes all clients connect to the first server of a cluster, from which they learn the others.
	first bool
	// restricted gives orch only the documented permissions at the servers of a cluster.
	restricted bool
}

func startCluster(t *testing.T, dir string, o options) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: dir, options: o, biller: newBiller(t), budgets: &budgets{}, lost: map[int]string{}, points: map[failpoint.Point]int{}, agentOf: map[int]string{}, place: "data"}
	if o.network {
		c.door = openDoor(t)
	}
	t.Cleanup(c.killAll)
	require.NoError(t, os.Mkdir(tempDir(dir), 0o700))
	if o.cluster {
		c.startBrokers()
	}
	if o.standby {
		c.startPair()
	} else {
		c.startNode()
	}
	for i := range c.workers {
		c.startWorker(i)
	}
	return c
}

func tempDir(dir string) string { return filepath.Join(dir, "tmp") }

func (c *cluster) spawn(role string, env ...string) *process {
	c.t.Helper()
	env = append(env, failpoint.EnvPlant+"="+string(c.planted), envData+"="+c.place, envNATS+"="+c.natsURL())
	if c.network && role == roleNode {
		env = append(env, envHTTP+"=1")
	}
	if role == roleNode {
		env = append(env, c.models()...)
	}
	if (c.first || c.restricted) && role == roleNode {
		env = append(env, envStandby+"=1") // it may lose its lease with the server, and has to win it again
	}
	if c.zombies {
		env = append(env, envToil+"=1")
	}
	return spawn(c.t, role, c.dir, env...)
}

// models leads a node that starts now to the provider of models, with its budgets.
func (c *cluster) models() []string {
	c.t.Helper()
	limits, err := json.Marshal(c.budgets.begin(c.round))
	require.NoError(c.t, err)
	return []string{envModels + "=" + c.biller.server.BaseURL(modelstest.OpenAI), envModelsKey + "=" + modelstest.Key, envBudgets + "=" + string(limits)}
}

// config is that of a client of the node.
func (c *cluster) config() node.Config {
	cfg := config(c.dir, io.Discard)
	cfg.Storage.NATSURL = c.natsURL()
	return cfg
}

func (c *cluster) startNode() {
	c.t.Helper()
	c.move()
	c.node = c.spawn(roleNode)
	c.restarts = append(c.restarts, c.node.ready())
	if c.network {
		_, url, _ := strings.Cut(c.node.said, "http://")
		address, _, _ := strings.Cut(url, "/")
		c.door.lead(address)
	}
}

func (c *cluster) startWorker(i int) {
	c.t.Helper()
	c.workers[i] = c.spawn(roleWorker)
	c.workers[i].ready()
}

func (c *cluster) killWorker(i int, why string) {
	c.lost[c.workers[i].pid()] = why
	c.workers[i].kill()
	c.awaitOrphans(c.workers[i].pid())
}

// awaitOrphans counts the children of a killed worker that do not die with it.
func (c *cluster) awaitOrphans(worker int) {
	end := time.Now().Add(orphansGoneWithin)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		left := processesOf(c.dir, envCall+"=", " "+strconv.Itoa(worker)+"\x00")
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			c.orphans += len(left)
			for _, pid := range left {
				c.t.Logf("orphan %d of worker %d: %s", pid, worker, about(pid))
			}
			return
		}
		<-tick.C
	}
}

// drainWorker stops a worker cleanly and replaces it.
func (c *cluster) drainWorker(i int) {
	c.t.Helper()
	c.drains = append(c.drains, c.workers[i].terminate())
	c.startWorker(i)
}

// drainNode stops the node cleanly and replaces it.
func (c *cluster) drainNode() {
	c.t.Helper()
	c.drains = append(c.drains, c.node.terminate())
	c.startNode()
}

// drainPID replaces the worker with the process id if it still runs, so that it can have no further
// effect.
func (c *cluster) drainPID(pid int) {
	c.t.Helper()
	for i, w := range c.workers {
		if w.pid() == pid {
			c.drainWorker(i)
		}
	}
}

// strike does one fault and returns when everything runs again, except for a worker that is stopped:
// others go on meanwhile.
func (c *cluster) strike(s strike) {
	c.t.Helper()
	if s.kind.ofNode() {
		defer c.away(crash.TheNode)()
	}
	switch s.kind {
	case killNode:
		c.node.kill()
		wait(s.away)
		c.startNode()
	case killWorker:
		c.frozen.Wait()
		c.killWorker(s.worker, string(s.kind))
		wait(s.away)
		c.startWorker(s.worker)
	case killBoth:
		c.strikeAll(s)
	case killRecovery:
		c.node.kill()
		for _, after := range s.again {
			c.node = c.spawn(roleNode)
			wait(after)
			c.node.kill()
		}
		c.startNode()
	case zombie, zombieLong:
		c.freeze(s)
	case zombieNode: // the lease that runs out is one that the next node has found in the log
		c.freeze(s)
		c.node.kill()
		c.startNode()
	case drainWorker:
		c.frozen.Wait()
		c.drainWorker(s.worker)
	case drainNode:
		c.drainNode()
	case failNode, failWorker, failRecovery, failStop:
		c.trap(s)
	case killAgent:
		c.killAgent(s)
	case stopAgent:
		c.stopAgent(s)
	case drainAgent:
		c.frozen.Wait()
		c.drainAgent(s.worker % len(c.agents))
	case cutDoor:
		c.door.cut()
	case killBroker:
		c.killBroker(s)
	case stopBroker:
		c.stopBroker(s)
	default:
		c.pair.strike(s)
	}
}

// freeze stops a worker for a while, so that it does not know that it is lost.
func (c *cluster) freeze(s strike) {
	c.frozen.Wait()
	w := c.workers[s.worker]
	c.lost[w.pid()] = string(s.kind)
	w.signal(syscall.SIGSTOP)
	c.frozen.Go(func() {
		wait(s.away)
		w.signal(syscall.SIGCONT)
	})
}

func (c *cluster) strikeAll(s strike) {
	c.t.Helper()
	c.frozen.Wait()
	c.node.kill()
	for i := range c.workers {
		c.killWorker(i, string(s.kind))
	}
	wait(s.away)
	c.startNode()
	for i := range c.workers {
		c.startWorker(i)
	}
}

// trap makes a process die at a failpoint.
func (c *cluster) trap(s strike) {
	c.t.Helper()
	switch s.kind {
	case failWorker:
		c.frozen.Wait()
		w := c.workers[s.worker]
		c.lost[w.pid()] = string(s.trap.point)
		w.arm(s.trap)
		c.awaitDeath(s, w)
		c.awaitOrphans(w.pid())
		c.startWorker(s.worker)
	case failRecovery:
		c.node.kill()
		c.node = c.spawn(roleNode, envTrap+"="+string(s.trap.point)+" "+strconv.Itoa(s.trap.pass))
		c.awaitDeath(s, c.node)
		c.startNode()
	case failStop:
		c.node.arm(s.trap)
		c.node.signal(syscall.SIGTERM)
		c.awaitDeath(s, c.node)
		c.startNode()
	default:
		c.node.arm(s.trap)
		c.awaitDeath(s, c.node)
		wait(s.away)
		c.startNode()
	}
}

// awaitDeath waits for the death of a process at a failpoint and records it.
func (c *cluster) awaitDeath(s strike, p *process) {
	if p.diesWithin(trappedWithin) && !p.cmd.ProcessState.Exited() {
		c.points[s.trap.point]++
	} else {
		c.missed++
	}
}

// crashes returns the lines of a log that report a panic or a race.
func (c *cluster) crashes(role string) []string {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join(c.dir, role+".log"))
	require.NoError(c.t, err)
	var found []string
	for line := range strings.Lines(string(data)) {
		for _, sign := range []string{"panic:", "fatal error:", "DATA RACE", "panicked"} {
			if strings.Contains(line, sign) {
				found = append(found, line)
			}
		}
	}
	return found
}

// stop ends everything as an operator would.
func (c *cluster) stop() {
	c.t.Helper()
	for _, w := range c.workers {
		w.terminate()
	}
	if c.pair != nil {
		c.pair.stop()
		return
	}
	c.node.terminate()
}

// stopAgents ends the agents; each ends its calls before.
func (c *cluster) stopAgents() {
	c.t.Helper()
	for i, a := range c.agents {
		back := c.agentAway(i)
		a.terminate()
		back()
	}
}

// killAll kills all processes, also after a failed test.
func (c *cluster) killAll() {
	c.frozen.Wait()
	nodes := []*process{c.node}
	if c.pair != nil {
		nodes = c.pair.nodes[:]
	}
	for _, p := range slices.Concat(nodes, c.workers[:], c.agents) {
		if p != nil {
			p.kill()
		}
	}
	for _, b := range c.brokers {
		b.kill()
	}
	for _, pid := range processesOf(c.dir) {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	}
}

// wait pauses the schedule.
func wait(d time.Duration) { <-time.After(d) }

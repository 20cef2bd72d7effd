package crash_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// workerCount is the number of worker processes beside the node.
const workerCount = 2

const (
	// drainWithin is how long a process may take to end when it is asked to.
	drainWithin = 10 * time.Second
	// orphansGoneWithin is how long children may outlive their worker.
	orphansGoneWithin = 2 * time.Second
)

// cluster is a node and its workers as processes.
type cluster struct {
	t   *testing.T
	dir string

	node    *process
	workers [workerCount]*process
	// lost says, by process id, what was done to a worker.
	lost map[int]string
	// restarts are the times from the start of a node process to ready, drains those of SIGTERM to the
	// end of a worker.
	restarts, drains []time.Duration
	orphans          int
}

func startCluster(t *testing.T, dir string) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: dir, lost: map[int]string{}}
	t.Cleanup(c.killAll)
	c.startNode()
	for i := range c.workers {
		c.startWorker(i)
	}
	return c
}

func (c *cluster) startNode() {
	c.t.Helper()
	c.node = spawn(c.t, roleNode, c.dir)
	c.restarts = append(c.restarts, c.node.ready())
}

func (c *cluster) startWorker(i int) {
	c.t.Helper()
	c.workers[i] = spawn(c.t, roleWorker, c.dir)
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
			return
		}
		<-tick.C
	}
}

// drainWorker replaces a worker that is asked to end.
func (c *cluster) drainWorker(i int) {
	c.t.Helper()
	c.drains = append(c.drains, c.workers[i].terminate(drainWithin))
	c.startWorker(i)
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

// strike does one fault and returns when everything runs again.
func (c *cluster) strike(s strike) {
	c.t.Helper()
	switch s.kind {
	case killNode:
		c.node.kill()
		wait(s.away)
		c.startNode()
	case killWorker:
		c.killWorker(s.worker, string(s.kind))
		wait(s.away)
		c.startWorker(s.worker)
	case killBoth:
		c.strikeAll(s)
	case killRecovery:
		c.node.kill()
		for _, after := range s.again {
			c.node = spawn(c.t, roleNode, c.dir)
			wait(after)
			c.node.kill()
		}
		c.startNode()
	case zombie:
		c.freeze(s)
		wait(s.away)
		c.workers[s.worker].signal(syscall.SIGCONT)
	case zombieNode: // the lease that runs out is one that the next node has found in the log
		c.freeze(s)
		c.node.kill()
		c.startNode()
		wait(s.away)
		c.workers[s.worker].signal(syscall.SIGCONT)
	case drain:
		c.drainWorker(s.worker)
	}
}

// freeze stops a worker, which does not know that it is lost.
func (c *cluster) freeze(s strike) {
	c.lost[c.workers[s.worker].pid()] = string(s.kind)
	c.workers[s.worker].signal(syscall.SIGSTOP)
}

func (c *cluster) strikeAll(s strike) {
	c.t.Helper()
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

// crashes returns the lines of a log that tell of a panic or a race.
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
		w.terminate(drainWithin)
	}
	c.node.terminate(drainWithin)
}

// killAll leaves nothing behind, also after a failed test.
func (c *cluster) killAll() {
	for _, p := range append([]*process{c.node}, c.workers[:]...) {
		if p != nil {
			p.kill()
		}
	}
	for _, pid := range processesOf(c.dir) {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	}
}

// wait holds the schedule up.
func wait(d time.Duration) { <-time.After(d) }

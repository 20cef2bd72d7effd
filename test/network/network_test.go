package network_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
)

// world is a node, and agents in processes of their own.
type world struct {
	t      *testing.T
	node   *node.Node
	ledger string
	agents map[string]*exec.Cmd
	// credentials are those of the agents.
	credentials map[string]peer.Credential
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	require.NoError(t, os.Mkdir(root, 0o700))
	n, err := node.Start(t.Context(), node.Config{
		DataDir: filepath.Join(dir, "data"), Root: root, Storage: node.Storage{Durability: "relaxed"}, Worker: node.Worker{Concurrency: 2}, Version: "test", Faces: node.Faces{HTTP: "127.0.0.1:0"},
	})
	require.NoError(t, err)
	w := &world{t: t, node: n, ledger: filepath.Join(dir, "ledger"), agents: map[string]*exec.Cmd{}, credentials: map[string]peer.Credential{}}
	t.Cleanup(func() {
		for _, cmd := range w.agents {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		assert.NoError(t, n.Stop(context.Background()))
	})
	return w
}

// enrol registers an agent and starts its process.
func (w *world) enrol(name, kind string, can ...string) {
	w.t.Helper()
	w.register(name, kind, can...)
	w.run(name)
}

func (w *world) register(name, kind string, can ...string) {
	w.t.Helper()
	p := agents.Profile{Type: kind, Version: "1.0.0", MaxTasks: 4, Timeout: time.Minute}
	for _, c := range can {
		p.Capabilities = append(p.Capabilities, agents.Capability{Name: c, Category: "test"})
	}
	task := events.NewTaskID(time.Now())
	m, err := w.node.Agents().Register(w.t.Context(), agents.Registration{Name: name, Profile: p, Task: task, By: "user:test"})
	require.NoError(w.t, err)
	got, err := w.node.Agents().Collect(w.t.Context(), agents.Collection{Task: task, By: "user:test"})
	require.NoError(w.t, err)
	w.credentials[name] = peer.Credential{URL: m.URL, Agent: m.ID, Name: name, MaxTasks: 4, Secret: got.Secret, IssuedAt: m.RegisteredAt, ExpiresAt: m.ExpiresAt}
}

// run starts the process of an agent.
func (w *world) run(name string, env ...string) {
	w.t.Helper()
	cred, err := json.Marshal(w.credentials[name])
	require.NoError(w.t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(append(os.Environ(), envAgent+"="+string(cred), envLedger+"="+w.ledger), env...)
	cmd.Stderr = os.Stderr
	require.NoError(w.t, cmd.Start())
	w.agents[name] = cmd
}

// deeds reads the ledger.
func (w *world) deeds() []deed {
	w.t.Helper()
	f, err := os.Open(w.ledger)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(w.t, err)
	defer func() { _ = f.Close() }()
	var all []deed
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var d deed
		require.NoError(w.t, json.Unmarshal(lines.Bytes(), &d))
		all = append(all, d)
	}
	return all
}

// busy waits until an agent has started some calls.
func (w *world) busy(name string, calls int) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		n := 0
		for _, d := range w.deeds() {
			if d.Agent == name && !d.Done {
				n++
			}
		}
		return n >= calls
	}, 2*time.Minute, 20*time.Millisecond, "%s does nothing", name)
}

// planFor returns a plan of one call for agents with a capability. The timeout is short for agents that may be lost,
// and long for others, which may be slow on a slow machine.
func planFor(can, effect string) string {
	lease := "5s"
	if effect == "write" {
		lease = "10m"
	}
	return fmt.Sprintf(`
orch: v1
name: %[1]s
labels: {type: %[1]s}
steps:
  - id: work
    tool: AGENT_TASK
    effect: %[2]s
    heartbeat: %[3]s
    retry: {max_attempts: 5, initial: 50ms, max: 200ms}
    with: {title: "do %[1]s", requires: [%[1]s]}
outputs: {by: "${{ steps.work.output.agent }}"}
`, can, effect, lease)
}

func (w *world) submit(plan string, after ...events.TaskID) events.TaskID {
	w.t.Helper()
	text, err := json.Marshal(plan)
	require.NoError(w.t, err)
	reply, err := w.node.API().Submit(w.t.Context(), api.SubmitRequest{Plan: text, Actor: "user:test", DependsOn: after})
	require.NoError(w.t, err)
	return reply.ID
}

// Five agents of different types share 200 tasks with dependencies and capabilities, and send each other messages about
// their work. One is killed, one hangs and resumes. All tasks end, none is done twice, and the history records who did
// what (issue "The Sartor network").
func TestNetwork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.enrol("ada", "researcher", "research")
	w.enrol("bob", "developer", "build", "research")
	w.enrol("cyd", "specialist", "build")
	w.enrol("dee", "analyst", "analyse")
	w.enrol("eve", "coordinator", "analyse", "research")

	// Writes are for agents that survive; calls that are lost with the others may be repeated.
	kinds := []struct{ can, effect string }{{"research", "idempotent"}, {"build", "write"}, {"analyse", "idempotent"}, {"build", "write"}}
	var ids []events.TaskID
	for i := range 200 {
		var after []events.TaskID
		if i%4 == 3 {
			after = []events.TaskID{ids[i-1], ids[i-3]}
		}
		ids = append(ids, w.submit(planFor(kinds[i%4].can, kinds[i%4].effect), after...))
	}
	w.busy("ada", 5)
	require.NoError(t, w.agents["ada"].Process.Kill())
	w.busy("eve", 5)
	require.NoError(t, w.agents["eve"].Process.Signal(syscall.SIGSTOP))

	ended := map[events.TaskID]api.ResultReply{}
	for i, id := range ids {
		r, err := w.node.API().Result(t.Context(), api.ResultRequest{ID: id, Wait: 2 * time.Minute})
		require.NoError(t, err)
		require.True(t, r.Ended, "task %d is %s: %s", i, r.State, r.Reason)
		require.Equal(t, statemachine.Done, r.State, "task %d: %v", i, r.Error)
		ended[id] = r
		if i == len(ids)/2 {
			require.NoError(t, w.agents["eve"].Process.Signal(syscall.SIGCONT)) // what it says now is too late
		}
	}
	w.checkHistories(ids, ended)
	w.checkDeeds(ids)
	w.checkMessages(ids, ended)
}

// checkHistories checks that each history records exactly one agent for the work, and that dependent tasks came later.
func (w *world) checkHistories(ids []events.TaskID, ended map[events.TaskID]api.ResultReply) {
	w.t.Helper()
	over := map[events.TaskID]time.Time{}
	for i, id := range ids {
		h, err := w.node.API().History(w.t.Context(), api.HistoryRequest{ID: id, Limit: 1000})
		require.NoError(w.t, err)
		var results, ends []string
		for _, c := range h.Commits {
			for _, e := range c.Events {
				switch e.Kind {
				case events.StepSucceeded:
					results = append(results, strings.TrimPrefix(c.Actor, agents.Prefix))
				case events.TaskFinished:
					ends = append(ends, c.Actor)
					over[id] = c.At
				case events.StepCalled:
					if i%4 == 3 {
						assert.False(w.t, c.At.Before(over[ids[i-1]]) || c.At.Before(over[ids[i-3]]), "task %d began before what it needs", i)
					}
				default:
				}
			}
		}
		assert.Len(w.t, ends, 1, "task %d", i)
		require.Len(w.t, results, 1, "task %d", i)
		var out struct{ By string }
		require.NoError(w.t, json.Unmarshal(ended[id].Output, &out))
		assert.Equal(w.t, out.By, results[0], "who reported is who is named")
		replayed, err := w.node.API().Replay(w.t.Context(), api.ReplayRequest{ID: id})
		require.NoError(w.t, err)
		require.NotNil(w.t, replayed.Live)
		assert.True(w.t, *replayed.Live, "task %d", i)
	}
}

// checkMessages checks that the agent of each call has sent exactly one message about it.
func (w *world) checkMessages(ids []events.TaskID, ended map[events.TaskID]api.ResultReply) {
	w.t.Helper()
	told := map[string]int{}
	for _, name := range []string{"bob", "dee"} {
		for {
			var page struct {
				Messages []struct {
					ID      string `json:"message_id"`
					Sender  string
					Payload struct{ Text string }
				}
			}
			require.NoError(w.t, rpc(w.t.Context(), w.credentials[name], "MESSAGE_INBOX", object{"type": "task", "limit": 100}, &page))
			if len(page.Messages) == 0 {
				break
			}
			var read []string
			for _, m := range page.Messages {
				told[m.Sender+" "+name+" "+m.Payload.Text]++
				read = append(read, m.ID)
			}
			require.NoError(w.t, rpc(w.t.Context(), w.credentials[name], "MESSAGE_ACK", object{"message_ids": read}, nil))
		}
	}
	for i, id := range ids {
		var out struct{ By string }
		require.NoError(w.t, json.Unmarshal(ended[id].Output, &out))
		assert.Equal(w.t, 1, told[agents.Prefix+out.By+" "+reader(out.By)+" "+string(id)+"/work"], "task %d, done by %s", i, out.By)
	}
}

// checkDeeds checks that every call was started, and that calls with at-most-once effects were started once.
func (w *world) checkDeeds(ids []events.TaskID) {
	w.t.Helper()
	begun := map[string][]string{}
	for _, d := range w.deeds() {
		if !d.Done {
			begun[d.Key] = append(begun[d.Key], d.Agent)
		}
	}
	again := 0
	for i, id := range ids {
		who := begun[string(id)+"/work"]
		require.NotEmpty(w.t, who, "task %d", i)
		if len(who) > 1 {
			again++
			assert.Equal(w.t, 0, i%2, "task %d writes, and was begun by %v", i, who)
		}
	}
	w.t.Logf("%d calls were begun again after their agent was lost", again)
}

// An agent that is killed in the midst of a call and starts again has it again at once, though its lease is long; one that
// may have changed something is in doubt at once. One that stops in order is offline at once.
func TestAgentIsKilledAndStartsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.register("ada", "researcher", "research", "build")
	w.run("ada", envSlow+"=1")
	long := func(plan string) string { return strings.Replace(plan, "heartbeat: 5s", "heartbeat: 1h", 1) }
	id := w.submit(long(planFor("research", "idempotent")))
	write := w.submit(long(planFor("build", "write")))
	w.busy("ada", 2)
	require.NoError(t, w.agents["ada"].Process.Kill())
	_ = w.agents["ada"].Wait()
	w.run("ada")
	r, err := w.node.API().Result(t.Context(), api.ResultRequest{ID: id, Wait: time.Minute})
	require.NoError(t, err)
	require.True(t, r.Ended, "the task is %s: %s", r.State, r.Reason)
	assert.Equal(t, statemachine.Done, r.State)
	require.Eventually(t, func() bool {
		task, err := w.node.API().Get(t.Context(), api.GetRequest{ID: write})
		return err == nil && task.Steps[0].State == statemachine.StepInDoubt
	}, time.Minute, 20*time.Millisecond)

	require.NoError(t, w.agents["ada"].Process.Signal(syscall.SIGTERM))
	require.NoError(t, w.agents["ada"].Wait())
	all, err := w.node.Agents().Agents(t.Context())
	require.NoError(t, err)
	assert.Equal(t, agents.Offline, all[0].Status)
}

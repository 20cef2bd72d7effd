package crash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/test/crash"
	"github.com/orch-dev/orch/work"
)

const (
	// agentSlots is the number of concurrent calls of an agent.
	agentSlots = 8
	// agentDrain is how long a stopping agent continues its calls; each call takes less.
	agentDrain = 3 * time.Second
	// agentLease is the lease of agents' calls with effects. It is long enough that no live agent is lost on a busy
	// machine.
	agentLease = 4 * time.Second
	// agentWork bounds the duration of most calls, longWork that of some.
	agentWork = 60 * time.Millisecond
	longWork  = 700 * time.Millisecond
)

// agentNames are those of the agents, one process each.
func agentNames() []string { return []string{"ada", "bob"} }

// agentJobs are the tasks for agents.
func agentJobs() []job {
	const head = "orch: v1\nname: NAME\nsteps:\n"
	idem := func(id, more string) string {
		return "  - id: " + id + "\n    tool: AGENT_TASK\n    effect: idempotent\n    heartbeat: 1s\n    retry: {max_attempts: 100, initial: 20ms, max: 100ms}\n" +
			"    with: {title: do, requires: [crash], data: {tool: " + crash.ToolAgentIdem + "}}\n" + more
	}
	write := func(id, more string) string {
		return "  - id: " + id + "\n    tool: AGENT_TASK\n    effect: write\n    heartbeat: " + agentLease.String() + "\n" +
			"    with: {title: do, requires: [crash], data: {tool: " + crash.ToolAgentWrite + "}}\n" + more
	}
	return []job{
		{name: "agent idem", plan: head + idem("a", "")},
		{name: "agent write", plan: head + write("a", "")},
		{name: "agents", plan: head + idem("a", "") + write("b", "    needs: [a]\n") + idem("c", "    needs: [a]\n") + write("d", "    needs: [b, c]\n")},
		{name: "agent and worker", plan: head + "  - {id: w, tool: CRASH_WRITE}\n" + write("a", "    needs: [w]\n")},
	}
}

// enrol registers the agents and starts their processes.
func (c *cluster) enrol(s agents.Service) {
	c.t.Helper()
	for i, name := range agentNames() {
		task := events.NewTaskID(time.Now())
		m, err := s.Register(c.t.Context(), agents.Registration{Name: name, Task: task, By: operator, Profile: agents.Profile{
			Type: "developer", Version: "1.0.0", MaxTasks: agentSlots, Timeout: time.Minute,
			Capabilities: []agents.Capability{{Name: "crash", Category: "test"}},
		}})
		require.NoError(c.t, err)
		got, err := s.Collect(c.t.Context(), agents.Collection{Task: task, By: operator})
		require.NoError(c.t, err)
		c.credentials = append(c.credentials, peer.Credential{
			URL: c.door.url(), Agent: m.ID, Name: name, MaxTasks: agentSlots, Secret: got.Secret, IssuedAt: m.RegisteredAt, ExpiresAt: m.ExpiresAt,
		})
		c.agents = append(c.agents, nil)
		c.startAgent(i)
	}
}

func (c *cluster) startAgent(i int) {
	c.t.Helper()
	text, err := json.Marshal(c.credentials[i])
	require.NoError(c.t, err)
	c.agents[i] = c.spawn(roleAgent, envAgent+"="+string(text))
	c.mu.Lock()
	c.agentOf[c.agents[i].pid()] = agents.Prefix + c.credentials[i].Name
	c.mu.Unlock()
	c.agents[i].ready()
}

// agentAway records that an agent is absent from now until the returned function is called.
func (c *cluster) agentAway(i int) func() { return c.away(agents.Prefix + c.credentials[i].Name) }

// away records that a participant is absent from now until the returned function is called.
func (c *cluster) away(who string) func() {
	from := time.Now()
	return func() { c.wasAway(who, from, time.Now()) }
}

func (c *cluster) wasAway(who string, from, to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.absences = append(c.absences, crash.Absence{Who: who, From: from, To: to})
}

func (c *cluster) killAgent(s strike) {
	c.t.Helper()
	c.frozen.Wait()
	i := s.worker % len(c.agents)
	defer c.agentAway(i)()
	c.agents[i].kill()
	wait(s.away)
	c.startAgent(i)
}

// stopAgent suspends an agent for longer than its leases.
func (c *cluster) stopAgent(s strike) {
	c.frozen.Wait()
	i := s.worker % len(c.agents)
	a, back := c.agents[i], c.agentAway(i)
	a.signal(syscall.SIGSTOP)
	c.frozen.Go(func() {
		wait(s.away)
		a.signal(syscall.SIGCONT)
		wait(lease / 4) // until it is heard
		back()
	})
}

// drainAgent stops an agent and replaces it: the agent releases the calls that it cannot finish in time.
func (c *cluster) drainAgent(i int) {
	c.t.Helper()
	defer c.agentAway(i)()
	c.drains = append(c.drains, c.agents[i].terminate())
	c.startAgent(i)
}

// drainNamed replaces an agent, so that it can have no further effect.
func (c *cluster) drainNamed(actor string) {
	c.t.Helper()
	for i, cred := range c.credentials {
		if agents.Prefix+cred.Name == actor {
			c.frozen.Wait()
			c.drainAgent(i)
		}
	}
}

// playAgent runs an agent process, which also sends messages to other agents and reads theirs.
func playAgent(ctx context.Context, stop func()) error {
	var cred peer.Credential
	if err := json.Unmarshal([]byte(os.Getenv(envAgent)), &cred); err != nil {
		return err
	}
	dir := os.Getenv(envDir)
	post, err := crash.OpenMessageLog(messageLogPath(dir))
	if err != nil {
		return err
	}
	defer post.Close() //nolint:errcheck // what was written is written
	speaker := &http.Client{Transport: &http.Transport{}}
	defer speaker.CloseIdleConnections()
	a := &agent{cred: cred, dir: dir, messages: post, http: speaker}
	p, err := peer.New(peer.Config{Credential: cred, Handler: a.handle, Drain: agentDrain, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	if err := printLine("ready"); err != nil {
		return err
	}
	go answer(stop)
	var reading sync.WaitGroup
	reading.Go(func() { a.read(ctx) })
	defer reading.Wait()
	return p.Run(ctx)
}

// agent is the state of an agent process.
type agent struct {
	cred     peer.Credential
	dir      string
	messages *crash.MessageLog
	http     *http.Client
}

// handle makes a call: it writes its effect to the ledger, and sends a message about it to another agent.
func (a *agent) handle(ctx context.Context, call agents.Assignment, progress func(work.Progress)) agents.Report {
	var args struct{ Data struct{ Tool string } }
	if err := json.Unmarshal(call.Args, &args); err != nil {
		return agents.Report{Error: err.Error()}
	}
	if rand.IntN(16) == 0 { // nothing is done yet
		return agents.Report{HandTo: &events.Agents{Requires: []string{"crash"}}, Error: "for somebody else"}
	}
	progress(work.Progress{Message: "begun"})
	longest := agentWork
	if rand.IntN(4) == 0 {
		longest = longWork
	}
	e := crash.Effect{Tool: args.Data.Tool, Task: call.Task, Step: call.Step, Attempt: call.Attempt, Key: call.Key, PID: os.Getpid()}
	if err := perform(ctx, a.dir, e, time.Millisecond, longest); err != nil {
		return agents.Report{Error: err.Error()}
	}
	if rand.IntN(3) == 0 {
		if err := a.sendMessage(ctx, call.Key); err != nil {
			return agents.Report{Error: err.Error()}
		}
	}
	return agents.Report{Result: json.RawMessage(`{"done":true}`)}
}

// sendMessage sends a message about a call to another agent, and repeats that until the node acknowledges it. The key makes
// repeated sends one message. Each sending agent has its own letters.
func (a *agent) sendMessage(ctx context.Context, key string) error {
	others := []string{"user:r0", agents.Prefix + agentNames()[1]}
	if a.cred.Name == agentNames()[1] {
		others[1] = agents.Prefix + agentNames()[0]
	}
	m := crash.MessageEvent{Who: agents.Prefix + a.cred.Name, Letter: a.cred.Name + " " + key, For: others[:1+len(key)%2], Sender: agents.Prefix + a.cred.Name}
	m.What, m.Asked = crash.Tried, time.Now()
	if err := a.messages.Append(m); err != nil {
		return err
	}
	var sent struct {
		ID      string    `json:"message_id"`
		Expires time.Time `json:"expires_at"`
	}
	params := map[string]any{"to": m.For, "text": m.Letter, "key": key, "type": "task", "ttl_seconds": int(letterLife.Seconds())}
	if err := a.callUntilAnswered(ctx, "MESSAGE_SEND", params, &sent); err != nil {
		return err
	}
	m.What, m.ID, m.Expires, m.At = crash.Sent, sent.ID, sent.Expires, time.Now()
	return a.messages.Append(m)
}

// read reads the inbox of the agent and acknowledges it until ctx ends.
func (a *agent) read(ctx context.Context) {
	who := agents.Prefix + a.cred.Name
	for ctx.Err() == nil {
		var page struct {
			Messages []struct {
				ID       string    `json:"message_id"`
				Sender   string    `json:"sender"`
				Expires  time.Time `json:"expires_at"`
				Position uint64    `json:"position"`
				Payload  struct{ Text string }
			}
		}
		asked := time.Now()
		if err := a.callUntilAnswered(ctx, "MESSAGE_INBOX", map[string]any{"limit": 50, "wait_seconds": 1}, &page); err != nil {
			continue
		}
		var ids []string
		var seen, acked []crash.MessageEvent
		for _, m := range page.Messages {
			e := crash.MessageEvent{What: crash.Seen, Who: who, Letter: m.Payload.Text, ID: m.ID, Sender: m.Sender, Position: m.Position, Expires: m.Expires, Asked: asked, At: time.Now()}
			seen, ids = append(seen, e), append(ids, m.ID)
		}
		if len(ids) == 0 || a.messages.Append(seen...) != nil {
			continue
		}
		if a.callUntilAnswered(ctx, "MESSAGE_ACK", map[string]any{"message_ids": ids}, nil) != nil {
			continue
		}
		for _, id := range ids {
			acked = append(acked, crash.MessageEvent{What: crash.Acked, Who: who, ID: id, At: time.Now()})
		}
		_ = a.messages.Append(acked...) // what is missing there is not checked
	}
}

// callUntilAnswered calls a tool as the agent, and retries while the node is unavailable. It returns any other error.
func (a *agent) callUntilAnswered(ctx context.Context, method string, params, result any) error {
	for {
		err := a.call(ctx, method, params, result)
		if err == nil || ctx.Err() != nil || !unknown(err) {
			if err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "agent_refused", method, err)
			}
			return err
		}
		if err := pause.For(ctx, 2*retryEvery); err != nil {
			return err
		}
	}
}

// call calls a tool as the agent.
func (a *agent) call(ctx context.Context, method string, params, result any) error {
	ctx, stop := context.WithTimeout(ctx, oneAnswer)
	defer stop()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.cred.URL+"/rpc", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+a.cred.Secret)
	answer, err := a.http.Do(r)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "there is no node")
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the answer has no end")
	}
	var reply struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Message string `json:"message"`
			Data    struct {
				Name string `json:"name"`
			} `json:"data"`
		} `json:"error"`
	}
	if err := json.Unmarshal(text, &reply); err != nil {
		return fault.Wrap(fault.Unavailable, err, "the answer cannot be read: "+answer.Status)
	}
	if e := reply.Error; e != nil {
		return fault.New(fault.Code(e.Data.Name), "%s", e.Message)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(reply.Result, result)
}

func messageLogPath(dir string) string { return filepath.Join(dir, "post") }

// secrets are those that must be nowhere: that of the tools, and those of the agents.
func (c *cluster) secrets() []string {
	list := []string{secret()}
	for _, cred := range c.credentials {
		list = append(list, cred.Secret)
	}
	return list
}

// absent returns the absences so far; whoever is away still is so until now.
func (c *cluster) absent() []crash.Absence {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.absences)
}

package rpc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/work"
)

// fakeDispatcher is a node for agents over NATS, and its own dispatcher: it dispatches the calls of the test.
type fakeDispatcher struct {
	*bustest.Node
	tokens *bus.Tokens
	calls  chan agents.Assignment
	// asked is signalled when a claim starts to wait.
	asked chan struct{}

	mu      sync.Mutex
	now     time.Time
	reports []string
}

func serveAgents(t *testing.T) *fakeDispatcher {
	t.Helper()
	c := &fakeDispatcher{Node: bustest.NewNode(t, bus.ServerConfig{}), calls: make(chan agents.Assignment, 8), asked: make(chan struct{}, 512), now: time.Now()}
	var err error
	c.tokens, err = c.OpenTokens(t.Context(), bus.TokensConfig{Now: c.clock})
	require.NoError(t, err)
	t.Cleanup(c.tokens.Close)
	end, err := rpc.ServeAgentDispatcher(c.Conn, c.agents())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, end.Close(t.Context())) })
	return c
}

func (c *fakeDispatcher) agents() rpc.AgentsConfig {
	return rpc.AgentsConfig{
		Dispatcher: c, Member: c.member, While: c.tokens.AgentContext,
		Renew: rpc.HandleAgent(func(_ context.Context, m agents.Member, _ struct{}) (string, error) { return "for " + m.Name, nil }),
		Status: func(code fault.Code) int {
			if code == fault.Unauthorized || code == fault.TokenExpired {
				return http.StatusUnauthorized
			}
			return http.StatusBadRequest
		},
	}
}

func (c *fakeDispatcher) clock() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeDispatcher) member(_ context.Context, id string) (agents.Member, error) {
	t, err := c.tokens.AgentToken(id)
	if err != nil {
		return agents.Member{}, err
	}
	return agents.Member{Profile: *t.Agent, Name: t.Name}, nil
}

// Claim implements rpc.AgentDispatcher.
func (c *fakeDispatcher) Claim(ctx context.Context, _ agents.Member, in agents.Claim) (agents.Work, error) {
	if in.Free < 1 {
		return agents.Work{}, fault.New(fault.ValidationError, "must be at least 1").WithField("free")
	}
	if in.Wait == 0 {
		return agents.Work{}, nil
	}
	select {
	case c.asked <- struct{}{}:
	case <-ctx.Done():
	}
	select {
	case a := <-c.calls:
		return agents.Work{Calls: []agents.Assignment{a}}, nil
	case <-ctx.Done():
		return agents.Work{}, fault.From(ctx.Err())
	}
}

// Heartbeat implements rpc.AgentDispatcher.
func (c *fakeDispatcher) Heartbeat(_ context.Context, m agents.Member, b agents.Heartbeat) (agents.Work, error) {
	if b.Error != "" {
		return agents.Work{}, fault.New(fault.SecretDetected, "%s", b.Error)
	}
	return agents.Work{Stop: []work.Ref{{Step: m.Name}}}, nil
}

// Report implements rpc.AgentDispatcher.
func (c *fakeDispatcher) Report(_ context.Context, m agents.Member, r agents.Report) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reports = append(c.reports, fmt.Sprintf("%s %s %s handed on: %t", m.Name, r.Step, r.Result, r.HandTo != nil))
	return nil
}

// Requeue implements rpc.AgentDispatcher.
func (c *fakeDispatcher) Requeue(_ context.Context, h agents.Delivery) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range h.Calls {
		c.reports = append(c.reports, fmt.Sprintf("%s %s taken back", h.Name, call.Step))
	}
	return nil
}

func (c *fakeDispatcher) told() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.reports...)
}

// enrol registers an agent and returns its id and its secret.
func (c *fakeDispatcher) enrol(t *testing.T, name string) (id, secret string) {
	t.Helper()
	token, secret := bustest.Issue(t, c.tokens, asAgent(name))
	return token.Agent.ID, secret
}

func asAgent(name string) bus.NewToken {
	return bus.NewToken{Name: name, Role: bus.RoleAgent, Actor: "user:test", Life: 24 * time.Hour, Agent: &agents.Profile{
		ID: events.NewAgentID(time.Now()), Type: "developer", Version: "1.0.0", MaxTasks: 1, Timeout: time.Minute,
		Capabilities: []agents.Capability{{Name: "build", Category: "test"}},
	}}
}

// agentConn is an agent that uses a NATS library and no code of this module.
type agentConn struct {
	*nats.Conn
	id      string
	refused chan error
	closed  chan struct{}
}

// await returns the next value, or fails if the channel is closed.
func await[T any](t *testing.T, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(2 * time.Minute):
		require.Fail(t, "nothing comes")
	}
	return got
}

func (c *fakeDispatcher) connect(t *testing.T, id string, login nats.Option) *agentConn {
	t.Helper()
	v := &agentConn{id: id, refused: make(chan error, 16), closed: make(chan struct{})}
	var err error
	v.Conn, err = bustest.ConnectPlain(c.Server.Addr(), login, nats.CustomInboxPrefix("_INBOX."+id), nats.NoReconnect(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { v.refused <- err }),
		nats.ClosedHandler(func(*nats.Conn) { close(v.closed) }))
	require.NoError(t, err)
	t.Cleanup(v.Close)
	return v
}

// say sends a request and returns the body of the answer, with the error code if it is an error.
func (v *agentConn) say(t *testing.T, name, body string) (answer, code string) {
	t.Helper()
	m, err := v.Request("orch.agent."+v.id+"."+name, []byte(body), time.Minute)
	require.NoError(t, err)
	return string(m.Data), m.Header.Get("Nats-Service-Error-Code")
}

// Nobody can connect as an agent before the node knows the agents, and afterwards only registered agents can.
func TestAgentsConnectWithTheirCredentials(t *testing.T) {
	t.Parallel()
	c := serveAgents(t)
	id, secret := c.enrol(t, "worker") // a user of the server has the same name
	_, err := bustest.ConnectPlain(c.Server.Addr(), nats.Token(secret))
	require.ErrorIs(t, err, nats.ErrAuthorization, "the node is not ready")
	c.Server.AdmitAgents(c.tokens)
	for _, login := range []nats.Option{nats.Token(secret), nats.UserInfo("worker", secret), nats.UserInfo(id, secret)} {
		v := c.connect(t, id, login)
		answer, code := v.say(t, "status", `{}`)
		assert.JSONEq(t, `{"stop":[{"task":"","step":"worker","attempt":0}]}`, answer)
		assert.Empty(t, code)
	}
	_, plain, err := bus.IssueToken(t.Context(), c.tokens, bus.NewToken{Name: "boss", Role: bus.RoleSubmitter, Actor: "user:test"})
	require.NoError(t, err)
	other, _ := c.enrol(t, "other")
	for why, login := range map[string]nats.Option{
		"no secret":          nats.UserInfo("worker", ""),
		"nothing":            nats.Name("x"),
		"a wrong secret":     nats.UserInfo(id, agents.NewSecret()),
		"a part":             nats.Token(secret[:20]),
		"the wrong agent":    nats.UserInfo(other, secret),
		"the operator":       nats.UserInfo(bus.OperatorUser, secret),
		"no agent's":         nats.Token(plain),
		"no agent's, a name": nats.UserInfo("boss", plain),
	} {
		_, err := bustest.ConnectPlain(c.Server.Addr(), login)
		require.ErrorIs(t, err, nats.ErrAuthorization, why)
	}
}

// An agent can send requests as itself and receive its own answers, and nothing else, also with wildcards.
func TestAgentsReachNothingElse(t *testing.T) {
	t.Parallel()
	c := serveAgents(t)
	c.Server.AdmitAgents(c.tokens)
	ada, secret := c.enrol(t, "ada")
	bob, other := c.enrol(t, "bob")
	v, w := c.connect(t, ada, nats.Token(secret)), c.connect(t, bob, nats.Token(other))
	heard, err := w.SubscribeSync("_INBOX." + bob + ".>")
	require.NoError(t, err)
	require.NoError(t, w.Flush())
	for _, subject := range []string{
		">", "*.>", "_INBOX.>", "_INBOX.*.>", "_INBOX.*", "_INBOX." + bob + ".>", "_INBOX." + bob + ".x", "_INBOX_worker.>",
		"orch.>", "orch.agent.>", "orch.agent.*.tasks", "orch.agent." + ada + ".tasks", "orch.agent." + bob + ".>", "orch.ev.>", "$SYS.>", "$JS.>",
	} {
		_, err := v.SubscribeSync(subject)
		require.NoError(t, err)
		require.ErrorIs(t, await(t, v.refused), nats.ErrPermissionViolation, "listening to %s", subject)
	}
	_, err = v.QueueSubscribeSync("orch.agent.*.*", "orch")
	require.NoError(t, err)
	require.ErrorIs(t, await(t, v.refused), nats.ErrPermissionViolation, "answering in place of the node")
	for _, subject := range []string{
		"orch.agent." + bob + ".tasks", "orch.agent.tasks", "orch.agents.list", "orch.work.poll", "orch.cmd.submit", "orch.notice.x",
		"orch.ev.00.x", "_INBOX." + bob + ".x", "_INBOX." + ada + ".x", "$JS.API.STREAM.LIST", "$JS.API.STREAM.DELETE.ORCH_EVENTS", "$KV.ORCH_TOKENS.x",
	} {
		require.NoError(t, v.Publish(subject, []byte(`{}`)))
		require.ErrorIs(t, await(t, v.refused), nats.ErrPermissionViolation, "publishing to %s", subject)
	}
	// Without the check, the node would answer at any subject.
	commanded := make(chan struct{}, 1)
	end, err := rpc.Serve(c.Conn, bus.CommandPrefix, map[string]rpc.Method{
		"pause": func(context.Context, []byte) ([]byte, error) { commanded <- struct{}{}; return nil, nil },
	}, rpc.EndpointConfig{})
	require.NoError(t, err)
	defer func() { require.NoError(t, end.Close(t.Context())) }()
	for _, reply := range []string{"orch.cmd.pause", "_INBOX." + bob + ".x", "_INBOX." + ada + "x.y", "_INBOX." + ada, "orch.agent." + bob + ".results"} {
		require.NoError(t, v.PublishRequest("orch.agent."+ada+".status", reply, []byte(`{}`)))
	}
	require.NoError(t, v.Publish("orch.agent."+ada+".tasks", []byte(`{}`)))
	require.NoError(t, v.PublishRequest("orch.agent."+ada+".none", "_INBOX."+bob+".x", nil))
	answer, code := v.say(t, "status", `{}`) // earlier messages have been read by now
	assert.Contains(t, answer, "ada")
	assert.Empty(t, code)
	answer, _ = w.say(t, "status", `{}`)
	assert.Contains(t, answer, "bob")
	require.NoError(t, w.Flush())
	queued, _, err := heard.Pending()
	require.NoError(t, err)
	assert.Equal(t, 1, queued, "bob has heard the answer to himself alone")
	assert.Empty(t, commanded)
}

// Requests and answers are the same as over HTTP. An error is marked as in the micro services of NATS.
func TestAgentsSpeakOverNATS(t *testing.T) {
	t.Parallel()
	c := serveAgents(t)
	c.Server.AdmitAgents(c.tokens)
	id, secret := c.enrol(t, "ada")
	v := c.connect(t, id, nats.Token(secret))
	c.calls <- agents.Assignment{Ref: work.Ref{Task: "TASK_1", Step: "a", Attempt: 1}, Args: json.RawMessage(`{"title":"x"}`)}
	answer, code := v.say(t, "tasks", `{"free":1,"wait":1000000000}`)
	assert.Empty(t, code)
	var given agents.Work
	require.NoError(t, json.Unmarshal([]byte(answer), &given))
	require.Len(t, given.Calls, 1)
	assert.Equal(t, "a", given.Calls[0].Step)
	answer, code = v.say(t, "results", `{"task":"TASK_1","step":"a","attempt":1,"result":{"n":1}}`)
	assert.Empty(t, code)
	assert.JSONEq(t, `{}`, answer)
	assert.Equal(t, []string{`ada a {"n":1} handed on: false`}, c.told())
	answer, _ = v.say(t, "credential", ``)
	assert.JSONEq(t, `"for ada"`, answer)

	for name, test := range map[string]struct{ subject, body, code string }{
		"none":          {"tasks", `{"free":0}`, "VALIDATION_ERROR"},
		"no JSON":       {"tasks", `{`, "PARSE_ERROR"},
		"unknown field": {"tasks", `{"free":1,"agent":"bob"}`, "INVALID_PARAMS"},
		"wrong type":    {"status", `{"calls":1}`, "INVALID_PARAMS"},
		"large":         {"results", `{"error":"` + strings.Repeat("x", 6<<20) + `"}`, "VALIDATION_ERROR"},
		"elsewhere":     {"none", `{}`, "NOT_FOUND"},
		"deeper":        {"status.x", `{}`, ""},
	} {
		if test.code == "" {
			_, err := v.Request("orch.agent."+id+"."+test.subject, []byte(test.body), time.Minute)
			require.ErrorIs(t, err, nats.ErrNoResponders, name)
			continue
		}
		m, err := v.Request("orch.agent."+id+"."+test.subject, []byte(test.body), time.Minute)
		require.NoError(t, err, name)
		assert.Equal(t, "400", m.Header.Get("Nats-Service-Error-Code"), name)
		assert.Contains(t, m.Header.Get("Nats-Service-Error"), test.code, name)
		var f fault.Error
		require.NoError(t, json.Unmarshal(m.Data, &f), name)
		assert.Equal(t, test.code, string(f.Code), name)
	}
	m, err := v.Request("orch.agent."+id+".status", []byte(`{"error":"two\r\nlines: \u00e4"}`), time.Minute)
	require.NoError(t, err)
	assert.NotContains(t, m.Header.Get("Nats-Service-Error"), "\n")
}

// A connection ends with the agent, and soon after the credential. A waiting claim gets no call then.
func TestConnectionsOfAgentsEnd(t *testing.T) {
	t.Parallel()
	c := serveAgents(t)
	c.Server.AdmitAgents(c.tokens)
	id, secret := c.enrol(t, "ada")
	bob, other := c.enrol(t, "bob")
	v, stays := c.connect(t, id, nats.Token(secret)), c.connect(t, bob, nats.Token(other))
	waiting, err := v.SubscribeSync("_INBOX." + id + ".w")
	require.NoError(t, err)
	require.NoError(t, v.PublishRequest("orch.agent."+id+".tasks", waiting.Subject, []byte(`{"free":1,"wait":30000000000}`)))
	await(t, c.asked)
	_, err = c.tokens.RevokeToken(t.Context(), bus.RevokeToken{Token: "ada", Actor: "user:test"})
	require.NoError(t, err)
	await(t, v.closed)
	_, err = bustest.ConnectPlain(c.Server.Addr(), nats.Token(secret))
	require.ErrorIs(t, err, nats.ErrAuthorization)

	_, code := stays.say(t, "status", `{}`)
	assert.Empty(t, code, "bob stays")
	c.mu.Lock()
	c.now = c.now.Add(25 * time.Hour)
	c.mu.Unlock()
	answer, code := stays.say(t, "status", `{}`)
	assert.Equal(t, "401", code, "the credential has expired, whatever the connection says: %s", answer)
	assert.Contains(t, answer, "TOKEN_EXPIRED")
	_, err = bustest.ConnectPlain(c.Server.Addr(), nats.Token(other))
	require.ErrorIs(t, err, nats.ErrAuthorization)
}

// The server itself ends a connection when its credential expires. After a renewal, the old connection ends a little later, so
// that the answer with the new credential arrives.
func TestConnectionsOfAgentsEndWithTheirCredentials(t *testing.T) {
	t.Parallel()
	c := serveAgents(t)
	c.Server.AdmitAgents(c.tokens)
	ended := c.connectFor(t, 2*time.Second)

	first := asAgent("ada")
	token, secret := bustest.Issue(t, c.tokens, first)
	v := c.connect(t, token.Agent.ID, nats.Token(secret))
	first.Replaces = token.ID
	_, fresh := bustest.Issue(t, c.tokens, first)
	_, err := bustest.ConnectPlain(c.Server.Addr(), nats.Token(secret))
	require.ErrorIs(t, err, nats.ErrAuthorization, "it was replaced")
	answer, code := v.say(t, "status", `{}`)
	assert.Empty(t, code, "the answer with the new one would still arrive: %s", answer)
	next := c.connect(t, token.Agent.ID, nats.Token(fresh))
	await(t, v.closed)
	_, code = next.say(t, "status", `{}`)
	assert.Empty(t, code)
	await(t, ended)
}

// connectFor connects with a credential that expires soon, but not before the connection is established. The returned channel
// is closed with the connection.
func (c *fakeDispatcher) connectFor(t *testing.T, life time.Duration) <-chan struct{} {
	t.Helper()
	for ; ; life *= 2 {
		c.mu.Lock()
		c.now = time.Now()
		c.mu.Unlock()
		short := asAgent("short" + life.String())
		short.Life = life
		token, secret := bustest.Issue(t, c.tokens, short)
		closed := make(chan struct{})
		nc, err := bustest.ConnectPlain(c.Server.Addr(), nats.Token(secret), nats.CustomInboxPrefix(bus.AgentInbox(token.Agent.ID)), nats.NoReconnect(),
			nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
		if err == nil {
			t.Cleanup(nc.Close)
			return closed
		}
		require.Less(t, life, time.Minute, "%v", err)
	}
}

// The calls of an undelivered answer are requeued at once: the agent is gone.
func TestCallsOfAgentsThatAreGoneGoOn(t *testing.T) {
	t.Parallel()
	c := serveAgents(t)
	c.Server.AdmitAgents(c.tokens)
	id, secret := c.enrol(t, "ada")
	v := c.connect(t, id, nats.Token(secret))
	waiting, err := v.SubscribeSync("_INBOX." + id + ".w")
	require.NoError(t, err)
	require.NoError(t, v.PublishRequest("orch.agent."+id+".tasks", waiting.Subject, []byte(`{"free":1,"wait":30000000000}`)))
	await(t, c.asked)
	require.NoError(t, waiting.Unsubscribe())
	require.NoError(t, v.Flush())
	c.calls <- agents.Assignment{Ref: work.Ref{Task: "TASK_1", Step: "lost", Attempt: 1}}
	require.Eventually(t, func() bool { return len(c.told()) == 1 }, time.Minute, 10*time.Millisecond)
	assert.Equal(t, []string{"ada lost taken back"}, c.told())
}

// Delivered calls are remembered while the server may still report them as undelivered.
func TestAnswersToAgentsAreForgotten(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	assert.ElementsMatch(t, []uint64{2, 3}, rpc.AnswersKept([]time.Time{begin, begin.Add(time.Second), begin.Add(time.Minute)}))
	assert.Len(t, rpc.AnswersKept(make([]time.Time, 5000)), 4096)
}

// The connections and concurrent requests of one agent are limited.
func TestAgentsAreBounded(t *testing.T) {
	t.Parallel()
	c := serveAgents(t)
	c.Server.AdmitAgents(c.tokens)
	id, secret := c.enrol(t, "ada")
	var v *agentConn
	for range 8 {
		v = c.connect(t, id, nats.Token(secret))
	}
	_, err := bustest.ConnectPlain(c.Server.Addr(), nats.Token(secret))
	require.ErrorIs(t, err, nats.ErrAuthorization)
	v.Close()
	require.Eventually(t, func() bool {
		nc, err := bustest.ConnectPlain(c.Server.Addr(), nats.Token(secret), nats.CustomInboxPrefix("_INBOX."+id))
		if err == nil {
			v.Conn = nc
		}
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	t.Cleanup(v.Close)

	answers, err := v.SubscribeSync("_INBOX." + id + ".w")
	require.NoError(t, err)
	for range 256 {
		require.NoError(t, v.PublishRequest("orch.agent."+id+".tasks", answers.Subject, []byte(`{"free":1,"wait":30000000000}`)))
	}
	for range 256 {
		await(t, c.asked)
	}
	m, err := v.Request("orch.agent."+id+".status", []byte(`{}`), time.Minute)
	require.NoError(t, err)
	assert.Contains(t, string(m.Data), "RATE_LIMITED")
	other, key := c.enrol(t, "bob")
	answer, code := c.connect(t, other, nats.Token(key)).say(t, "status", `{}`)
	assert.Empty(t, code, "the others are served: %s", answer)
}

// The server may be restarted: agents can connect again, and nobody else can.
func TestAgentsOutliveTheServer(t *testing.T) {
	t.Parallel()
	c := serveAgents(t)
	c.Server.AdmitAgents(c.tokens)
	id, secret := c.enrol(t, "ada")
	nc, err := bustest.ConnectPlain(c.Server.Addr(), nats.UserInfo("ada", secret), nats.CustomInboxPrefix("_INBOX."+id), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	require.NoError(t, err)
	defer nc.Close()
	require.NoError(t, c.Server.Restart())
	require.Eventually(t, func() bool {
		m, err := nc.Request("orch.agent."+id+".status", []byte(`{}`), time.Second)
		return err == nil && strings.Contains(string(m.Data), "ada")
	}, time.Minute, 10*time.Millisecond)
	_, err = bustest.ConnectPlain(c.Server.Addr(), nats.UserInfo("ada", "wrong"))
	require.ErrorIs(t, err, nats.ErrAuthorization)
	client, err := bustest.ConnectPlain(c.Server.Addr(), bustest.Operator(t, c.Config.DataDir))
	require.NoError(t, err)
	client.Close()
	_, err = c.tokens.RevokeToken(t.Context(), bus.RevokeToken{Token: "ada", Actor: "user:test"})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !nc.IsConnected() }, time.Minute, 10*time.Millisecond)
}

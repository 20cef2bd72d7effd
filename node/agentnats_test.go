package node_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
)

// wire speaks the NATS protocol as text, without a library.
type wire struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	id   string
	// n counts the requests.
	n int
}

// connect connects an agent by its name and its secret.
func connect(t *testing.T, n *node.Node, cred peer.Credential) *wire {
	t.Helper()
	conn, err := (&net.Dialer{Timeout: time.Minute}).DialContext(t.Context(), "tcp", strings.TrimPrefix(n.Address(), "nats://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(2*time.Minute)))
	w := &wire{t: t, conn: conn, in: bufio.NewReader(conn), id: cred.Agent}
	require.True(t, strings.HasPrefix(w.line(), "INFO "))
	w.send(`CONNECT {"verbose":false,"pedantic":false,"headers":true,"user":%q,"pass":%q}`, cred.Name, cred.Secret)
	w.send("SUB _INBOX.%s.> 1", w.id)
	w.send("PING")
	return w
}

func (w *wire) send(format string, args ...any) {
	w.t.Helper()
	_, err := fmt.Fprintf(w.conn, format+"\r\n", args...)
	require.NoError(w.t, err)
}

func (w *wire) line() string {
	w.t.Helper()
	text, err := w.in.ReadString('\n')
	require.NoError(w.t, err)
	return strings.TrimSpace(text)
}

// ask sends a request and returns the body of the answer, with its headers.
func (w *wire) ask(name, body string) (answer, headers string) {
	w.t.Helper()
	w.n++
	w.send("PUB orch.agent.%s.%s _INBOX.%s.%d %d\r\n%s", w.id, name, w.id, w.n, len(body), body)
	for {
		var header, size int
		switch line := w.line(); {
		case line == "PING":
			w.send("PONG")
			continue
		case strings.HasPrefix(line, "HMSG "):
			_, err := fmt.Sscanf(line, fmt.Sprintf("HMSG _INBOX.%s.%d 1 %%d %%d", w.id, w.n), &header, &size)
			require.NoError(w.t, err, line)
		case strings.HasPrefix(line, "MSG "):
			fields := strings.Fields(line)
			_, err := fmt.Sscan(fields[len(fields)-1], &size)
			require.NoError(w.t, err, line)
		case strings.HasPrefix(line, "-ERR"):
			require.Fail(w.t, "the server refuses", line)
		default:
			continue
		}
		data := make([]byte, size+2)
		_, err := io.ReadFull(w.in, data)
		require.NoError(w.t, err)
		return string(data[header:size]), string(data[:header])
	}
}

// A program in any language can be an agent with a few lines of text: it claims a call, renews its lease and reports its end.
func TestAgentWorksOverPlainNATS(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	ada, bob := connect(t, n, enrol(t, n, "ada", 1, "build")), connect(t, n, enrol(t, n, "bob", 1, "build"))
	id := submit(t, n.API(), agentStep)
	answer, headers := ada.ask("tasks", `{"free":1,"wait":20000000000}`)
	assert.NotContains(t, headers, "Error")
	var given agents.Work
	require.NoError(t, json.Unmarshal([]byte(answer), &given), answer)
	require.Len(t, given.Calls, 1)
	call := given.Calls[0]
	assert.Equal(t, id, call.Task)
	none, _ := bob.ask("tasks", `{"free":1}`)
	assert.JSONEq(t, `{}`, none, "ada has it")
	ref := fmt.Sprintf(`"task":%q,"step":%q,"attempt":%d`, call.Task, call.Step, call.Attempt)
	answer, _ = ada.ask("status", `{"calls":[{`+ref+`,"progress":{"done":1,"total":2}}]}`)
	assert.JSONEq(t, `{}`, answer)
	answer, headers = bob.ask("results", `{`+ref+`,"result":{"by":"bob"}}`)
	assert.Contains(t, headers, "Nats-Service-Error-Code: 409")
	assert.Contains(t, answer, "CONFLICT")
	answer, headers = ada.ask("results", `{`+ref+`,"result":{"by":"ada"}}`)
	assert.JSONEq(t, `{}`, answer, headers)
	r := result(t, n.API(), id)
	require.Equal(t, statemachine.Done, r.State)
	assert.JSONEq(t, `{"result":{"by":"ada"}}`, string(r.Output))
	assert.Contains(t, actorsOf(t, n, id), "agent:ada")

	answer, _ = ada.ask("credential", `{}`)
	var fresh peer.Credential
	require.NoError(t, json.Unmarshal([]byte(answer), &fresh), answer)
	answer, headers = ada.ask("credential", `{}`)
	assert.Contains(t, headers, "Nats-Service-Error-Code: 429", "the connection is that of the credential before")
	assert.Contains(t, answer, "RATE_LIMITED")
	again := connect(t, n, peer.Credential{Agent: ada.id, Name: "ada", Secret: fresh.Secret})
	answer, headers = again.ask("status", `{}`)
	assert.JSONEq(t, `{}`, answer, headers)
	_, err := n.Agents().Remove(t.Context(), agents.Removal{Agent: "ada", By: "user:test"})
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, again.conn)
	require.NoError(t, err, "the server has closed the connection")
}

// A call that was sent to an agent that is gone by then is dispatched to another one, even if it has effects.
func TestCallForAnAgentThatIsGoneIsInNoDoubt(t *testing.T) {
	t.Parallel()
	n := withAgents(t)
	cred := enrol(t, n, "ada", 1, "build")
	ada := connect(t, n, cred)
	ada.send("UNSUB 1")
	ada.send("SUB _INBOX.%s.other 1", ada.id)
	ada.send("PUB orch.agent.%s.tasks _INBOX.%s.none %d\r\n%s", ada.id, ada.id, len(`{"free":1,"wait":30000000000}`), `{"free":1,"wait":30000000000}`)
	ada.send("PING")
	id := submit(t, n.API(), writeStep)
	bob := connect(t, n, enrol(t, n, "bob", 1, "build"))
	var given agents.Work
	require.Eventually(t, func() bool {
		task, err := n.API().Get(t.Context(), api.GetRequest{ID: id})
		if err != nil || task.Steps[0].Attempt < 2 { // ada gets it first
			return false
		}
		answer, _ := bob.ask("tasks", `{"free":1}`)
		return json.Unmarshal([]byte(answer), &given) == nil && len(given.Calls) == 1
	}, time.Minute, 10*time.Millisecond)
	call := given.Calls[0]
	answer, _ := bob.ask("results", fmt.Sprintf(`{"task":%q,"step":%q,"attempt":%d,"result":1}`, call.Task, call.Step, call.Attempt))
	assert.JSONEq(t, `{}`, answer)
	assert.Equal(t, statemachine.Done, result(t, n.API(), id).State)
}

// On an external server, a credential is not renewed for whoever has the permission for a subject. That needs the credential
// itself.
func TestCredentialsAreNotRenewedOverAnExternalServer(t *testing.T) {
	t.Parallel()
	server, err := bus.StartServer(t.Context(), bus.ServerConfig{DataDir: filepath.Join(t.TempDir(), "nats")})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close(context.Background())) })
	cfg := config(t)
	cfg.Faces.HTTP, cfg.Storage.NATSURL = "127.0.0.1:0", withCredential(t, server)
	n := start(t, cfg)
	ada := enrol(t, n, "ada", 1, "build")
	c, err := bus.Dial(t.Context(), bus.DialConfig{URL: cfg.Storage.NATSURL})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	ask := func(name, body string) (answer, code string) {
		inbox := bus.AgentInbox(ada.Agent) + ".1"
		answers, err := c.NATS().SubscribeSync(inbox)
		require.NoError(t, err)
		defer func() { require.NoError(t, answers.Unsubscribe()) }()
		require.NoError(t, c.NATS().PublishRequest("orch.agent."+ada.Agent+"."+name, inbox, []byte(body)))
		m, err := answers.NextMsg(time.Minute)
		require.NoError(t, err)
		return string(m.Data), m.Header.Get("Nats-Service-Error-Code")
	}
	answer, _ := ask("status", `{}`)
	assert.JSONEq(t, `{}`, answer)
	digest := sha256.Sum256([]byte("orch_" + strings.Repeat("x", 43)))
	for _, body := range []string{`{}`, fmt.Sprintf(`{"digest":"%x"}`, digest)} {
		refused, code := ask("credential", body)
		assert.Equal(t, "403", code)
		assert.Contains(t, refused, "FORBIDDEN")
		assert.Contains(t, refused, agents.CredentialPath)
	}
	status, answer := say(t, ada, agents.StatusPath, agents.Heartbeat{})
	assert.Equal(t, http.StatusOK, status, answer)
	status, answer = post(t, ada, agents.CredentialPath, `{}`)
	assert.Equal(t, http.StatusOK, status, answer)
}

func actorsOf(t *testing.T, n *node.Node, id events.TaskID) []string {
	t.Helper()
	history, err := n.API().History(t.Context(), api.HistoryRequest{ID: id})
	require.NoError(t, err)
	var actors []string
	for _, c := range history.Commits {
		actors = append(actors, c.Actor)
	}
	return actors
}

package server_test

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/mcp/server"
	mail "github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/messages/messagestest"
)

// withInboxes gives faces a service of messages.
func withInboxes() (*mail.Service, func(*server.Config)) {
	service := (&messagestest.Store{}).Open(mail.Config{})
	return service, func(c *server.Config) { c.HTTP.Tokens, c.Stores.Inboxes = tokens{}, service }
}

func post(t *testing.T, s *mail.Service, to, text string) {
	t.Helper()
	_, err := s.Send(t.Context(), "user:ada", mail.Draft{To: []string{to}, Payload: []byte(`{"text":"` + text + `"}`)})
	require.NoError(t, err)
}

const readInbox = `{"jsonrpc":"2.0","id":9,"method":"resources/read","params":{"uri":"orch://inbox"}}`

// An inbox is a resource, to each identity its own.
func TestInboxIsAResource(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	service, inboxes := withInboxes()
	face := n.face(inboxes)
	bob, eve := n.web(t, face), n.web(t, face)
	bob.token, eve.token = "bob.agent", "eve.operator"
	bob.open()
	eve.open()
	post(t, service, "user:bob", "for bob alone")
	assert.Contains(t, bob.post(`{"jsonrpc":"2.0","id":8,"method":"resources/list"}`).body, `"orch://inbox"`)
	assert.Contains(t, bob.post(readInbox).body, "for bob alone")
	a := eve.post(readInbox)
	assert.Nil(t, code(a))
	assert.NotContains(t, a.body, "for bob alone")
	for _, uri := range []string{"orch://inbox/user:bob", "orch://inbox/user%3Abob", "orch://inbox/"} {
		for _, method := range []string{"resources/read", "resources/subscribe"} {
			assert.EqualValues(t, -32002, code(eve.post(`{"jsonrpc":"2.0","id":9,"method":"`+method+`","params":{"uri":"`+uri+`"}}`)), "%s %s", method, uri)
		}
	}
}

// Who does not see the tool that reads the inbox does not see the resource.
func TestInboxFollowsTheSelection(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	_, inboxes := withInboxes()
	w := n.web(t, n.face(inboxes, func(c *server.Config) { c.Offer.Show = server.Selection{Tools: []string{"FILE_*"}} }))
	w.token = "bob.agent"
	w.open()
	assert.NotContains(t, w.post(`{"jsonrpc":"2.0","id":8,"method":"resources/list"}`).body, "orch://inbox")
	assert.EqualValues(t, -32002, code(w.post(readInbox)))
	assert.EqualValues(t, -32002, code(w.post(`{"jsonrpc":"2.0","id":9,"method":"resources/subscribe","params":{"uri":"orch://inbox"}}`)))
}

// updates yields the names of the changed resources that a stream reports.
func updates(t *testing.T, lines *bufio.Scanner) string {
	t.Helper()
	for lines.Scan() {
		if strings.Contains(lines.Text(), "notifications/resources/updated") {
			return lines.Text()
		}
	}
	require.Fail(t, "the stream has ended")
	return ""
}

// A session that subscribes is notified of messages to its identity and of no others, also at another server later.
func TestInboxOnTheStream(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	service, inboxes := withInboxes()
	store := &kept{}
	change := func(c *server.Config) { inboxes(c); c.Stores.Sessions = store }
	face := n.face(change)
	post(t, service, "user:bob", "was there before")
	listen := func(w *web) *bufio.Scanner {
		resp, err := http.DefaultClient.Do(w.request(http.MethodGet, ""))
		require.NoError(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		require.Equal(t, http.StatusOK, resp.StatusCode)
		return bufio.NewScanner(resp.Body)
	}
	var bob *web
	streams := map[string]*bufio.Scanner{}
	for _, name := range []string{"bob", "eve"} {
		w := n.web(t, face)
		w.token = name + ".agent"
		w.open()
		require.Nil(t, code(w.post(`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"orch://inbox"}}`)))
		streams[name] = listen(w)
		if name == "bob" {
			bob = w
		}
	}
	post(t, service, "user:bob", "one")
	post(t, service, "user:eve", "two")
	for name, stream := range streams {
		assert.Contains(t, updates(t, stream), `"uri":"orch://inbox"`, name)
	}
	for _, text := range []string{"three", "four"} { // when the fourth is reported, the third was, to whichever client
		post(t, service, "user:bob", text)
		assert.Contains(t, updates(t, streams["bob"]), `"uri":"orch://inbox"`)
	}
	post(t, service, "user:eve", "five")
	assert.Contains(t, updates(t, streams["eve"]), `"uri":"orch://inbox"`)
	face.Close()
	for streams["eve"].Scan() {
		assert.NotContains(t, streams["eve"].Text(), "notifications/resources/updated", "somebody else's")
	}
	second := n.web(t, n.face(change))
	second.token, second.session = bob.token, bob.session
	require.Equal(t, http.StatusOK, second.post(`{"jsonrpc":"2.0","id":3,"method":"ping"}`).status)
	again := listen(second)
	post(t, service, "user:bob", "six")
	assert.Contains(t, updates(t, again), `"uri":"orch://inbox"`)
}

// A client of 2026-07-28 is notified of its inbox on the stream of its subscription.
func TestInboxOfASubscription(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	service, inboxes := withInboxes()
	w := n.web(t, n.face(inboxes))
	w.token = "bob.agent"
	w.header = map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}
	resp, err := http.DefaultClient.Do(w.request(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["orch://inbox"]},`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	require.Equal(t, http.StatusOK, resp.StatusCode)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "subscriptions/acknowledged") {
			assert.Contains(t, lines.Text(), `"orch://inbox"`)
			break
		}
	}
	post(t, service, "all", "news")
	text := updates(t, lines)
	assert.Contains(t, text, `"uri":"orch://inbox"`)
	assert.Contains(t, text, "subscriptionId")
}

// More messages than a page has are no reason to be silent.
func TestInboxWithManyMessages(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	service, inboxes := withInboxes()
	for i := range mail.MaxPage + 5 {
		post(t, service, "user:bob", strconv.Itoa(i))
	}
	w := n.web(t, n.face(inboxes))
	w.token = "bob.agent"
	w.open()
	require.Nil(t, code(w.post(`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"orch://inbox"}}`)))
	resp, err := http.DefaultClient.Do(w.request(http.MethodGet, ""))
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	stop := make(chan struct{})
	defer close(stop)
	go func() { // the watch may still be reading older messages
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			_, _ = service.Send(t.Context(), "user:ada", mail.Draft{To: []string{"user:bob"}, Payload: []byte(`1`)})
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	assert.Contains(t, updates(t, bufio.NewScanner(resp.Body)), `"uri":"orch://inbox"`)
}

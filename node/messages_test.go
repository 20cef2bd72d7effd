package node_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/statemachine"
)

// callAs calls a tool as somebody and returns how its task ended.
func callAs(t *testing.T, owner api.API, who, tool, args string) api.ResultReply {
	t.Helper()
	p, err := plan.FromCall(tool, json.RawMessage(args))
	require.NoError(t, err)
	reply, err := owner.Submit(t.Context(), api.SubmitRequest{Plan: p.JSON(), Actor: who})
	require.NoError(t, err)
	return result(t, owner, reply.ID)
}

func done(t *testing.T, r api.ResultReply) string {
	t.Helper()
	require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	return string(r.Output)
}

func inboxOf(t *testing.T, a rpc.Asker, who messages.Delegation, q messages.Query) messages.Page {
	t.Helper()
	p, err := rpc.NewMessageClient[messages.Delegation](a, bus.MessagesPrefix).Inbox(t.Context(), who, q)
	require.NoError(t, err)
	return p
}

func self(who string) messages.Delegation { return messages.Delegation{For: who, By: who} }

// Messaging tools act for whoever made the call, in the node's own worker and in a remote one. A restart loses nothing.
func TestMessagesBetweenIdentities(t *testing.T) {
	t.Parallel()
	for name, elsewhere := range map[string]bool{"own worker": false, "worker elsewhere": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t)
			server := cfg
			if elsewhere {
				server.Worker.Concurrency = -1
			}
			n := start(t, server)
			if elsewhere {
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- node.RunWorker(ctx, cfg) }()
				t.Cleanup(func() { stop(); assert.NoError(t, <-ended) })
			}
			done(t, callAs(t, n.API(), "agent:bob", "MESSAGE_GROUP", `{"join":"ops"}`))
			sent := done(t, callAs(t, n.API(), "user:ada", "MESSAGE_SEND", `{"to":["group:ops","agent:nobody"],"text":"deploy"}`))
			assert.Contains(t, sent, `"unknown":["agent:nobody"]`)
			inbox := done(t, callAs(t, n.API(), "agent:bob", "MESSAGE_INBOX", `{"wait_seconds":10}`))
			assert.Contains(t, inbox, `"sender":"user:ada"`)
			assert.Contains(t, inbox, `{"text":"deploy"}`)
			assert.NotContains(t, done(t, callAs(t, n.API(), "user:ada", "MESSAGE_INBOX", `{}`)), "deploy")
			page := inboxOf(t, n, self("agent:bob"), messages.Query{})
			require.Len(t, page.Messages, 1)
			done(t, callAs(t, n.API(), "agent:bob", "MESSAGE_ACK", `{"message_ids":["`+page.Messages[0].ID+`"]}`))
			assert.Empty(t, inboxOf(t, n, self("agent:bob"), messages.Query{}).Messages)
		})
	}
}

func TestMessagesSurviveARestart(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	n := start(t, cfg)
	done(t, callAs(t, n.API(), "user:ada", "MESSAGE_SEND", `{"to":["all"],"text":"news"}`))
	require.NoError(t, n.Stop(t.Context()))
	n = start(t, cfg)
	assert.Len(t, inboxOf(t, n, self("agent:later"), messages.Query{}).Messages, 1)
	remote, err := node.Dial(t.Context(), cfg)
	require.NoError(t, err)
	defer func() { assert.NoError(t, remote.Close()) }()
	assert.Len(t, inboxOf(t, remote, self(remote.Identity()), messages.Query{Wait: 20 * time.Second}).Messages, 1)
	report, err := n.Store().Verify(t.Context(), nil)
	require.NoError(t, err)
	assert.Zero(t, report.Found)
}

// emptyBroker has no messages.
type emptyBroker struct{ messages.Broker[string] }

// Inbox implements messages.Broker.
func (emptyBroker) Inbox(context.Context, string, messages.Query) (messages.Page, error) {
	return messages.Page{}, nil
}

// While one reading is being recorded, others continue. A second reading of the same inbox waits for the record, and makes it
// if the first one gives up.
func TestReadingsAreNotedApart(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]fault.Code{"cancelled": fault.Cancelled, "out of time": fault.Timeout, "otherwise": fault.Unavailable} {
		t.Run(name, func(t *testing.T) { t.Parallel(); readTwice(t, code) })
	}
}

// readTwice reads an inbox twice concurrently. The first reader gives up while its reading is being recorded, which fails with
// code.
func readTwice(t *testing.T, code fault.Code) {
	t.Helper()
	slow, began := messages.Delegation{For: "agent:slow", By: "user:op"}, make(chan struct{})
	var notes atomic.Int32
	broker := node.NewDelegatedBroker(emptyBroker{}, func(ctx context.Context, who messages.Delegation) error {
		if who == slow && notes.Add(1) == 1 {
			close(began)
			<-ctx.Done()
			return fault.New(code, "the reading is not noted")
		}
		return nil
	})
	first, second := make(chan error, 1), make(chan error, 1)
	read := func(ctx context.Context, err chan<- error) {
		_, e := broker.Inbox(ctx, slow, messages.Query{})
		err <- e
	}
	reading, cancel := context.WithCancel(t.Context())
	defer cancel()
	go read(reading, first)
	<-began
	go read(t.Context(), second)
	_, err := broker.Inbox(t.Context(), messages.Delegation{For: "agent:other", By: "user:op"}, messages.Query{})
	require.NoError(t, err, "it does not wait for the slow one")
	ended, stop := context.WithCancel(t.Context())
	stop()
	_, err = broker.Inbox(ended, slow, messages.Query{})
	assert.Equal(t, fault.Cancelled, fault.CodeOf(err), "who waits can go away")
	cancel()
	assert.Equal(t, code, fault.CodeOf(<-first))
	require.NoError(t, <-second)
	assert.Equal(t, int32(2), notes.Load())
}

// Reading the inbox of somebody else is recorded in the log, and changes nothing in the inbox.
func TestReadingForOthersIsNoted(t *testing.T) {
	t.Parallel()
	n := start(t, config(t))
	done(t, callAs(t, n.API(), "user:ada", "MESSAGE_SEND", `{"to":["agent:bob"],"text":"a private word"}`))
	who := messages.Delegation{For: "agent:bob", By: "user:op"}
	for range 2 {
		assert.Len(t, inboxOf(t, n, who, messages.Query{}).Messages, 1)
	}
	list, err := n.API().List(t.Context(), api.ListRequest{Name: api.OwnPrefix + "*"})
	require.NoError(t, err)
	var noted []string
	for _, line := range list.Tasks {
		noted = append(noted, line.Name)
		history, err := n.API().History(t.Context(), api.HistoryRequest{ID: line.ID})
		require.NoError(t, err)
		text, err := json.Marshal(history)
		require.NoError(t, err)
		assert.Contains(t, string(text), "user:op reads the inbox of agent:bob")
		assert.NotContains(t, string(text), "a private word")
	}
	assert.Equal(t, []string{api.OwnPrefix + "messages"}, noted, "once a minute")

	broker := rpc.NewMessageClient[messages.Delegation](n, bus.MessagesPrefix)
	_, err = broker.Ack(t.Context(), who, []string{"x"})
	assert.Equal(t, fault.Forbidden, fault.CodeOf(err))
	_, err = broker.Send(t.Context(), who, messages.Draft{To: []string{"all"}, Payload: []byte(`1`)})
	assert.Equal(t, fault.Forbidden, fault.CodeOf(err))
	_, err = broker.Group(t.Context(), who, messages.GroupChange{Join: "ops"})
	assert.Equal(t, fault.Forbidden, fault.CodeOf(err))
	_, err = broker.Inbox(t.Context(), messages.Delegation{For: "all", By: "user:op"}, messages.Query{})
	assert.Equal(t, fault.Forbidden, fault.CodeOf(err))
}

// no secret gets into a message, neither by a tool nor by a worker that does not look.
func TestMessagesHoldNoSecrets(t *testing.T) {
	t.Parallel()
	n := start(t, config(t))
	secret := "ghp_" + strings.Repeat("a1B2", 9)
	p, err := plan.FromCall("MESSAGE_SEND", json.RawMessage(`{"to":["agent:bob"],"text":"use `+secret+`"}`))
	require.NoError(t, err)
	_, err = n.API().Submit(t.Context(), api.SubmitRequest{Plan: p.JSON(), Actor: "user:ada"})
	assert.Equal(t, fault.SecretDetected, fault.CodeOf(err))
	broker := rpc.NewMessageClient[messages.Delegation](n, bus.MessagesPrefix)
	_, err = broker.Send(t.Context(), self("user:ada"), messages.Draft{To: []string{"agent:bob"}, Payload: []byte(`{"text":"use ` + secret + `"}`)})
	assert.Equal(t, fault.SecretDetected, fault.CodeOf(err))
	assert.Empty(t, inboxOf(t, n, self("agent:bob"), messages.Query{}).Messages)
}

// A worker acts for its own calls only.
func TestWorkersSpeakForTheirCalls(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	n := start(t, cfg)
	c, err := bus.Dial(t.Context(), bus.DialConfig{DataDir: cfg.DataDir, User: bus.WorkerUser})
	require.NoError(t, err)
	defer c.Close()
	id := callAs(t, n.API(), "user:ada", "MESSAGE_INBOX", `{}`).ID
	broker := rpc.NewMessageClient[messages.Call](rpc.NewRemote(c), bus.WorkMessagesPrefix)
	for _, call := range []messages.Call{{}, {Task: string(id), Step: plan.CallID, Attempt: 1}} {
		_, err = broker.Inbox(t.Context(), call, messages.Query{})
		assert.Equal(t, fault.Conflict, fault.CodeOf(err), "no such call runs")
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	err = rpc.NewRemote(c).Ask(ctx, bus.MessagesPrefix+".inbox", struct{}{}, nil)
	assert.Error(t, err, "that is for the operator")
}

// A call that waits for a message does not delay the end of a node. A waiting call of a remote worker continues at the next
// node.
func TestWaitingCallsAndTheEndOfANode(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	server := cfg
	server.Worker.Concurrency = -1
	n := start(t, server)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- node.RunWorker(ctx, cfg) }()
	t.Cleanup(func() { stop(); assert.NoError(t, <-ended) })
	p, err := plan.FromCall("MESSAGE_INBOX", json.RawMessage(`{"wait_seconds":60}`))
	require.NoError(t, err)
	reply, err := n.API().Submit(t.Context(), api.SubmitRequest{Plan: p.JSON(), Actor: "agent:bob"})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		s, err := n.API().Status(t.Context(), api.StatusRequest{})
		return err == nil && s.Running == 1
	}, time.Minute, 10*time.Millisecond)
	begun := time.Now()
	require.NoError(t, n.Stop(t.Context()))
	assert.Less(t, time.Since(begun), 50*time.Second)
	n = start(t, server)
	done(t, callAs(t, n.API(), "user:ada", "MESSAGE_SEND", `{"to":["agent:bob"],"text":"hello"}`))
	done(t, result(t, n.API(), reply.ID))
	assert.Len(t, inboxOf(t, n, self("agent:bob"), messages.Query{}).Messages, 1)
}

package message_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/messages/messagestest"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/message"
	"github.com/orch-dev/orch/tools/toolstest"
)

// kit calls the tools for identities: the task of a call is its identity.
type kit struct {
	t         *testing.T
	catalogue *tools.Catalogue
}

func newKit(t *testing.T) *kit {
	t.Helper()
	store := &messagestest.Store{}
	broker := messages.BrokerForCalls(store.Open(messages.Config{}), func(_ context.Context, c messages.Call) (string, error) {
		if c.Attempt != 1 || c.Step != "one" {
			return "", fault.New(fault.Conflict, "no such call")
		}
		return c.Task, nil
	})
	catalogue, err := tools.New(message.Tools(message.Config{Broker: broker})...)
	require.NoError(t, err)
	return &kit{t, catalogue}
}

func (k *kit) call(who, key, name, args string) (map[string]any, error) {
	k.t.Helper()
	tool, ok := k.catalogue.Get(name)
	require.True(k.t, ok)
	checked, err := tool.Check(json.RawMessage(args))
	if err != nil {
		return nil, err
	}
	out, err := tool.Call(k.t.Context(), &tools.Env{Task: events.TaskID(who), Step: "one", Attempt: 1, Key: key}, checked)
	if err != nil {
		return nil, err
	}
	toolstest.Output(k.t, tool, out)
	var fields map[string]any
	require.NoError(k.t, json.Unmarshal(out, &fields))
	return fields, nil
}

func (k *kit) must(who, key, name, args string) map[string]any {
	k.t.Helper()
	out, err := k.call(who, key, name, args)
	require.NoError(k.t, err)
	return out
}

// A key may have the maximum length of the schema.
func TestLongKey(t *testing.T) {
	t.Parallel()
	sent := newKit(t).must("user:ada", "a", "MESSAGE_SEND", `{"to":["user:eve"],"text":"x","key":"`+strings.Repeat("k", 200)+`"}`)
	assert.Equal(t, false, sent["existing"])
}

func TestSendReadAcknowledge(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	assert.Equal(t, []any{"group:ops"}, k.must("agent:bob", "j", "MESSAGE_GROUP", `{"join":"ops"}`)["groups"])
	sent := k.must("user:ada", "a", "MESSAGE_SEND", `{"to":["group:ops"],"text":"deploy","type":"task","priority":0,"ttl_seconds":60}`)
	id, _ := sent["message_id"].(string)
	assert.Equal(t, false, sent["existing"])
	again := k.must("user:ada", "a", "MESSAGE_SEND", `{"to":["group:ops"],"text":"deploy","type":"task","priority":0,"ttl_seconds":60}`)
	assert.Equal(t, id, again["message_id"], "a call that is made again sends nothing twice")
	assert.Equal(t, true, again["existing"])

	inbox := k.must("agent:bob", "r", "MESSAGE_INBOX", `{"wait_seconds":1}`)
	list, _ := inbox["messages"].([]any)
	require.Len(t, list, 1)
	m, _ := list[0].(map[string]any)
	assert.Equal(t, map[string]any{"text": "deploy"}, m["payload"])
	assert.Equal(t, "user:ada", m["sender"])
	assert.EqualValues(t, 0, m["priority"])
	assert.InDelta(t, 2, inbox["next"], 0.1)

	k.must("agent:bob", "b", "MESSAGE_SEND", `{"reply_to":"`+id+`","payload":{"ok":true}}`)
	inbox = k.must("user:ada", "r", "MESSAGE_INBOX", `{"correlation_id":"`+id+`"}`)
	assert.Len(t, inbox["messages"], 1)
	assert.Empty(t, k.must("user:ada", "r", "MESSAGE_INBOX", `{"type":"task"}`)["messages"])
	assert.Equal(t, []any{id}, k.must("agent:bob", "k", "MESSAGE_ACK", `{"message_ids":["`+id+`"]}`)["acknowledged"])
	assert.Equal(t, []any{id}, k.must("agent:bob", "k", "MESSAGE_ACK", `{"message_ids":["`+id+`"]}`)["unknown"])
	assert.Empty(t, k.must("agent:bob", "r", "MESSAGE_INBOX", `{}`)["messages"])
	assert.Empty(t, k.must("agent:bob", "l", "MESSAGE_GROUP", `{"leave":"ops"}`)["groups"])
}

func TestKeysOfSenders(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	first := k.must("user:ada", "a", "MESSAGE_SEND", `{"to":["agent:bob"],"text":"x","key":"one"}`)
	second := k.must("user:ada", "b", "MESSAGE_SEND", `{"to":["agent:bob"],"text":"x","key":"one"}`)
	assert.Equal(t, first["message_id"], second["message_id"])
	_, err := k.call("user:ada", "c", "MESSAGE_SEND", `{"to":["agent:bob"],"text":"y","key":"one"}`)
	assert.Equal(t, fault.Conflict, fault.CodeOf(err))
	third := k.must("user:ada", "one", "MESSAGE_SEND", `{"to":["agent:bob"],"text":"x"}`)
	assert.NotEqual(t, first["message_id"], third["message_id"], "the key of a call is no key of a sender")
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	for args, code := range map[string]fault.Code{
		`{"to":["agent:bob"]}`: fault.RequiredField,
		`{"text":"x"}`:         fault.RequiredField,
		`{"to":["agent:bob"],"text":"x","payload":{}}`:                    fault.ValidationError,
		`{"to":["bob"],"text":"x"}`:                                       fault.InvalidFormat,
		`{"to":["agent:bob"],"text":"x","priority":5}`:                    fault.ValidationError,
		`{"reply_to":"MSG_01JD0000000000000000000000","text":"x"}`:        fault.NotFound,
		`{"to":["agent:bob"],"text":"x","sender":"user:somebody-else"}`:   fault.ValidationError,
		`{"to":["agent:bob"],"text":"x","ttl_seconds":6048000}`:           fault.ValidationError,
		`{"to":["agent:bob"],"text":"x","exclude":["group:everybody"]}`:   fault.InvalidFormat,
		`{"to":["agent:bob"],"text":"x","type":"not one of these words"}`: fault.InvalidFormat,
	} {
		_, err := k.call("user:ada", "a", "MESSAGE_SEND", args)
		assert.Equal(t, code, fault.CodeOf(err), args)
	}
	_, err := k.call("system:mcp", "a", "MESSAGE_INBOX", `{}`)
	assert.Equal(t, fault.Forbidden, fault.CodeOf(err))
}

// Without a broker the tools return an error.
func TestNoBroker(t *testing.T) {
	t.Parallel()
	for _, tool := range message.Tools(message.Config{}) {
		args := map[string]string{"MESSAGE_SEND": `{"to":["all"],"text":"x"}`, "MESSAGE_ACK": `{"message_ids":["x"]}`}[tool.Spec().Name]
		if args == "" {
			args = `{}`
		}
		checked, err := tool.Check(json.RawMessage(args))
		require.NoError(t, err)
		_, err = tool.Call(t.Context(), &tools.Env{}, checked)
		assert.Equal(t, fault.Unavailable, fault.CodeOf(err), tool.Spec().Name)
	}
}

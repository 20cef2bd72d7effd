package messagestest

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/messages"
)

// testBroker is a broker with helpers for tests.
type testBroker struct {
	messages.Broker[string]

	t      *testing.T
	reopen func() messages.Broker[string]
}

func newTestBroker(t *testing.T, open Opener, cfg messages.Config) *testBroker {
	t.Helper()
	broker, reopen := open(t, cfg)
	return &testBroker{broker, t, reopen}
}

func (d *testBroker) restart() { d.Broker = d.reopen() }

func (d *testBroker) forget(who string) error {
	d.t.Helper()
	broker, ok := d.Broker.(interface {
		RemoveIdentity(ctx context.Context, who string) error
	})
	require.True(d.t, ok, "it cannot forget")
	return broker.RemoveIdentity(d.t.Context(), who)
}

// text returns the payload of a text message.
func text(s string) json.RawMessage {
	raw, _ := json.Marshal(map[string]string{"text": s}) // a string can be encoded
	return raw
}

func (d *testBroker) send(from, payload string, change messages.Draft, to ...string) messages.Receipt {
	d.t.Helper()
	change.To, change.Payload = to, text(payload)
	r, err := d.Send(d.t.Context(), from, change)
	require.NoError(d.t, err)
	return r
}

func (d *testBroker) page(who string, q messages.Query) messages.Page {
	d.t.Helper()
	p, err := d.Inbox(d.t.Context(), who, q)
	require.NoError(d.t, err)
	return p
}

// texts returns the texts of the messages in an inbox.
func (d *testBroker) texts(who string, q messages.Query) []string {
	d.t.Helper()
	return textsOf(d.t, d.page(who, q))
}

func textsOf(t *testing.T, p messages.Page) []string {
	t.Helper()
	list := []string{}
	for _, m := range p.Messages {
		var payload struct{ Text string }
		require.NoError(t, json.Unmarshal(m.Payload, &payload))
		list = append(list, payload.Text)
	}
	return list
}

func (d *testBroker) ack(who string, ids ...string) messages.Acked {
	d.t.Helper()
	a, err := d.Ack(d.t.Context(), who, ids)
	require.NoError(d.t, err)
	return a
}

func (d *testBroker) join(who, group string) {
	d.t.Helper()
	_, err := d.Group(d.t.Context(), who, messages.GroupChange{Join: group})
	require.NoError(d.t, err)
}

func priority(n int) messages.Draft { return messages.Draft{Priority: &n} }

package hooks_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
)

func TestCheckOfAStream(t *testing.T) {
	t.Parallel()
	const field, stream, subject = "nats", "nats.stream", "nats.subject"
	for name, tc := range map[string]struct {
		stream *hooks.Stream
		field  string
	}{
		"all of a stream":       {&hooks.Stream{Name: "ORDERS"}, ""},
		"one subject":           {&hooks.Stream{Name: "my-orders_1", Subject: "orders.created", From: hooks.FromNew}, ""},
		"wildcards":             {&hooks.Stream{Name: "ORDERS", Subject: "*.eu.>", From: hooks.FromAll}, ""},
		"everything":            {&hooks.Stream{Name: "ORDERS", Subject: ">"}, ""},
		"near to orch":          {&hooks.Stream{Name: "ORCHARD", Subject: "orchard.apples"}, ""},
		"none":                  {nil, stream},
		"no name":               {&hooks.Stream{Subject: "a"}, stream},
		"a name with a dot":     {&hooks.Stream{Name: "a.b"}, stream},
		"a long name":           {&hooks.Stream{Name: strings.Repeat("a", 65)}, stream},
		"the log":               {&hooks.Stream{Name: "ORCH_EVENTS"}, stream},
		"a bucket of orch":      {&hooks.Stream{Name: "KV_ORCH_META"}, stream},
		"objects of orch":       {&hooks.Stream{Name: "OBJ_ORCH_BLOBS"}, stream},
		"a bucket":              {&hooks.Stream{Name: "KV_mine"}, stream},
		"requests to orch":      {&hooks.Stream{Name: "A", Subject: "orch.cmd.submit"}, subject},
		"all of orch":           {&hooks.Stream{Name: "A", Subject: "orch.>"}, subject},
		"the server":            {&hooks.Stream{Name: "A", Subject: "$JS.>"}, subject},
		"replies":               {&hooks.Stream{Name: "A", Subject: "_INBOX.>"}, subject},
		"a space":               {&hooks.Stream{Name: "A", Subject: "a b"}, subject},
		"an empty part":         {&hooks.Stream{Name: "A", Subject: "a..b"}, subject},
		"a wildcard in a part":  {&hooks.Stream{Name: "A", Subject: "a.b*"}, subject},
		"an end in the middle":  {&hooks.Stream{Name: "A", Subject: "a.>.b"}, subject},
		"a long subject":        {&hooks.Stream{Name: "A", Subject: strings.Repeat("a", 257)}, subject},
		"another place":         {&hooks.Stream{Name: "A", From: "old"}, "nats.from"},
		"of another provider":   {&hooks.Stream{Name: "A"}, field},
		"no stream of a sender": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := hooks.Definition{Provider: hooks.NATS, Plan: json.RawMessage(`{}`), NATS: tc.stream}
			if tc.field == field || name == "no stream of a sender" {
				d.Provider = hooks.None
			}
			err := d.Check()
			if tc.field == "" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			assert.Equal(t, tc.field, fault.From(err).Field)
		})
	}
}

func TestParseOfAStream(t *testing.T) {
	t.Parallel()
	d, err := hooks.Parse([]byte("provider: nats\nnats: {stream: ORDERS, subject: orders.*.created, from: all}\nplan: order.yaml\n"))
	require.NoError(t, err)
	assert.Equal(t, &hooks.Stream{Name: "ORDERS", Subject: "orders.*.created", From: hooks.FromAll}, d.NATS)
	_, err = hooks.Parse([]byte("provider: nats\nnats: {stream: ORDERS, subjects: [a]}\nplan: order.yaml\n"))
	require.Error(t, err)
	assert.Equal(t, "nats.subjects", fault.From(err).Field)
	d, err = hooks.Parse([]byte("provider: none\nplan: order.yaml\n"))
	require.NoError(t, err)
	data, err := json.Marshal(d)
	require.NoError(t, err)
	assert.NotContains(t, string(data), "nats", "an older orch reads definitions without streams")
}

func TestStreamTakes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		subject, of string
		want        bool
	}{
		{"", "a.b", true},
		{"a.b", "a.b", true},
		{"a.b", "a", false},
		{"a", "a.b", false},
		{"a.*", "a.b", true},
		{"a.*", "a", false},
		{"a.*", "a.b.c", false},
		{"a.>", "a.b.c", true},
		{"a.>", "a", false},
		{">", "a", true},
		{"*.created", "x.created", true},
		{"*.created", "x.paid", false},
	} {
		s := hooks.Stream{Name: "A", Subject: tc.subject}
		assert.Equal(t, tc.want, s.Takes(tc.of), "%s of %s", tc.of, tc.subject)
	}
	assert.Equal(t, "a.b", (&hooks.Stream{Subject: "a.b"}).Literal())
	assert.Empty(t, (&hooks.Stream{Subject: "a.*"}).Literal())
}

func TestIDOfAMessage(t *testing.T) {
	t.Parallel()
	m := hooks.Message{Stream: "ORDERS", Position: 7, At: time.Unix(1, 5)}
	assert.Equal(t, "ORDERS:7:1000000005", m.ID())
	longest := hooks.Message{Stream: strings.Repeat("A", 64), Position: 1<<64 - 1, At: time.Unix(9e9, 999_999_999)}
	assert.LessOrEqual(t, len(longest.ID()), 128)
}

package destinations_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/destinations"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// The vector is that of the libraries of the specification.
func TestSignaturesOfTheSpecification(t *testing.T) {
	t.Parallel()
	at := time.Unix(1614265330, 0)
	const secret, want = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	h := destinations.Sign([2]string{secret}, "msg_p5jXN8AQM9LWM0D4loKWxJek", []byte(`{"test": 2432232314}`), at)
	assert.Equal(t, want, h["webhook-signature"])
	assert.Equal(t, "1614265330", h["webhook-timestamp"])
	assert.Equal(t, "msg_p5jXN8AQM9LWM0D4loKWxJek", h["webhook-id"])
	h = destinations.Sign([2]string{"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", secret}, "msg_p5jXN8AQM9LWM0D4loKWxJek", []byte(`{"test": 2432232314}`), at)
	both := strings.Fields(h["webhook-signature"])
	require.Len(t, both, 2)
	assert.Equal(t, want, both[1])
	assert.NotEqual(t, want, both[0])
}

func TestSecretsHaveTheLengthOfTheSpecification(t *testing.T) {
	t.Parallel()
	for n, ok := range map[int]bool{0: false, 15: false, 23: false, 24: true, 32: true, 64: true, 65: false} {
		err := destinations.CheckSecret("whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n)))
		assert.Equal(t, ok, err == nil, "%d: %v", n, err)
	}
}

func TestNextAttempt(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	var all []time.Duration
	for failed := 1; ; failed++ {
		next, again := destinations.Next(failed, now, time.Time{}, 0)
		if !again {
			assert.Equal(t, destinations.MaxAttempts(), failed)
			break
		}
		all = append(all, next.Sub(now))
		late, _ := destinations.Next(failed, now, time.Time{}, 1)
		assert.Equal(t, next.Sub(now)*11/10, late.Sub(now))
	}
	assert.Equal(t, []time.Duration{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
	}, all)
	next, _ := destinations.Next(1, now, now.Add(time.Hour), 0)
	assert.Equal(t, now.Add(time.Hour), next, "the receiver has asked for it")
	next, _ = destinations.Next(1, now, now.Add(1000*time.Hour), 0)
	assert.Equal(t, now.Add(24*time.Hour), next)
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	assert.Equal(t, now.Add(90*time.Second), destinations.RetryAfter(" 90", now))
	assert.Equal(t, now.Add(24*time.Hour), destinations.RetryAfter("99999999999999999999", now))
	assert.Equal(t, now.Add(time.Minute), destinations.RetryAfter(now.Add(time.Minute).Format(http.TimeFormat), now))
	for _, bad := range []string{"", "-1", "soon", "1.5"} {
		assert.Zero(t, destinations.RetryAfter(bad, now), bad)
	}
}

func TestWants(t *testing.T) {
	t.Parallel()
	d := destinations.Definition{Events: []string{"task.failed", "approval.*"}, Labels: map[string]string{"team": "shop"}}
	shop := map[string]string{"team": "shop", "x": "y"}
	assert.True(t, d.Wants("task.failed", shop))
	assert.True(t, d.Wants("approval.granted", shop))
	assert.False(t, d.Wants("task.completed", shop))
	assert.False(t, d.Wants("task.failed", nil))
	assert.True(t, (&destinations.Definition{}).Wants("task.started", nil))
}

func TestWrongDefinitions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		code  fault.Code
		field string
	}{
		"{}":                                    {fault.RequiredField, "url"},
		"url: " + strings.Repeat("x", 3000):     {fault.ValidationError, "url"},
		"{url: 'https://a.b', events: [x]}":     {fault.ValidationError, "events"},
		"{url: 'https://a.b', events: ['*']}":   {fault.ValidationError, "events"},
		"{url: 'https://a.b', events: [task]}":  {fault.ValidationError, "events"},
		"{url: 'https://a.b', secret: whsec_x}": {fault.InvalidParams, "secret"},
		"{url: 3}":                              {fault.InvalidFormat, "url"},
		"{url: 'https://a.b', labels: [a]}":     {fault.InvalidFormat, "labels"},
		"[]":                                    {fault.ParseError, ""},
	} {
		_, err := destinations.Parse([]byte(text))
		f := fault.From(err)
		assert.Equal(t, want.code, f.Code, text)
		assert.Equal(t, want.field, f.Field, text)
	}
}

// A question is told with its message, its answer without its content.
func TestQuestions(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	c := &events.Commit{Task: events.KeyedTaskID("", "a"), Rev: 3, At: at, Events: []events.Event{
		{Kind: events.QuestionAsked, Data: &events.Question{ID: "ASK_1", Step: "a", Kind: events.Elicitation, Params: events.Inline([]byte(`{"message":"Who, hunter2?","requestedSchema":{}}`)), ExpiresAt: at}},
		{Kind: events.QuestionAnswered, Data: &events.Answer{ID: "ASK_1", By: "user:ada", Action: "accept", Response: events.Inline([]byte(`{"content":{"pin":"4711"}}`))}},
		{Kind: events.QuestionExpired, Data: &events.Unanswered{ID: "ASK_1", Reason: "late"}},
		{Kind: events.QuestionAsked, Data: &events.Question{ID: "ASK_2", Kind: events.Sampling, Params: events.Inline([]byte(`{"message":"x","messages":[{"content":"4711"}]}`)), ExpiresAt: at}},
		{Kind: events.QuestionAsked, Data: &events.Question{ID: "ASK_3", Kind: events.Elicitation, Params: events.InBlobs("sha256:0", 70_000), ExpiresAt: at}},
	}}
	redact := func(text string) string { return strings.ReplaceAll(text, "hunter2", "[hidden]") }
	for i, want := range []string{
		`"type":"question.asked","timestamp":"2026-11-29T12:00:00Z","data":{"task":"` + string(c.Task) + `","revision":3,"question":{"id":"ASK_1","step":"a","kind":"elicitation","message":"Who, [hidden]?","expires_at":"2026-11-29T12:00:00Z"}}`,
		`"question":{"id":"ASK_1","by":"user:ada","action":"accept"}}`,
		`"type":"question.expired"`,
		`"question":{"id":"ASK_2","kind":"sampling","expires_at":"2026-11-29T12:00:00Z"}}`,
		`"question":{"id":"ASK_3","kind":"elicitation","expires_at":"2026-11-29T12:00:00Z"}}`,
	} {
		e, ok := destinations.New(c, i, destinations.Facts{}, redact)
		require.True(t, ok)
		body, err := e.Encode()
		require.NoError(t, err)
		assert.Contains(t, string(body), want)
		assert.NotContains(t, string(body), "4711")
	}
	d := destinations.Definition{Events: []string{"question.*"}}
	require.True(t, d.Wants("question.expired", nil))
	assert.False(t, d.Wants("approval.expired", nil))
}

// A body says what has happened, and never what a task works with.
func TestBody(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	id := events.KeyedTaskID("", "a")
	first := &events.Commit{Task: id, Rev: 1, At: at, Actor: "user:ada", Events: []events.Event{{Kind: events.TaskSubmitted, Data: &events.Submitted{
		Name: "night", Labels: map[string]string{"team": "shop"}, Inputs: events.Inline([]byte(`{"token":"hunter2"}`)), Plan: events.Inline([]byte(`{"x":"hunter2"}`)),
	}}}}
	failed := &events.Commit{Task: id, Rev: 7, At: at, Events: []events.Event{{Kind: events.TaskFailed, Data: &events.Moved{
		Reason: "step hunter2 " + strings.Repeat("x", 1000), Error: fault.New(fault.Timeout, "hunter2 took too long"), Output: events.Inline([]byte(`"hunter2"`)),
	}}}}
	redact := func(text string) string { return strings.ReplaceAll(text, "hunter2", "[hidden]") }
	facts := destinations.FactsOf(first)
	e, ok := destinations.New(failed, 0, facts, redact)
	require.True(t, ok)
	body, err := e.Encode()
	require.NoError(t, err)
	assert.Contains(t, string(body), `{"type":"task.failed","timestamp":"2026-11-29T12:00:00Z","data":{"task":"`+string(id)+`","name":"night","revision":7,"labels":{"team":"shop"},"requestor":"user:ada","error_code":"TIMEOUT"}}`)
	assert.NotContains(t, string(body), "hunter2")
	cancelled := &events.Commit{Task: id, Rev: 8, At: at, Events: []events.Event{{Kind: events.TaskCancelled, Data: &events.Moved{Reason: "hunter2 " + strings.Repeat("x", 1000)}}}}
	e, ok = destinations.New(cancelled, 0, facts, redact)
	require.True(t, ok)
	assert.Contains(t, e.Data.Reason, "[hidden] x")
	assert.Less(t, len(e.Data.Reason), 510)
	_, ok = destinations.New(failed, 1, facts, redact)
	assert.False(t, ok)
	facts.Internal = true
	_, ok = destinations.New(failed, 0, facts, redact)
	assert.False(t, ok, "a part of a for_each, or another internal task, is no task of its own")
	assert.Equal(t, string(id)+"-7-0", destinations.ID(id, 7, 0))
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("url: https://example.com/orch\nevents: [task.failed]\nlabels: {a: b}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := destinations.Parse(data)
		if err == nil {
			require.NoError(t, d.Check())
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("120")
	f.Fuzz(func(t *testing.T, value string) {
		now := time.Unix(1_800_000_000, 0)
		next, again := destinations.Next(1, now, destinations.RetryAfter(value, now), 0.5)
		require.True(t, again)
		require.False(t, next.Before(now.Add(5*time.Second)) || next.After(now.Add(24*time.Hour)))
	})
}

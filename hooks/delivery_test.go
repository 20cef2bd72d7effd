package hooks_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
)

func TestIDOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		p          hooks.Provider
		name, from string
		body, want string
	}{
		{hooks.GitHub, "x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958", `{}`, "72d3162e-cc78-11e3-81ab-4c9367dc0958"},
		{hooks.GitHub, "", "", `{"id":"x"}`, "no x-github-delivery"},
		{hooks.GitHub, "x-github-delivery", "a b", `{}`, "visible"},
		{hooks.GitHub, "x-github-delivery", strings.Repeat("a", 129), `{}`, "visible"},
		{hooks.GitHub, "x-github-delivery", "é", `{}`, "visible"},
		{hooks.Stripe, "", "", `{"id":"evt_1"}`, "evt_1"},
		{hooks.Stripe, "", "", `{"id":7}`, "no id of the body"},
		{hooks.Stripe, "", "", `[]`, "no id of the body"},
		{hooks.Slack, "", "", `{"event_id":"Ev1","trigger_id":"T1"}`, "Ev1"},
		{hooks.Slack, "", "", `{"trigger_id":"1.2.3"}`, "1.2.3"},
		{hooks.Slack, "x-slack-request-timestamp", "1531420618", `{}`, "sha256-6c04e0cd9a6ad6d9ab0c7ef1ea4bb0c4"},
		{hooks.Standard, "webhook-id", "msg_1", `{}`, "msg_1"},
		{hooks.Standard, "", "", `{}`, "no webhook-id"},
		{hooks.None, "idempotency-key", "k", `{}`, "k"},
		{hooks.None, "", "", `{}`, ""},
	} {
		id, err := hooks.IDOf(tc.p, hooks.Headers{tc.name: tc.from}, []byte(tc.body), json.RawMessage(tc.body))
		switch {
		case strings.HasPrefix(tc.want, "sha256-"):
			require.NoError(t, err)
			assert.Len(t, id, len(tc.want))
			again, _ := hooks.IDOf(tc.p, hooks.Headers{tc.name: tc.from + "0"}, []byte(tc.body), json.RawMessage(tc.body))
			assert.NotEqual(t, id, again)
		case strings.Contains(tc.want, " ") || tc.want == "visible":
			require.ErrorContains(t, err, tc.want)
			assert.True(t, fault.Has(err, fault.ValidationError))
		default:
			require.NoError(t, err)
			assert.Equal(t, tc.want, id)
		}
	}
}

func TestHopsOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "1": 1, "8": 8, "9": -1, "-1": -1, "many": -1, "99999999999999999999": -1} {
		h := hooks.Headers{}
		if text != "" {
			h[hooks.HeaderHops] = text
		}
		n, err := hooks.HopsOf(h)
		if want < 0 {
			require.Error(t, err, text)
			assert.Equal(t, hooks.ReasonLoop, fault.From(err).Reason, text)
			continue
		}
		require.NoError(t, err, text)
		assert.Equal(t, want, n, text)
	}
}

func TestEventOfAndGreeting(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "push", hooks.EventOf(hooks.GitHub, hooks.Headers{"x-github-event": "push"}, json.RawMessage(`{"type":"x"}`)))
	assert.Equal(t, "charge.succeeded", hooks.EventOf(hooks.Stripe, nil, json.RawMessage(`{"type":"charge.succeeded"}`)))
	assert.Equal(t, "app_mention", hooks.EventOf(hooks.Slack, nil, json.RawMessage(`{"type":"event_callback","event":{"type":"app_mention"}}`)))
	assert.Empty(t, hooks.EventOf(hooks.Standard, nil, json.RawMessage(`{"type":"two words"}`)))
	assert.Empty(t, hooks.EventOf(hooks.Standard, nil, json.RawMessage(`{"type":{}}`)))

	_, is := hooks.Greeting(hooks.GitHub, hooks.Headers{"x-github-event": "ping"}, nil)
	assert.True(t, is)
	challenge, is := hooks.Greeting(hooks.Slack, nil, json.RawMessage(`{"type":"url_verification","challenge":"3eZbrw1a"}`))
	assert.True(t, is)
	assert.Equal(t, "3eZbrw1a", challenge)
	for _, p := range hooks.Providers() {
		_, is := hooks.Greeting(p, hooks.Headers{"x-github-event": "push"}, json.RawMessage(`{"type":"event_callback","challenge":"x"}`))
		assert.False(t, is, p)
	}
	_, is = hooks.Greeting(hooks.Slack, nil, json.RawMessage(`{"type":"url_verification","challenge":"`+strings.Repeat("x", 1025)+`"}`))
	assert.False(t, is)
}

func TestVisibleHeadersHaveNoSecrets(t *testing.T) {
	t.Parallel()
	d := hooks.Definition{Headers: []string{"x-mine"}}
	assert.Equal(t, map[string]string{"x-github-event": "push", "x-mine": "1"}, d.Visible(hooks.Headers{
		"x-github-event": "push", "x-mine": "1", "x-other": "2", "authorization": "Bearer x", "cookie": "a=b", "x-hub-signature-256": "sha256=00",
		"user-agent": strings.Repeat("x", 1025),
	}))
}

func TestCheckDefinition(t *testing.T) {
	t.Parallel()
	plan, signal := json.RawMessage(`{}`), &hooks.Signal{Task: "TASK_1", Name: "go"}
	require.NoError(t, (&hooks.Definition{Provider: hooks.GitHub, Plan: plan}).Check())
	require.NoError(t, (&hooks.Definition{Provider: hooks.None, Signal: signal, Headers: []string{"x-a"}}).Check())
	for field, d := range map[string]hooks.Definition{
		"provider":    {Plan: plan},
		"plan":        {Provider: hooks.GitHub},
		"signal":      {Provider: hooks.GitHub, Plan: plan, Signal: signal},
		"signal.task": {Provider: hooks.GitHub, Signal: &hooks.Signal{Name: "go"}},
		"signal.name": {Provider: hooks.GitHub, Signal: &hooks.Signal{Task: "x"}},
		"inputs":      {Provider: hooks.GitHub, Signal: signal, Inputs: plan},
		"note":        {Provider: hooks.GitHub, Plan: plan, Note: strings.Repeat("x", hooks.MaxNote+1)},
		"headers":     {Provider: hooks.GitHub, Plan: plan, Headers: []string{"authorization"}},
	} {
		assert.Equal(t, field, fault.From(d.Check()).Field)
	}
	for _, name := range []string{"X-Upper", "a b", "", "cookie", "x-api-key", "x-my-token", "stripe-signature", strings.Repeat("x", 65)} {
		require.Error(t, (&hooks.Definition{Provider: hooks.GitHub, Plan: plan, Headers: []string{name}}).Check(), name)
	}
	require.Error(t, (&hooks.Definition{Provider: "gitlab", Plan: plan}).Check())
	require.Error(t, (&hooks.Definition{Provider: hooks.GitHub, Plan: json.RawMessage(strings.Repeat(" ", hooks.MaxText+1))}).Check())
	require.Error(t, (&hooks.Definition{Provider: hooks.GitHub, Plan: plan, Headers: make([]string, hooks.MaxHeaders+1)}).Check())
	for name, valid := range map[string]bool{"a": true, "deploy-1.x_y": true, "": false, "A": false, "../x": false, "a/b": false, strings.Repeat("a", 64): false} {
		assert.Equal(t, valid, hooks.ValidName(name), name)
		assert.Equal(t, valid, hooks.CheckName(name) == nil, name)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	d, err := hooks.Parse([]byte("provider: github\nwhen: hook.body.ref == \"refs/heads/main\"\nplan: deploy.yaml\ninputs: {ref: '${{ hook.body.ref }}', n: 1}\nheaders: [x-a]\nnote: deploys\n"))
	require.NoError(t, err)
	assert.Equal(t, hooks.Definition{
		Provider: hooks.GitHub, When: `hook.body.ref == "refs/heads/main"`, Plan: json.RawMessage(`"deploy.yaml"`),
		Inputs: json.RawMessage(`{"n":1,"ref":"${{ hook.body.ref }}"}`), Headers: []string{"x-a"}, Note: "deploys",
	}, d)
	d, err = hooks.Parse([]byte(`{"provider":"none","signal":{"task":"TASK_1","name":"go","data":[1]}}`))
	require.NoError(t, err)
	assert.Equal(t, &hooks.Signal{Task: "TASK_1", Name: "go", Data: json.RawMessage(`[1]`)}, d.Signal)
	for text, field := range map[string]string{
		"provider: github\nplan: a\nprovder: x":          "provder",
		"provider: github\nsignal: {task: a, nme: b}":    "signal.nme",
		"provider: github\nsignal: go":                   "signal",
		"provider: [github]\nplan: a":                    "provider",
		"provider: github\nplan: a\nheaders: 7":          "headers",
		"provider: github\nsignal: {task: '', name: go}": "signal.task",
		"plan: a": "provider",
		"- a":     "",
		"":        "",
		"a: [":    "",
		"provider: github\nplan: a\n---\nprovider: github":                     "",
		"provider: none\nplan: a\nnote: " + strings.Repeat("x", hooks.MaxText): "",
	} {
		_, err := hooks.Parse([]byte(text))
		require.Error(t, err, text)
		assert.Equal(t, field, fault.From(err).Field, text)
	}
}

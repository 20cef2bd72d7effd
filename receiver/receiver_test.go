package receiver_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/receiver"
	"github.com/orch-dev/orch/schedules"
)

func TestADeliveryStartsOneTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start()
	d := github()
	d.Inputs = json.RawMessage(`{"ref":"${{ hook.body.ref }}","password":"${{ hook.body.password }}"}`)
	w.put(r, "deploy", d)
	body := `{"ref":"main","password":"hunter2"}`
	first, err := w.deliver(r, "id-1", body)
	require.NoError(t, err)
	id := events.KeyedTaskID("", "hook/deploy/id-1")
	assert.Equal(t, receiver.Answer{Result: hooks.Accepted, Delivery: "id-1", Task: string(id)}, first)
	task := w.tasks[id]
	assert.JSONEq(t, `{"ref":"main","password":"[REDACTED]"}`, string(task.Inputs))
	assert.Equal(t, "user:ada", task.Actor)
	assert.Equal(t, map[string]string{"hook": "deploy"}, task.Labels)
	assert.Equal(t, &events.Delivery{
		Name: "deploy", ID: "id-1", Headers: map[string]string{"content-type": "application/json; charset=utf-8", "x-github-event": "push", "x-github-delivery": "id-1"},
		Body: events.Inline(json.RawMessage(`{"ref":"main","password":"[REDACTED]"}`)),
	}, task.Hook)

	again, err := w.deliver(r, "id-1", body)
	require.NoError(t, err)
	assert.Equal(t, receiver.Answer{Result: hooks.Duplicate, Delivery: "id-1", Task: string(id)}, again)
	changed, err := w.deliver(r, "id-1", `{"ref":"other"}`)
	require.NoError(t, err, "the id decides, not the text")
	assert.Equal(t, again, changed)
	skipped, err := w.deliver(r, "id-2", `{"ref":"skip"}`)
	require.NoError(t, err)
	assert.Equal(t, receiver.Answer{Result: hooks.Filtered, Delivery: "id-2"}, skipped)
	assert.Len(t, w.tasks, 1)

	v := w.view(w.start(), "deploy") // of the next node
	assert.Equal(t, map[hooks.Result]int{hooks.Accepted: 1, hooks.Duplicate: 2, hooks.Filtered: 1}, v.Counts)
	assert.Equal(t, hooks.Outcome{At: w.now, Delivery: "id-2", Result: hooks.Filtered, Event: "push", Reason: "when is false"}, v.Deliveries[0])
	assert.True(t, v.HasSecret)
	assert.Equal(t, "http://node/hooks/deploy", v.URL)
	for _, entry := range w.journal.Entries {
		assert.NotContains(t, string(entry), secret)
		assert.NotContains(t, string(entry), "hunter2")
	}
}

// The same delivery, many times at once, starts one task; others beside it start theirs.
func TestManyDeliveriesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start()
	w.put(r, "deploy", github())
	const repeated, others = 50, 30
	var group sync.WaitGroup
	var mu sync.Mutex
	results := map[hooks.Result]int{}
	for i := range repeated + others {
		group.Go(func() {
			a, err := w.deliver(r, fmt.Sprintf("id-%d", max(0, i-repeated+1)), "{}")
			mu.Lock()
			defer mu.Unlock()
			if assert.NoError(t, err) {
				results[a.Result]++
			}
		})
	}
	group.Wait()
	assert.Equal(t, map[hooks.Result]int{hooks.Accepted: 1 + others, hooks.Duplicate: repeated - 1}, results)
	assert.Len(t, w.tasks, 1+others)
	assert.Equal(t, results, w.view(w.start(), "deploy").Counts)
}

// Requests without a valid signature get one answer, whether the hook exists or not, and nothing of them is stored.
func TestRejectedRequestsLeaveNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start()
	w.put(r, "deploy", github())
	w.put(r, "open", hooks.Definition{Provider: hooks.None, Plan: json.RawMessage(`{}`)})
	before := len(w.journal.Entries)
	answers := map[string]bool{}
	for range 10_000 {
		for _, d := range []receiver.Delivery{
			w.delivery("deploy", "id", "{}", another), w.delivery("unknown", "id", "{}", secret), w.delivery("../deploy", "id", "{}", secret),
			w.delivery("open", "id", "{}", secret),
			{Name: "deploy", Body: []byte("{}")},
			{Name: "", Headers: hooks.Headers{}},
		} {
			_, err := r.Receive(t.Context(), d)
			require.True(t, fault.Has(err, fault.Unauthorized), "%v", err)
			answers[err.Error()] = true
		}
	}
	assert.Len(t, answers, 1)
	assert.Len(t, w.journal.Entries, before)
	assert.Empty(t, w.tasks)
	v := w.view(r, "deploy")
	assert.Equal(t, map[hooks.Result]int{hooks.Rejected: 20_000}, v.Counts)
	assert.Equal(t, "the header x-hub-signature-256 is missing", v.LastRejected.Reason)
	assert.Equal(t, 60_000, r.Figures().Deliveries[hooks.Rejected])
	assert.Empty(t, v.Deliveries)
	assert.Nil(t, v.LastRefused, "rejected requests are not deliveries")
}

func TestAHookWithoutSignaturesNeedsAnOperator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start()
	w.put(r, "open", hooks.Definition{Provider: hooks.None, Plan: json.RawMessage(`{}`)})
	d := receiver.Delivery{Name: "open", Headers: hooks.Headers{"content-type": "application/json"}, Operator: func() bool { return true }}
	for range 2 { // without a key each is another delivery
		a, err := r.Receive(t.Context(), d)
		require.NoError(t, err)
		assert.Equal(t, hooks.Accepted, a.Result)
	}
	d.Headers["idempotency-key"] = "once"
	for _, want := range []hooks.Result{hooks.Accepted, hooks.Duplicate} {
		a, err := r.Receive(t.Context(), d)
		require.NoError(t, err)
		assert.Equal(t, want, a.Result)
	}
	assert.Len(t, w.tasks, 3)
}

func TestRotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start()
	w.put(r, "deploy", github())
	accepts := func(r *receiver.Receiver, with string) bool {
		_, err := r.Receive(t.Context(), w.delivery("deploy", events.NewRequestID(), "{}", with))
		return err == nil
	}
	rotate := func(to string, keep time.Duration) error {
		_, err := r.SteerHook(t.Context(), api.SteerHookRequest{Name: "deploy", Act: api.ActRotate, Secret: to, Keep: new(schedules.Duration(keep)), Actor: "user:ada"})
		return err
	}
	require.NoError(t, rotate(another, time.Hour))
	require.NoError(t, rotate(another, time.Hour), "a repetition keeps the secret before")
	for _, one := range []*receiver.Receiver{r, w.start()} {
		assert.True(t, accepts(one, secret))
		assert.True(t, accepts(one, another))
	}
	assert.Equal(t, w.now.Add(time.Hour), *w.view(r, "deploy").PreviousUntil)
	w.now = w.now.Add(time.Hour)
	assert.False(t, accepts(r, secret))
	assert.True(t, accepts(r, another))
	assert.Nil(t, w.view(r, "deploy").PreviousUntil)
	require.NoError(t, rotate("a third secret of the sender", 0))
	assert.False(t, accepts(r, another), "at once")
	for _, err := range []error{rotate("short", 0), rotate("", 0), rotate(secret, -1), rotate(secret, 31*24*time.Hour)} {
		require.Error(t, err)
	}
	_, err := r.PutHook(t.Context(), api.PutHookRequest{Name: "deploy", Definition: github(), Secret: secret, Actor: "user:ada"})
	require.ErrorContains(t, err, "another secret")
	_, err = r.PutHook(t.Context(), api.PutHookRequest{Name: "deploy", Definition: github(), Actor: "user:ada"})
	require.NoError(t, err, "without a secret it stays")
}

// A crash or a lost answer at any moment loses nothing that was acknowledged, and doubles nothing.
func TestLostAnswersAndCrashes(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"submit", "append"} {
		for _, lost := range []bool{false, true} {
			w := newWorld(t)
			r := w.start()
			w.put(r, "deploy", github())
			failed := fault.New(fault.Unavailable, "the store does not answer")
			w.failing = func(k string) (error, bool) {
				if k == kind {
					return failed, lost
				}
				return nil, false
			}
			_, err := w.deliver(r, "id-1", "{}")
			if kind == "submit" {
				require.ErrorIs(t, err, failed, "not acknowledged")
			} else {
				require.NoError(t, err, "the task exists; only the record is missing")
				assert.Len(t, w.tasks, 1)
			}
			w.failing = nil
			for _, next := range []*receiver.Receiver{r, w.start()} {
				a, err := w.deliver(next, "id-1", "{}")
				require.NoError(t, err)
				assert.Equal(t, string(events.KeyedTaskID("", "hook/deploy/id-1")), a.Task)
			}
			assert.Len(t, w.tasks, 1)
		}
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start()
	d := github()
	d.Plan, d.Signal = nil, &hooks.Signal{Task: "${{ hook.body.task }}", Name: "answer", Data: json.RawMessage(`{"by":"${{ hook.body.by }}"}`)}
	w.put(r, "deploy", d)
	open, ended, unknown := events.TaskID("TASK_01KXAAAAAAAAAAAAAAAAAAAAAA"), events.TaskID("TASK_01KXBBBBBBBBBBBBBBBBBBBBBB"), events.TaskID("TASK_01KXCCCCCCCCCCCCCCCCCCCCCC")
	w.tasks[open], w.tasks[ended], w.ended[ended] = api.SubmitRequest{}, api.SubmitRequest{}, true
	body := func(id events.TaskID) string { return fmt.Sprintf(`{"task":%q,"by":"ada"}`, id) }
	for _, want := range []hooks.Result{hooks.Accepted, hooks.Duplicate} {
		a, err := w.deliver(r, "id-1", body(open))
		require.NoError(t, err)
		assert.Equal(t, receiver.Answer{Result: want, Delivery: "id-1", Task: string(open)}, a)
	}
	w.ended[open] = true
	a, err := w.deliver(r, "id-1", body(open))
	require.NoError(t, err, "it has the signal")
	assert.Equal(t, hooks.Duplicate, a.Result)
	assert.Equal(t, map[string]api.SignalRequest{"hook/deploy/id-1": {
		ID: open, Name: "answer", Data: json.RawMessage(`{"by":"ada"}`), Actor: "user:ada", Key: "hook/deploy/id-1",
	}}, w.signals)
	for id, reason := range map[events.TaskID]string{ended: "STATE_NOT_ALLOWED", unknown: "NOT_FOUND", "nonsense": "INVALID_FORMAT: signal.task"} {
		_, err := w.deliver(r, "id-of-"+string(id), body(id))
		require.Equal(t, receiver.ReasonRefused, fault.From(err).Reason)
		assert.NotContains(t, err.Error(), reason, "the sender does not see why")
		assert.Contains(t, w.view(r, "deploy").Deliveries[0].Reason, reason)
	}
}

func TestAPausedHookAsksSendersToRepeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start()
	w.put(r, "deploy", github())
	steer := func(act string) {
		t.Helper()
		_, err := r.SteerHook(t.Context(), api.SteerHookRequest{Name: "deploy", Act: act, Note: "frozen, hunter2", Actor: "user:bob"})
		require.NoError(t, err)
	}
	steer(api.ActPause)
	steer(api.ActPause)
	_, err := w.deliver(r, "id-1", "{}")
	assert.Equal(t, receiver.ReasonPaused, fault.From(err).Reason)
	assert.True(t, fault.Has(err, fault.Unavailable))
	_, err = r.Receive(t.Context(), w.delivery("deploy", "id-1", "{}", another))
	assert.True(t, fault.Has(err, fault.Unauthorized), "only who has the secret learns of the pause")
	next := w.start()
	assert.Equal(t, &hooks.Pause{By: "user:bob", At: w.now, Note: "frozen, [REDACTED]"}, w.view(next, "deploy").Paused)
	assert.Equal(t, "the hook is paused", w.view(next, "deploy").Deliveries[0].Reason)
	steer(api.ActResume)
	a, err := w.deliver(r, "id-1", "{}")
	require.NoError(t, err)
	assert.Equal(t, hooks.Accepted, a.Result)
	v := w.view(w.start(), "deploy")
	assert.Equal(t, hooks.Accepted, v.Deliveries[0].Result)
	assert.Equal(t, &v.Deliveries[1], v.LastRefused, "what was refused last stays in view")
}

func TestGreetings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start()
	w.put(r, "deploy", github())
	ping := w.delivery("deploy", "id-1", `{"zen":"x"}`, secret)
	ping.Headers["x-github-event"] = "ping"
	a, err := r.Receive(t.Context(), ping)
	require.NoError(t, err)
	assert.Equal(t, hooks.Filtered, a.Result)
	d := github()
	d.Provider = hooks.Slack
	w.put(r, "slack", d)
	body := []byte(`{"type":"url_verification","challenge":"3eZbrw1a"}`)
	h := hooks.Sign(hooks.Slack, secret, "", body, w.now)
	h["content-type"] = "application/json"
	a, err = r.Receive(t.Context(), receiver.Delivery{Name: "slack", Headers: h, Body: body})
	require.NoError(t, err)
	assert.Equal(t, "3eZbrw1a", a.Challenge)
	delete(h, "x-slack-signature")
	_, err = r.Receive(t.Context(), receiver.Delivery{Name: "slack", Headers: h, Body: body})
	assert.True(t, fault.Has(err, fault.Unauthorized), "only for the right sender")
	assert.Empty(t, w.tasks)
}

func TestBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start()
	d := github()
	d.When, d.Inputs = "", json.RawMessage(`{"b":"${{ hook.body }}"}`)
	w.put(r, "deploy", d)
	for i, tc := range []struct{ media, body, inputs, reason string }{
		{"application/json", ` {"a": 1} `, `{"b":{"a":1}}`, ""},
		{"application/vnd.api+json; charset=utf-8", `[1]`, `{"b":[1]}`, ""},
		{"application/x-www-form-urlencoded", `payload=%7B%22a%22%3A2%7D`, `{"b":{"a":2}}`, ""},
		{"application/x-www-form-urlencoded", `command=%2Fdeploy&text=now&x=1&x=2`, `{"b":{"command":"/deploy","text":"now","x":["1","2"]}}`, ""},
		{"application/json", ``, `{"b":null}`, ""},
		{"application/json", `{"a":`, "", "not JSON"},
		{"application/json", `{} {}`, "", "not JSON"},
		{"application/json", "\"\xff\"", "", "not UTF-8"},
		{"application/x-www-form-urlencoded", `payload={`, "", "not JSON"},
		{"application/x-www-form-urlencoded", `%zz`, "", "not a form"},
		{"text/plain", `{}`, "", "content type"},
		{"", `{}`, "", "content type"},
		{"multipart/form-data; boundary=x", `{}`, "", "content type"},
		{"application/json", strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), "", "not JSON"},
	} {
		id := fmt.Sprintf("id-%d", i)
		one := w.delivery("deploy", id, tc.body, secret)
		one.Headers["content-type"] = tc.media
		_, err := r.Receive(t.Context(), one)
		if tc.reason == "" {
			require.NoError(t, err, tc.body)
			assert.JSONEq(t, tc.inputs, string(w.tasks[events.KeyedTaskID("", "hook/deploy/"+id)].Inputs))
			continue
		}
		require.Equal(t, receiver.ReasonRefused, fault.From(err).Reason, tc.body)
		assert.Contains(t, w.view(r, "deploy").Deliveries[0].Reason, tc.reason)
	}
}

// Even a sender with the secret cannot fill the disk: its deliveries are limited, and the record of them is bounded.
func TestLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start()
	w.put(r, "deploy", github())
	limited := 0
	for i := range 300 {
		if _, err := w.deliver(r, strconv.Itoa(i), `{"ref":"skip"}`); err != nil {
			require.True(t, fault.Has(err, fault.RateLimited))
			assert.Equal(t, w.now.Add(time.Second), fault.From(err).RetryAt)
			limited++
		}
	}
	assert.Equal(t, 100, limited)
	for range 100 {
		w.now = w.now.Add(time.Second)
		for i := range 60 {
			_, _ = w.deliver(r, strconv.Itoa(i), `{"ref":"skip"}`)
		}
	}
	v := w.view(r, "deploy")
	assert.Equal(t, 200+100*50, v.Counts[hooks.Filtered])
	assert.Len(t, v.Deliveries, hooks.MaxOutcomes)
	assert.Equal(t, 100+100*10, v.Counts[hooks.Limited])
	assert.NotZero(t, w.journal.Pruned, "a snapshot has replaced entries")
	assert.Less(t, len(w.journal.Entries), 4097)
	delete(v.Counts, hooks.Limited)
	assert.Equal(t, v, w.view(w.start(), "deploy"), "the next node knows the same")
}

func TestPutHook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start()
	first := w.put(r, "deploy", github())
	assert.Equal(t, first, w.put(r, "deploy", github()), "the same again changes nothing")
	entries := len(w.journal.Entries)
	other := github()
	other.Note = "other, hunter2"
	put := func(q api.PutHookRequest) error {
		q.Actor = "user:ada"
		_, err := r.PutHook(t.Context(), q)
		return err
	}
	assert.True(t, fault.Has(put(api.PutHookRequest{Name: "deploy", Definition: other}), fault.Conflict))
	require.NoError(t, put(api.PutHookRequest{Name: "deploy", Definition: other, Replace: true, Paused: true}))
	v := w.view(r, "deploy")
	assert.Equal(t, first.ID, v.ID)
	assert.Equal(t, "other, [REDACTED]", v.Definition.Note)
	assert.NotNil(t, v.Paused)
	assert.Len(t, w.journal.Entries, entries+2)
	for field, q := range map[string]api.PutHookRequest{
		"name":        {Name: "A", Definition: github(), Secret: secret},
		"secret":      {Name: "x", Definition: github()},
		"provider":    {Name: "x", Definition: hooks.Definition{Plan: json.RawMessage(`{}`)}, Secret: secret},
		"when":        {Name: "x", Definition: hooks.Definition{Provider: hooks.GitHub, Plan: json.RawMessage(`{}`), When: "steps.a"}, Secret: secret},
		"signal.data": {Name: "x", Definition: hooks.Definition{Provider: hooks.GitHub, Signal: &hooks.Signal{Task: "x", Name: "y", Data: json.RawMessage(`"hunter2"`)}}, Secret: secret},
		"inputs.a":    {Name: "x", Definition: hooks.Definition{Provider: hooks.GitHub, Plan: json.RawMessage(`{}`), Inputs: json.RawMessage(`{"a":"${{ item }}"}`)}, Secret: secret},
	} {
		assert.Equal(t, field, fault.From(put(q)).Field)
	}
	w.checked = fault.New(fault.ValidationError, "is not a number").WithField("inputs.n")
	fixed := hooks.Definition{Provider: hooks.GitHub, Plan: json.RawMessage(`{}`), Inputs: json.RawMessage(`{"n":"x","m":"${{ hook.body.m }}"}`)}
	assert.Equal(t, "inputs.n", fault.From(put(api.PutHookRequest{Name: "x", Definition: fixed, Secret: secret})).Field)
	fixed.Inputs = json.RawMessage(`{"n":"${{ hook.body.n }}"}`)
	require.NoError(t, put(api.PutHookRequest{Name: "x", Definition: fixed, Secret: secret}), "it depends on the delivery")
	w.checked = fault.New(fault.ValidationError, "the expression failed")
	require.NoError(t, put(api.PutHookRequest{Name: "y", Definition: fixed, Secret: secret}), "that too")
	w.checked = fault.New(fault.SecretDetected, "a secret").WithField("plan")
	assert.True(t, fault.Has(put(api.PutHookRequest{Name: "z", Definition: fixed, Secret: secret}), fault.SecretDetected))
}

// A crash between the record of a definition and its secret leaves a hook that takes nothing, which the same command completes.
func TestAHookWithoutItsSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start()
	w.failing = func(kind string) (error, bool) {
		if kind == "secret" {
			return errors.New("the node has ended"), false
		}
		return nil, false
	}
	q := api.PutHookRequest{Name: "deploy", Definition: github(), Secret: secret, Actor: "user:ada"}
	_, err := r.PutHook(t.Context(), q)
	require.Error(t, err)
	w.failing = nil
	r = w.start()
	assert.False(t, w.view(r, "deploy").HasSecret)
	_, err = w.deliver(r, "id-1", "{}")
	require.True(t, fault.Has(err, fault.Unauthorized))
	_, err = r.Receive(t.Context(), w.delivery("deploy", "id-1", "{}", ""))
	require.True(t, fault.Has(err, fault.Unauthorized), "no secret is no secret that anybody has")
	test, err := r.TestHook(t.Context(), api.TestHookRequest{Name: "deploy", Body: "{}"})
	require.NoError(t, err)
	assert.Equal(t, hooks.Rejected, test.Result)
	_, err = r.PutHook(t.Context(), q)
	require.NoError(t, err)
	_, err = w.deliver(r, "id-1", "{}")
	require.NoError(t, err)

	_, err = r.SteerHook(t.Context(), api.SteerHookRequest{Name: "deploy", Act: api.ActDelete})
	require.NoError(t, err)
	assert.Empty(t, w.secrets)
	_, err = w.deliver(r, "id-2", "{}")
	assert.True(t, fault.Has(err, fault.Unauthorized))
	_, err = w.start().Hooks(t.Context(), api.HooksRequest{Name: "deploy"})
	assert.True(t, fault.Has(err, fault.NotFound))
	_, err = r.SteerHook(t.Context(), api.SteerHookRequest{Name: "deploy", Act: api.ActPause})
	assert.True(t, fault.Has(err, fault.NotFound))
}

func TestTestHookDoesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start()
	d := github()
	d.Inputs = json.RawMessage(`{"ref":"${{ hook.body.ref }}","event":"${{ hook.headers[\"x-github-event\"] }}"}`)
	w.put(r, "deploy", d)
	before := len(w.journal.Entries)
	try := func(body, delivery string) api.TestHookReply {
		t.Helper()
		reply, err := r.TestHook(t.Context(), api.TestHookRequest{Name: "deploy", Body: body, Delivery: delivery, Headers: map[string]string{"X-GitHub-Event": "push"}})
		require.NoError(t, err)
		return reply
	}
	reply := try(`{"ref":"main"}`, "id-1")
	assert.Equal(t, hooks.Accepted, reply.Result)
	assert.Equal(t, string(events.KeyedTaskID("", "hook/deploy/id-1")), reply.Task)
	assert.JSONEq(t, `{"ref":"main","event":"push"}`, string(reply.Inputs))
	assert.NotContains(t, fmt.Sprint(reply), "sha256=")
	assert.Equal(t, hooks.Filtered, try(`{"ref":"skip"}`, "").Result)
	assert.Equal(t, hooks.Refused, try(`{`, "").Result)
	w.checked = fault.New(fault.ValidationError, "is not a number").WithField("inputs.n")
	assert.Contains(t, try(`{"ref":"main"}`, "").Reason, "inputs.n")
	w.checked = nil
	assert.Len(t, w.journal.Entries, before)
	assert.Empty(t, w.tasks)
	_, err := w.deliver(r, "id-1", `{"ref":"main"}`)
	require.NoError(t, err)
	assert.Equal(t, hooks.Duplicate, try(`{"ref":"main"}`, "id-1").Result)
	_, err = r.TestHook(t.Context(), api.TestHookRequest{Name: "deploy", Body: strings.Repeat("x", receiver.MaxBody+1)})
	require.ErrorContains(t, err, "limit")
	_, err = r.TestHook(t.Context(), api.TestHookRequest{Name: "other"})
	assert.True(t, fault.Has(err, fault.NotFound))
}

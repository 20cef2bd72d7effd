package receiver_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
	"github.com/orch-dev/orch/receiver"
)

// Whatever a sender with the secret sends, its delivery starts a task, does nothing, or is refused, and the next node can read the record.
func FuzzReceive(f *testing.F) {
	for _, body := range []string{`{"ref":"main"}`, `{"ref":`, `payload=%7B%7D`, "\xff", `[]`, `{"$blob":"x"}`, `null`, `7`} {
		f.Add("application/json", "id-1", "push", body)
		f.Add("application/x-www-form-urlencoded", "", "", body)
	}
	f.Fuzz(func(t *testing.T, media, id, event, body string) {
		w := newWorld(t)
		r := w.start()
		d := github()
		d.Inputs = json.RawMessage(`{"b":"${{ hook.body }}","h":"${{ hook.headers }}"}`)
		w.put(r, "deploy", d)
		one := w.delivery("deploy", id, body, secret)
		one.Headers["content-type"], one.Headers["x-github-event"] = media, event
		a, err := r.Receive(t.Context(), one)
		if err != nil {
			require.Equal(t, receiver.ReasonRefused, fault.From(err).Reason, "%v", err)
		}
		v := w.view(w.start(), "deploy")
		require.Len(t, v.Deliveries, 1)
		assert.Equal(t, a.Result == hooks.Accepted, len(w.tasks) == 1)
		for _, task := range w.tasks {
			assert.True(t, json.Valid(task.Inputs), "%s", task.Inputs)
			assert.True(t, json.Valid(task.Hook.Body.Raw), "%s", task.Hook.Body.Raw)
		}
	})
}

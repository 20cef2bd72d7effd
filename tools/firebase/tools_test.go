package firebase_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/memory"
	"github.com/orch-dev/orch/tools/firebase/refusal"
	"github.com/orch-dev/orch/tools/toolstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kit is the family with databases in memory.
type kit struct {
	t   *testing.T
	cfg firebase.Config
}

func newKit(t *testing.T) *kit {
	t.Helper()
	k := &kit{t: t, cfg: firebase.Config{
		Realtime: memory.NewRealtime(memory.Config{}), Firestore: memory.NewFirestore(memory.Config{}),
	}}
	hub := firebase.NewHub(firebase.HubConfig{Realtime: k.cfg.Realtime, Firestore: k.cfg.Firestore})
	t.Cleanup(hub.Close)
	k.cfg.Subscriptions = hub
	return k
}

func (k *kit) tool(name string) tools.Tool {
	k.t.Helper()
	for _, tool := range firebase.Tools(k.cfg) {
		if tool.Spec().Name == name {
			return tool
		}
	}
	require.Fail(k.t, "there is no tool "+name)
	return nil
}

// call checks and calls as the dispatcher does; every output must match its schema.
func (k *kit) call(name string, args object) (object, error) {
	k.t.Helper()
	tool := k.tool(name)
	raw, err := json.Marshal(args)
	require.NoError(k.t, err)
	checked, err := tool.Check(raw)
	if err != nil {
		return nil, err
	}
	text, err := tool.Call(k.t.Context(), &tools.Env{Key: "task/step"}, checked)
	if err != nil {
		return nil, err
	}
	toolstest.Output(k.t, tool, text)
	var out object
	require.NoError(k.t, json.Unmarshal(text, &out))
	return out, nil
}

func (k *kit) do(name string, args object) object {
	k.t.Helper()
	out, err := k.call(name, args)
	require.NoError(k.t, err, "%v", args)
	return out
}

func (k *kit) write(database, path string, data any) {
	k.t.Helper()
	k.do("firebase.write", object{"database": database, "path": path, "data": data})
}

// data returns the data in the output of firebase.read.
func (k *kit) data(database, path string) any {
	k.t.Helper()
	return k.do("firebase.read", object{"database": database, "path": path})["data"]
}

// about returns the metadata of an output, without the time, which must be today's in UTC (S3-005).
func (k *kit) about(out object) object {
	k.t.Helper()
	about, _ := out["metadata"].(object)
	text, _ := about["timestamp"].(string)
	at, err := time.Parse(time.RFC3339, text)
	require.NoError(k.t, err)
	assert.True(k.t, strings.HasSuffix(text, "Z"))
	assert.WithinDuration(k.t, time.Now(), at, time.Hour)
	delete(about, "timestamp")
	return about
}

// S3-004, S3-020, S3-026, S3-030, S3-040: values on both sides of every bound.
func TestInputs(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.write("realtime", "p", object{"a": 1.0})
	read := func(more object) object {
		args := object{"database": "realtime", "path": "p"}
		maps.Copy(args, more)
		return args
	}
	ordered := func(limit any) object { return read(object{"query": object{"orderBy": "$key", "limit": limit}}) }
	for _, c := range []struct {
		tool  string
		args  object
		field string
		code  fault.Code // "" for none
	}{
		{"firebase.read", read(nil), "", ""},
		{"firebase.read", ordered(1), "", ""},
		{"firebase.read", ordered(1000), "", ""},
		{"firebase.read", ordered(0), "query.limit", fault.ValidationError},
		{"firebase.read", ordered(1001), "query.limit", fault.ValidationError},
		{"firebase.read", ordered(1.5), "query.limit", fault.ValidationError},
		{"firebase.read", read(object{"query": object{"startAt": object{}}}), "query.startAt", fault.ValidationError},
		{"firebase.read", read(object{"query": object{"endAt": []any{}}}), "query.endAt", fault.ValidationError},
		{"firebase.read", read(object{"query": object{"limit": 1}}), "query", fault.ValidationError},
		{"firebase.read", read(object{"database": "other"}), "database", fault.ValidationError},
		{"firebase.read", object{"path": "p"}, "database", fault.RequiredField},
		{"firebase.read", object{"database": "realtime"}, "path", fault.RequiredField},
		{"firebase.read", read(object{"path": ""}), "path", fault.InvalidFormat},
		{"firebase.read", read(object{"path": "a.b"}), "path", fault.InvalidFormat},
		{"firebase.read", read(object{"path": "a b"}), "path", fault.InvalidFormat},
		{"firebase.read", read(object{"path": "a/../b"}), "path", fault.InvalidFormat},
		{"firebase.read", read(object{"path": "/p"}), "path", fault.InvalidFormat},
		{"firebase.read", read(object{"path": "p/"}), "path", fault.InvalidFormat},
		{"firebase.read", read(object{"path": "p//a"}), "path", fault.InvalidFormat},
		{"firebase.read", read(object{"path": "/"}), "path", fault.InvalidFormat},
		{"firebase.read", read(object{"shallow": "yes"}), "shallow", fault.ValidationError},
		{"firebase.write", read(nil), "data", fault.RequiredField},
		{"firebase.write", read(object{"data": nil}), "", ""},
		{"firebase.write", read(object{"data": 1, "operation": "append"}), "operation", fault.ValidationError},
		{"firebase.write", read(object{"data": 1, "merge": 1}), "merge", fault.ValidationError},
		{"firebase.write", read(object{"data": 1, "path": "p/"}), "path", fault.InvalidFormat},
		{"firebase.subscribe", read(nil), "subscriptionId", fault.RequiredField},
		{"firebase.subscribe", read(object{"subscriptionId": "a_b"}), "subscriptionId", fault.InvalidFormat},
		{"firebase.subscribe", read(object{"subscriptionId": ""}), "subscriptionId", fault.InvalidFormat},
		{"firebase.subscribe", read(object{"subscriptionId": "a", "eventType": "child_moved"}), "eventType", fault.ValidationError},
		{"firebase.unsubscribe", object{}, "subscriptionId", fault.RequiredField},
	} {
		_, err := k.call(c.tool, c.args)
		if c.code == "" {
			require.NoError(t, err, "%s %v", c.tool, c.args)
			continue
		}
		e := fault.From(err)
		require.NotNil(t, e, "%s %v", c.tool, c.args)
		assert.Equal(t, c.code, e.Code, "%s %v: %v", c.tool, c.args, err)
		assert.Equal(t, c.field, e.Field, "%s %v: %v", c.tool, c.args, err)
	}
}

// S3-021 to S3-024, A-80: the output of a read.
func TestRead(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.write("realtime", "people", object{"ada": object{"age": 36.0}, "bob": object{"age": 7.0}, "eve": object{"age": 36.0}, "kim": object{"age": 99.0}})
	k.write("realtime", "list", []any{"x", nil, "y"})
	k.write("realtime", "flag", false)
	for id, age := range map[string]float64{"ada": 36, "bob": 7, "kim": 99} {
		k.write("firestore", "people/"+id, object{"age": age})
	}
	for _, c := range []struct {
		database, path string
		more           object
		data           any
		count          float64
	}{
		{"realtime", "people/ada", nil, object{"age": 36.0}, 1},
		{"realtime", "people", nil, object{"ada": object{"age": 36.0}, "bob": object{"age": 7.0}, "eve": object{"age": 36.0}, "kim": object{"age": 99.0}}, 4},
		{"realtime", "people/ada/age", nil, object{".value": 36.0}, 1},
		{"realtime", "flag", nil, object{".value": false}, 1},
		{"realtime", "list", nil, []any{"x", nil, "y"}, 2},
		{"realtime", "people", object{"shallow": true}, object{"ada": true, "bob": true, "eve": true, "kim": true}, 4},
		{"realtime", "people", object{"query": object{"orderBy": "age", "startAt": 36, "endAt": 36, "limit": 1}}, object{"ada": object{"age": 36.0}}, 1},
		{"realtime", "people", object{"query": object{"orderBy": "age", "startAt": 200}}, object{}, 0},
		{"firestore", "people/ada", nil, object{"age": 36.0}, 1},
		{"firestore", "people", nil, object{"ada": object{"age": 36.0}, "bob": object{"age": 7.0}, "kim": object{"age": 99.0}}, 3},
		{"firestore", "people", object{"query": object{"orderBy": "age", "endAt": 36}}, object{"ada": object{"age": 36.0}, "bob": object{"age": 7.0}}, 2},
		{"firestore", "people", object{"query": object{"orderBy": "size"}}, object{}, 0},
	} {
		args := object{"database": c.database, "path": c.path}
		maps.Copy(args, c.more)
		out := k.do("firebase.read", args)
		assert.Equal(t, true, out["success"])
		assert.Equal(t, c.data, out["data"], "%v", args)
		assert.Equal(t, object{"path": c.path, "count": c.count}, k.about(out), "%v", args)
	}
}

// S3-023: the JSON text of an output has the selected children in their order.
func TestQueryKeepsItsOrder(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	k.write("realtime", "p", object{"a": 3.0, "b": 1.0, "c": 2.0})
	tool := k.tool("firebase.read")
	checked, err := tool.Check(json.RawMessage(`{"database":"realtime","path":"p","query":{"orderBy":"$value"}}`))
	require.NoError(t, err)
	text, err := tool.Call(t.Context(), &tools.Env{}, checked)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"data":{"b":1,"c":2,"a":3}`)
}

// S3-022, S3-031, S3-032, S3-034: each operation on both databases.
func TestWrite(t *testing.T) {
	t.Parallel()
	for _, database := range []string{"realtime", "firestore"} {
		k := newKit(t)
		write := func(path, operation string, data any, more object) object {
			args := object{"database": database, "path": path, "data": data}
			if operation != "" {
				args["operation"] = operation
			}
			maps.Copy(args, more)
			return k.do("firebase.write", args)
		}
		for _, transaction := range []bool{false, true} {
			more := object{"transaction": transaction}
			out := write("rooms/a", "", object{"n": 1.0, "m": 2.0}, more)
			assert.Equal(t, object{"path": "rooms/a", "operation": "set"}, k.about(out))
			assert.NotContains(t, out, "key")
			write("rooms/a", "set", object{"n": 5.0, "o": object{"x": 1.0}}, more)
			assert.Equal(t, object{"n": 5.0, "o": object{"x": 1.0}}, k.data(database, "rooms/a"), "set replaces")
			write("rooms/a", "update", object{"o": object{"y": 2.0}, "p": true}, more)
			assert.Equal(t, object{"n": 5.0, "o": object{"y": 2.0}, "p": true}, k.data(database, "rooms/a"), "update merges children")
			first, second := write("rooms", "push", object{"i": 1.0}, more), write("rooms", "push", object{"i": 2.0}, more)
			require.IsType(t, "", first["key"])
			assert.Less(t, first["key"], second["key"], "keys are ordered by time")
			assert.Equal(t, object{"i": 2.0}, k.data(database, "rooms/"+fmt.Sprint(second["key"])))
			assert.Equal(t, object{"path": "rooms", "operation": "push"}, k.about(second))
			write("rooms/a", "delete", nil, more)
			_, err := k.call("firebase.read", object{"database": database, "path": "rooms/a"})
			assert.Equal(t, refusal.NotFound, fault.From(err).Reason, "A-81")
			write("rooms/a", "delete", nil, more)
		}
	}
	k := newKit(t)
	k.write("firestore", "c/d", object{"keep": 1.0, "o": object{"x": 1.0}})
	k.do("firebase.write", object{"database": "firestore", "path": "c/d", "data": object{"o": object{"y": 2.0}}, "merge": true})
	assert.Equal(t, object{"keep": 1.0, "o": object{"x": 1.0, "y": 2.0}}, k.data("firestore", "c/d"))
}

// S3-033: a hundred concurrent calls of the tool lose no increment.
func TestTransactionsOfTheTool(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	const calls = 100
	errs := make([]error, calls)
	var group sync.WaitGroup
	for i := range calls {
		group.Go(func() {
			_, errs[i] = k.call("firebase.write", object{
				"database": "realtime", "path": "n", "data": object{".sv": object{"increment": 1}}, "transaction": true,
			})
		})
	}
	group.Wait()
	done := 0.0
	for _, err := range errs {
		if err == nil {
			done++
			continue
		}
		assert.Equal(t, refusal.Conflict, fault.From(err).Reason)
	}
	require.Positive(t, done)
	assert.Equal(t, object{".value": done}, k.data("realtime", "n"))
}

// failing is a database whose methods all fail.
type failing struct{ err error }

// Read implements firebase.Backend.
func (f failing) Read(context.Context, string, firebase.Query) (firebase.Snapshot, error) {
	return firebase.Snapshot{}, f.err
}

// Write implements firebase.Backend.
func (f failing) Write(context.Context, string, firebase.Write) (firebase.Written, error) {
	return firebase.Written{}, f.err
}

// Watch implements firebase.Backend.
func (f failing) Watch(context.Context, string, firebase.EventType) (firebase.Watching, error) {
	return firebase.Watching{}, f.err
}

// S3-025, S3-035: each error of a database becomes the error of the tool, with its code, and its causes are not
// shown.
func TestErrorsOfDatabases(t *testing.T) {
	t.Parallel()
	for reason, number := range map[string]int{
		refusal.PermissionDenied: -32101, refusal.NotFound: -32200, refusal.InvalidPath: -32302, refusal.QuotaExceeded: -32401,
		refusal.ConnectionError: -32500, refusal.ValidationError: -32300, refusal.Conflict: -32201,
		refusal.SizeLimitExceeded: -32300, refusal.InvalidDataType: -32302,
	} {
		secret := errors.New("10.0.0.1: the token hunter2 is wrong")
		broken := failing{fault.Wrap(refusal.Code(reason), secret, "it cannot be").WithReason(reason)}
		k := &kit{t: t, cfg: firebase.Config{Realtime: broken, Firestore: broken}}
		for _, database := range []string{"realtime", "firestore"} {
			for _, tool := range []string{"firebase.read", "firebase.write"} {
				args := object{"database": database, "path": "a/b"}
				if tool == "firebase.write" {
					args["data"] = object{}
				}
				_, err := k.call(tool, args)
				e := fault.From(err)
				require.NotNil(t, e)
				assert.Equal(t, number, e.Code.RPC(), reason)
				assert.Equal(t, reason, e.Reason)
				assert.NotContains(t, e.Message, "hunter2")
				if tool == "firebase.write" {
					assert.Contains(t, k.tool(tool).Spec().Errors, reason)
				}
			}
		}
	}
}

// Errors of the semantics, through the tools (S3-022, S3-035).
func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	for _, c := range []struct {
		args   object
		reason string
	}{
		{object{"database": "firestore", "path": "rooms", "data": object{}}, refusal.InvalidPath},
		{object{"database": "firestore", "path": "rooms/a", "data": object{}, "operation": "push"}, refusal.InvalidPath},
		{object{"database": "firestore", "path": "rooms/a", "data": 1}, refusal.InvalidDataType},
		{object{"database": "firestore", "path": "rooms/a", "data": object{"n": 1}, "operation": "update"}, refusal.NotFound},
		{object{"database": "firestore", "path": "rooms/a", "data": object{"s": strings.Repeat("x", 2<<20)}}, refusal.SizeLimitExceeded},
		{object{"database": "realtime", "path": "a", "data": 1, "operation": "update"}, refusal.InvalidDataType},
		{object{"database": "realtime", "path": "a", "data": object{"a.b": 1}}, refusal.InvalidPath},
		{object{"database": "realtime", "path": "a", "data": object{}, "merge": true}, refusal.ValidationError},
		{object{"database": "realtime", "path": "a", "data": json.RawMessage(`{"n":1e999}`)}, refusal.InvalidDataType},
	} {
		_, err := k.call("firebase.write", c.args)
		assert.Equal(t, c.reason, fault.From(err).Reason, "%.200v: %v", c.args, err)
	}
}

// A call that removes data is destructive, and its intent says so.
func TestIntents(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	tool, ok := k.tool("firebase.write").(tools.Intender)
	require.True(t, ok)
	for args, want := range map[string]tools.Effect{
		`{"database":"realtime","path":"a","data":1}`:                          tools.Write,
		`{"database":"realtime","path":"a","data":{},"operation":"update"}`:    tools.Write,
		`{"database":"realtime","path":"a","data":1,"operation":"push"}`:       tools.Write,
		`{"database":"realtime","path":"a","data":null,"operation":"delete"}`:  tools.Destructive,
		`{"database":"realtime","path":"a","data":null}`:                       tools.Destructive,
		`{"database":"firestore","path":"a/b","data":{},"operation":"delete"}`: tools.Destructive,
	} {
		checked, err := k.tool("firebase.write").Check(json.RawMessage(args))
		require.NoError(t, err)
		intent, err := tool.Intent(t.Context(), &tools.Env{}, checked)
		require.NoError(t, err)
		assert.Equal(t, want, intent.Effect, args)
	}
}

// Without a session there is no subscription, and without databases no tool works: both errors have a hint.
func TestWhatIsMissing(t *testing.T) {
	t.Parallel()
	k := newKit(t)
	subscribe := object{"subscriptionId": "s", "database": "realtime", "path": "a"}
	for tool, args := range map[string]object{"firebase.subscribe": subscribe, "firebase.unsubscribe": {"subscriptionId": "s"}} {
		_, err := k.call(tool, args)
		assert.Equal(t, "NO_SESSION", fault.From(err).Reason)
		assert.Contains(t, fault.From(err).Hint, "firebase.read")
	}
	bare := &kit{t: t}
	for tool, args := range map[string]object{
		"firebase.read":  {"database": "realtime", "path": "a"},
		"firebase.write": {"database": "firestore", "path": "a/b", "data": object{}},
	} {
		_, err := bare.call(tool, args)
		assert.True(t, fault.Has(err, fault.ToolUnavailable), tool)
	}
	env := &tools.Env{Client: &events.Client{Session: "nobody"}}
	checked, err := k.tool("firebase.subscribe").Check(json.RawMessage(`{"subscriptionId":"s","database":"realtime","path":"a"}`))
	require.NoError(t, err)
	_, err = k.tool("firebase.subscribe").Call(t.Context(), env, checked)
	assert.True(t, fault.Has(err, fault.NotFound), "a session that is over")
}

package node_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/tools"
)

// withServers returns a node with a recorded server of one tool. The server does not start.
func withServers(t *testing.T) (node.Config, string) {
	t.Helper()
	cfg, home := config(t), t.TempDir()
	put(t, filepath.Join(home, ".orch", "mcp", "wiki.json"), `{"schemaVersion":"1.0.0","name":"wiki","transport":"stdio","command":"no-such-program","capabilities":["tools"]}`)
	record(t, home, `{"tools":{"search":{"accepted":{"name":"search","description":"Searches","inputSchema":{"type":"object"}},"by":"first use"}}}`)
	cfg.Faces.Servers = node.Servers{Home: home, Still: true, Connect: gateway.AtOnce, Getenv: func(string) string { return "" }}
	return cfg, home
}

func put(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// record writes the record of the server wiki.
func record(t *testing.T, home, text string) {
	t.Helper()
	put(t, filepath.Join(home, ".orch", "state", "mcp-tools", "wiki.json"), text)
}

// changedRecord is the record of a server whose definition has changed since it was accepted.
const changedRecord = `{"tools":{"search":{"accepted":{"name":"search","inputSchema":{"type":"object"}},"seen":{"name":"search","description":"Reads keys","inputSchema":{"type":"object"}},"by":"first use"}}}`

// admins are all ways to the servers of a node.
func admins(t *testing.T, cfg node.Config, n *node.Node) map[string]node.Admin {
	t.Helper()
	r, err := node.Dial(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	return map[string]node.Admin{"here": node.NewAdmin(n), "elsewhere": node.NewAdmin(r)}
}

func TestServersAreAdministeredFromElsewhere(t *testing.T) {
	t.Parallel()
	cfg, home := withServers(t)
	n := start(t, cfg)
	for where, admin := range admins(t, cfg, n) {
		list, err := admin.List(t.Context())
		require.NoError(t, err, where)
		require.Len(t, list, 1)
		assert.Equal(t, registry.Degraded, list[0].Status)
		assert.Contains(t, list[0].LastError, "no-such-program")
		assert.Zero(t, list[0].Blocked)

		report, err := admin.Test(t.Context(), "wiki")
		require.ErrorIs(t, err, fault.New(fault.ToolUnavailable, ""), where)
		assert.Equal(t, "wiki", report.Tool)
		assert.NotEmpty(t, report.Stages)
		report, err = admin.Test(t.Context(), "nobody")
		require.ErrorIs(t, err, fault.New(fault.NotFound, ""))
		assert.Empty(t, report.Tool)

		s, err := admin.Disable(t.Context(), "wiki")
		require.NoError(t, err)
		assert.Equal(t, registry.Offline, s.Status)
		assert.False(t, s.Enabled)
		s, err = admin.Enable(t.Context(), "wiki")
		require.NoError(t, err)
		assert.True(t, s.Enabled)
		_, err = admin.Enable(t.Context(), "nobody")
		require.ErrorIs(t, err, fault.New(fault.NotFound, ""))

		put(t, filepath.Join(home, ".orch", "mcp", "more.json"), `{"schemaVersion":"1.0.0","name":"more","transport":"stdio","command":"no-such-program","capabilities":["tools"]}`)
		r, err := admin.Reload(t.Context())
		require.NoError(t, err)
		assert.Zero(t, r.Count, "it is not connected")
		assert.Len(t, r.Servers, 2)
		require.NoError(t, os.Remove(filepath.Join(home, ".orch", "mcp", "more.json")))
		_, err = admin.Reload(t.Context())
		require.NoError(t, err)
	}
}

func TestDefinitionsAreAcceptedFromElsewhere(t *testing.T) {
	t.Parallel()
	cfg, home := withServers(t)
	n := start(t, cfg)
	ways := admins(t, cfg, n)
	ways["recorded"] = node.RecordedAdmin(home, cfg.Logger)
	for where, admin := range ways {
		record(t, home, changedRecord)
		list, err := admin.Definitions(t.Context(), "wiki")
		require.NoError(t, err, where)
		require.Len(t, list, 1)
		assert.Equal(t, gateway.Changed, list[0].Status)
		assert.Contains(t, list[0].Diff, "Reads keys")
		none, err := admin.Definitions(t.Context(), "nobody")
		require.NoError(t, err)
		assert.Empty(t, none)

		for reason, word := range map[fault.Code]node.Acceptance{
			fault.RequiredField: {Server: "wiki", By: person(t)},
			fault.NotFound:      {Server: "wiki", Tools: map[string]string{"nothing": list[0].SHA256}},
			fault.Conflict:      {Server: "wiki", Tools: map[string]string{"search": list[0].AcceptedSHA256}},
		} {
			_, err = admin.Accept(t.Context(), word)
			require.ErrorIs(t, err, fault.New(reason, ""), where)
		}
		_, err = admin.Accept(t.Context(), node.Acceptance{Server: "wiki", Tools: map[string]string{"search": ""}})
		require.ErrorIs(t, err, fault.New(fault.RequiredField, ""), "nobody accepts what was not seen")

		accepted, err := admin.Accept(t.Context(), node.Acceptance{Server: "wiki", Tools: map[string]string{"search": list[0].SHA256}, By: person(t)})
		require.NoError(t, err)
		require.Len(t, accepted, 1)
		assert.Equal(t, gateway.Accepted, accepted[0].Status)
		assert.Equal(t, person(t), accepted[0].By)
	}
	_, err := ways["recorded"].List(t.Context())
	require.ErrorIs(t, err, fault.New(fault.Unavailable, ""), "no server runs there")
}

// The tools of a node are returned at once without a known version, and otherwise when they change.
func TestToolsAreOfferedElsewhere(t *testing.T) {
	t.Parallel()
	cfg, home := withServers(t)
	n := start(t, cfg)
	for where, admin := range admins(t, cfg, n) {
		first, err := admin.Offered(t.Context(), "", 0)
		require.NoError(t, err, where)
		require.Len(t, first.Tools, 1)
		assert.Equal(t, "wiki__search", first.Tools[0].Spec.Name)
		assert.Nil(t, first.Tools[0].Refused)

		same, err := admin.Offered(t.Context(), first.Version, time.Millisecond)
		require.NoError(t, err)
		assert.Equal(t, node.Offered{Version: first.Version}, same)

		next := make(chan node.Offered, 1)
		go func() {
			o, err := admin.Offered(t.Context(), first.Version, time.Minute)
			assert.NoError(t, err)
			next <- o
		}()
		_, err = admin.Disable(t.Context(), "wiki")
		require.NoError(t, err)
		second := <-next
		require.Len(t, second.Tools, 1)
		assert.NotEqual(t, first.Version, second.Version)
		assert.Equal(t, fault.ToolDisabled, second.Tools[0].Refused.Code)
		assert.True(t, second.Tools[0].Spec.Unlisted)

		_, err = admin.Enable(t.Context(), "wiki")
		require.NoError(t, err)
		third, err := admin.Offered(t.Context(), second.Version, time.Minute)
		require.NoError(t, err)
		assert.Equal(t, first, third)
	}
	recorded, err := node.RecordedTools(t.Context(), node.Servers{Home: home}, false, cfg.Logger)
	require.NoError(t, err)
	require.Len(t, recorded, 1)
	assert.Equal(t, "wiki__search", recorded[0].Spec.Name)
	mirrors, err := node.Mirrors(recorded)
	require.NoError(t, err)
	_, err = mirrors[0].Call(t.Context(), &tools.Env{}, json.RawMessage("{}"))
	require.ErrorIs(t, err, fault.New(fault.Unavailable, ""))
}

// asked is a node whose answers come from the test.
type asked func(in any) (any, error)

func (a asked) Ask(_ context.Context, _ string, in, out any) error {
	reply, err := a(in)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(reply)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, out)
}

// More tools than fit into a message are sent in parts, all of the same version.
func TestManyToolsComeInParts(t *testing.T) {
	t.Parallel()
	var present []gateway.Entry
	for i := range 50 {
		name := "t" + strings.Repeat("x", i)
		present = append(present, gateway.Entry{Server: "s", Tool: name, Input: json.RawMessage(`{}`), Spec: tools.Spec{Name: tools.OutsideName("s", name), Purpose: strings.Repeat("p", 200<<10)}})
	}
	methods := node.NewOffers(func() []gateway.Entry { return present })
	all, err := node.NewAdmin(methods).Offered(t.Context(), "", 0)
	require.NoError(t, err)
	assert.Equal(t, present, all.Tools)

	changed := false
	sly := asked(func(in any) (any, error) {
		var raw json.RawMessage
		err := methods.Ask(t.Context(), bus.ServersPrefix+".catalogue", in, &raw)
		assert.Less(t, len(raw), bus.MaxPayload)
		if !changed {
			changed, present = true, append([]gateway.Entry{{Server: "s", Tool: "new", Input: json.RawMessage(`{}`)}}, present...)
		}
		return raw, err
	})
	all, err = node.NewAdmin(sly).Offered(t.Context(), "", 0)
	require.NoError(t, err)
	assert.Equal(t, present, all.Tools)
	assert.True(t, changed)
}

// A node without servers says so, and its list of tools can be followed like any other.
func TestNodeWithoutServers(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	n := start(t, cfg)
	for where, admin := range admins(t, cfg, n) {
		offered, err := admin.Offered(t.Context(), "", time.Minute)
		require.NoError(t, err, where)
		assert.Empty(t, offered.Tools)
		assert.NotEmpty(t, offered.Version)
		_, err = admin.List(t.Context())
		require.ErrorIs(t, err, fault.New(fault.ToolDisabled, ""))
		_, err = admin.Accept(t.Context(), node.Acceptance{})
		require.ErrorIs(t, err, fault.New(fault.ToolDisabled, ""))
	}
}

// The credential of workers gives no access to the servers, because they start programs.
func TestWorkersDoNotAdministerServers(t *testing.T) {
	t.Parallel()
	cfg, _ := withServers(t)
	start(t, cfg)
	c, err := bus.Dial(t.Context(), bus.DialConfig{DataDir: cfg.DataDir, User: bus.WorkerUser})
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = node.NewAdmin(rpc.NewRemote(c)).Disable(ctx, "wiki")
	require.Error(t, err)
	r, err := node.Dial(t.Context(), cfg)
	require.NoError(t, err)
	list, err := node.NewAdmin(r).List(t.Context())
	require.NoError(t, err)
	assert.True(t, list[0].Enabled)
	require.NoError(t, r.Close())
}

// noted returns the recorded changes of servers in the log of a node, each once.
func noted(t *testing.T, n *node.Node) []string {
	t.Helper()
	list, err := n.API().List(t.Context(), api.ListRequest{Name: api.OwnPrefix + "mcp"})
	require.NoError(t, err)
	var all []string
	for _, task := range list.Tasks {
		history, err := n.API().History(t.Context(), api.HistoryRequest{ID: task.ID})
		require.NoError(t, err)
		raw, err := json.Marshal(history)
		require.NoError(t, err)
		for _, found := range regexp.MustCompile(`"message":"(mcp_[^"]*)"`).FindAllStringSubmatch(string(raw), -1) {
			all = append(all, found[1])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Changes of servers are in the log (S1-035, S1-050, S1-052), also those that come just before the node stops.
func TestChangesOfServersAreNoted(t *testing.T) {
	t.Parallel()
	cfg, home := withServers(t)
	n := start(t, cfg)
	admin := node.NewAdmin(n)
	_, err := admin.List(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(noted(t, n)) == 1 }, time.Minute, 10*time.Millisecond)
	assert.Equal(t, []string{"mcp_tool_loaded wiki"}, noted(t, n))
	_, err = admin.As("user:ada").Disable(t.Context(), "wiki")
	require.NoError(t, err)
	_, err = admin.Enable(t.Context(), "wiki")
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(home, ".orch", "mcp", "wiki.json")))
	_, err = admin.Reload(t.Context())
	require.NoError(t, err)
	require.NoError(t, n.Stop(t.Context()))

	n = start(t, cfg)
	assert.Equal(t, []string{"mcp_tool_disabled wiki by user:ada", "mcp_tool_enabled wiki", "mcp_tool_loaded wiki", "mcp_tool_removed wiki"}, noted(t, n))
	list, err := n.API().List(t.Context(), api.ListRequest{})
	require.NoError(t, err)
	assert.Empty(t, list.Tasks, "they are no work of anybody")
}

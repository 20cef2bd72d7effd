package node_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/fixture"
	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/rpc"
)

// anyone accepts every token as one of an operator.
type anyone struct{}

// Verify implements server.Tokens.
func (anyone) Verify(context.Context, string) (server.Identity, time.Time, error) {
	return server.Identity{Name: "user:ada", Role: server.Operator}, time.Time{}, nil
}

// withFeatures is a node that uses the MCP server wiki, which has the features of the fixture.
func withFeatures(t *testing.T) node.Config {
	t.Helper()
	var f fixture.Fixture
	wiki := config(t)
	wiki.Faces.HTTP, wiki.Extra, wiki.Faces.Tokens, wiki.Faces.Face = "127.0.0.1:0", f.Tools(), anyone{}, func(c *server.Config) { c.Hooks.Extend = f.Extend }
	url := start(t, wiki).FaceURL()
	cfg, home := config(t), t.TempDir()
	put(t, filepath.Join(home, ".orch", "mcp", "wiki.json"), `{"schemaVersion":"1.0.0","name":"wiki","transport":"http","baseURL":"`+url+`","bearer":"any","capabilities":["prompts","resources"]}`)
	cfg.Faces.Servers = node.Servers{Home: home, Still: true, Connect: gateway.AtOnce, Getenv: os.Getenv}
	return cfg
}

// untilFeatures waits until the features contain a prompt of the fixture, or no prompt.
func untilFeatures(t *testing.T, admin node.Admin, there bool) node.OfferedFeatures {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var offered node.OfferedFeatures
	for {
		var err error
		offered, err = admin.OfferedFeatures(ctx, offered.Version, time.Minute)
		require.NoError(t, err)
		kinds := map[gateway.Kind]bool{}
		for _, f := range offered.Features {
			kinds[f.Kind] = true
		}
		if there && len(kinds) == 3 || !there && len(kinds) == 0 {
			return offered
		}
	}
}

// The resources and prompts of a node are returned at once without a known version, and otherwise when they change.
func TestFeaturesAreOfferedElsewhere(t *testing.T) {
	t.Parallel()
	cfg := withFeatures(t)
	n := start(t, cfg)
	for where, admin := range admins(t, cfg, n) {
		first := untilFeatures(t, admin, true)
		assert.Contains(t, keysOf(first), "test_simple_prompt", where)
		assert.Contains(t, keysOf(first), "test://static-text")
		same, err := admin.OfferedFeatures(t.Context(), first.Version, time.Millisecond)
		require.NoError(t, err)
		assert.Equal(t, node.OfferedFeatures{Version: first.Version}, same)

		raw, err := admin.ReadResource(t.Context(), "wiki", "test://static-text")
		require.NoError(t, err)
		assert.JSONEq(t, `{"contents":[{"uri":"orch://server/wiki/test://static-text","mimeType":"text/plain","text":"This is the content of the static text resource."}]}`, string(raw))
		raw, err = admin.GetPrompt(t.Context(), "wiki", "test_prompt_with_arguments", map[string]string{"arg1": "a", "arg2": "b"})
		require.NoError(t, err)
		assert.Contains(t, string(raw), `arg1='a', arg2='b'`)
		for _, missing := range []string{"wiki", "nobody"} {
			_, err = admin.ReadResource(t.Context(), missing, "test://nowhere")
			require.ErrorIs(t, err, fault.New(fault.NotFound, ""), "%s %s", where, missing)
		}
		_, err = admin.GetPrompt(t.Context(), "nobody", "test_simple_prompt", nil)
		require.ErrorIs(t, err, fault.New(fault.NotFound, ""))

		_, err = admin.Disable(t.Context(), "wiki")
		require.NoError(t, err)
		untilFeatures(t, admin, false)
		_, err = admin.ReadResource(t.Context(), "wiki", "test://static-text")
		require.ErrorIs(t, err, fault.New(fault.ToolDisabled, ""))
		_, err = admin.Enable(t.Context(), "wiki")
		require.NoError(t, err)
	}
}

func keysOf(offered node.OfferedFeatures) []string {
	keys := make([]string, len(offered.Features))
	for i, f := range offered.Features {
		keys[i] = f.Key
	}
	return keys
}

// Lists that are larger than a message are sent in parts.
func TestManyFeaturesComeInParts(t *testing.T) {
	t.Parallel()
	var present []gateway.Feature
	for i := range 1000 {
		key := "test://" + strconv.Itoa(i)
		definition, err := json.Marshal(map[string]string{"uri": key, "description": strings.Repeat("<", 1<<10)})
		require.NoError(t, err)
		present = append(present, gateway.Feature{Kind: gateway.Resource, Server: "s", Key: key, Definition: definition})
	}
	methods, asks := node.NewFeatures(func() []gateway.Feature { return present }), 0
	all, err := node.NewAdmin(asked(func(in any) (any, error) {
		asks++
		var raw json.RawMessage
		err := methods.Ask(t.Context(), bus.ServersPrefix+".features", in, &raw)
		assert.Less(t, len(raw), bus.MaxPayload)
		return raw, err
	})).OfferedFeatures(t.Context(), "", 0)
	require.NoError(t, err)
	assert.Equal(t, present, all.Features)
	assert.Greater(t, asks, 1)
}

// A node without servers has no features. The error of a read says so.
func TestFeaturesOfANodeWithoutServers(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	n := start(t, cfg)
	for where, admin := range admins(t, cfg, n) {
		offered, err := admin.OfferedFeatures(t.Context(), "", time.Minute)
		require.NoError(t, err, where)
		assert.Empty(t, offered.Features)
		assert.NotEmpty(t, offered.Version)
		_, err = admin.ReadResource(t.Context(), "wiki", "test://static-text")
		require.ErrorIs(t, err, fault.New(fault.ToolDisabled, ""))
		_, err = admin.GetPrompt(t.Context(), "wiki", "test_simple_prompt", nil)
		require.ErrorIs(t, err, fault.New(fault.ToolDisabled, ""))
	}
}

// The credential of workers gives no access to resources and prompts.
func TestWorkersReadNothingOfServers(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	start(t, cfg)
	c, err := bus.Dial(t.Context(), bus.DialConfig{DataDir: cfg.DataDir, User: bus.WorkerUser})
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = node.NewAdmin(rpc.NewRemote(c)).ReadResource(ctx, "wiki", "test://static-text")
	require.Error(t, err)
	assert.False(t, fault.Has(err, fault.ToolDisabled), "the node has answered: %v", err)
}

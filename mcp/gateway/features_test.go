package gateway_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/gateway"
)

// keys returns the keys of features, in order.
func keys(list []gateway.Feature) []string {
	all := []string{}
	for _, f := range list {
		all = append(all, f.Server+" "+string(f.Kind)+" "+f.Key)
	}
	return all
}

// await waits until the features are these.
func (w *world) await(want ...string) []gateway.Feature {
	w.t.Helper()
	limit := time.After(patience)
	for {
		replaced := w.FeaturesReplaced()
		list := w.Features()
		if strings.Join(keys(list), "\n") == strings.Join(want, "\n") {
			return list
		}
		select {
		case <-replaced:
		case <-limit:
			require.Equal(w.t, want, keys(list))
		}
	}
}

func generations() map[string]func(*testing.T) *world {
	return map[string]func(*testing.T) *world{"newer": newNewer, "older": newOlder}
}

const (
	one, two, item = "lab resource test://one", "lab resource file:///a b?c=d#e", "lab template test://item/{id}{?more*,size:3}"
	greet, late    = "lab prompt greet", "lab prompt late"
)

func TestFeatures(t *testing.T) {
	t.Parallel()
	for name, open := range generations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			_, err := w.call("lab__echo", `{"text":"x"}`) // it connects
			require.NoError(t, err)
			list := w.await(two, one, item, greet)
			assert.JSONEq(t, `{"uri":"orch://server/lab/test://one","name":"one","title":"One\\u202e","mimeType":"text/plain","size":3,
				"annotations":{"audience":["user"],"priority":1}}`, string(list[1].Definition))
			assert.JSONEq(t, `{"uriTemplate":"orch://server/lab/test://item/{id}{?more*,size:3}","name":"item"}`, string(list[2].Definition))
			assert.JSONEq(t, `{"name":"lab__greet","description":"Greets","arguments":[{"name":"who","required":true}]}`, string(list[3].Definition))
			log := w.log.String()
			assert.Contains(t, log, `mcp_features_left_out server=lab kind=resource count=3 first="mailto:%zz: its URI is not valid"`)
			assert.Contains(t, log, `mcp_features_left_out server=lab kind=template count=5 first="test://{: its template is not valid"`)
			assert.Contains(t, log, `mcp_features_left_out server=lab kind=prompt count=3`)

			_, err = w.call("lab__shift", `{}`)
			require.NoError(t, err)
			w.await(two, item, greet, late)

			require.NoError(t, w.Servers().Disable(t.Context(), "lab"))
			w.await()
			_, err = w.ReadResource(t.Context(), "lab", "test://one")
			assert.Equal(t, fault.ToolDisabled, fault.CodeOf(err))
			require.NoError(t, w.Servers().Enable(t.Context(), "lab"))
			w.await(two, one, item, greet)
			require.NoError(t, os.Remove(filepath.Join(w.home, ".orch", "mcp", "lab.json")))
			_, err = w.Servers().Reload(t.Context())
			require.NoError(t, err)
			w.await()
		})
	}
}

// The features of a server are data: their URIs become those of orch, and their size is limited.
func TestReadFeatures(t *testing.T) {
	t.Parallel()
	for name, open := range generations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			got, err := w.ReadResource(t.Context(), "lab", "test://item/1")
			require.NoError(t, err)
			assert.JSONEq(t, `{"contents":[{"uri":"orch://server/lab/test://item/1","mimeType":"text/plain","text":"it is test://item/1"},
				{"uri":"orch://server/lab/test://part","blob":"AAE="}]}`, string(got))
			got, err = w.GetPrompt(t.Context(), "lab", "greet", map[string]string{"who": "Ada"})
			require.NoError(t, err)
			assert.JSONEq(t, `{"description":"Greets\\u200b","messages":[{"role":"user","content":{"type":"text","text":"Hello Ada"}},
				{"role":"user","content":{"type":"resource","resource":{"uri":"orch://server/lab/test://one","text":"1"}}},
				{"role":"user","content":{"type":"resource_link","uri":"orch://server/lab/test://one","name":"o\\u200bne"}},
				{"role":"user","content":{"type":"image","mimeType":"image/png","data":"AQ=="}},
				{"role":"user","content":{"type":"audio","mimeType":"audio/wav","data":"AQ=="}}]}`, string(got))

			for what, tc := range map[string]struct {
				server, uri string
				code        fault.Code
			}{
				"no server":         {"none", "test://one", fault.NotFound},
				"no resource":       {"lab", "test://none", fault.NotFound},
				"said by a handler": {"lab", "test://item/none", fault.NotFound},
				"too large":         {"lab", "test://item/large", fault.ToolUnavailable},
				"too many":          {"lab", "test://item/many", fault.ToolFailed},
			} {
				_, err := w.ReadResource(t.Context(), tc.server, tc.uri)
				assert.Equal(t, tc.code, fault.CodeOf(err), "%s: %v", what, err)
			}
			_, err = w.GetPrompt(t.Context(), "lab", "none", nil)
			assert.Equal(t, fault.InvalidParams, fault.CodeOf(err), "%v", err)
			_, err = w.GetPrompt(t.Context(), "lab", "greet", map[string]string{"who": "nobody"})
			assert.Equal(t, fault.ToolFailed, fault.CodeOf(err), "a server is no system: %v", err)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err = w.GetPrompt(ctx, "lab", "greet", nil)
			assert.Equal(t, fault.Cancelled, fault.CodeOf(err), "%v", err)
		})
	}
}

func TestManyFeatures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("many", strings.Repeat("x", 1200))
	replaced := w.FeaturesReplaced()
	_, err := w.call("lab__shift", `{}`)
	require.NoError(t, err)
	resources := func() (n int) {
		for _, f := range w.Features() {
			if f.Kind == gateway.Resource {
				n++
			}
		}
		return n
	}
	for limit := time.After(patience); resources() < 1000; replaced = w.FeaturesReplaced() {
		select {
		case <-replaced:
		case <-limit:
			require.Fail(t, "they do not come")
		}
	}
	assert.Equal(t, 1000, resources())
	require.Eventually(t, func() bool { return strings.Contains(w.log.String(), "kind=resource count=204") }, patience, 10*time.Millisecond)
}

// A server that does not answer requests for its resources delays no other.
func TestHangingFeatures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("hang", "")
	w.define("other", map[string]any{"env": map[string]string{labVariable: t.TempDir()}})
	w.define("lab", map[string]any{"timeout": "5s", "concurrency": 1})
	w.open()
	_, err := w.call("lab__write", `{"text":"x"}`)
	require.NoError(t, err)
	other := func(key string) string { return strings.Replace(key, "lab", "other", 1) }
	w.await(item, greet, other(two), other(one), other(item), other(greet))
	assert.Contains(t, w.log.String(), "mcp_features_unreadable server=lab kind=resource")
	_, err = w.call("lab__write", `{"text":"y"}`)
	require.NoError(t, err)
	assert.Equal(t, "write x\nwrite y\n", w.ledger())
}

// Who reads, calls: the limits of a server count.
func TestReadsAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.define("lab", map[string]any{"timeout": "20s", "rateLimit": 1})
	w.open()
	_, err := w.ReadResource(t.Context(), "lab", "test://one")
	require.NoError(t, err)
	_, err = w.GetPrompt(t.Context(), "lab", "greet", nil)
	assert.Equal(t, fault.RateLimited, fault.CodeOf(err), "%v", err)
}

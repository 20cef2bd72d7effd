package node_test

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	settings "github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/modelstest"
	"github.com/orch-dev/orch/node"
)

// askProvider asks a provider with these settings.
func askProvider(t *testing.T, p settings.ModelProvider, env map[string]string) (models.Answer, error) {
	t.Helper()
	root, err := pathguard.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, root.Close()) })
	all := node.NewModels(settings.Models{Providers: map[string]settings.ModelProvider{"test": p}}, root, func(name string) string { return env[name] })
	provider, model, err := all.Provider("test/x")
	if err != nil {
		return models.Answer{}, err
	}
	return provider.Stream(t.Context(), models.Request{Model: model, MaxTokens: 100, Messages: modelstest.Question("go").Messages}, nil)
}

// The headers and fields of a provider arrive, and no error contains a secret of them.
func TestHeadersAndFieldsOfProviders(t *testing.T) {
	t.Parallel()
	for _, wire := range []string{modelstest.OpenAI, modelstest.Anthropic, modelstest.Gemini} {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			var seen modelstest.Seen
			reply := modelstest.Reply{Answer: says("Hello")}
			server := modelstest.NewServer(t, func(s modelstest.Seen) modelstest.Reply {
				seen = s
				return reply
			})
			file := filepath.Join(t.TempDir(), "token")
			require.NoError(t, os.WriteFile(file, []byte("cookie-of-mine\n"), 0o600))
			p := settings.ModelProvider{
				Wire: wire, URL: server.BaseURL(wire), Key: "env:KEY",
				Headers: map[string]settings.ModelHeader{"X-Title": {Text: "orch"}, "Cookie": {Secret: settings.Secret("file:" + file)}, "X-Team-Token": {Secret: "env:TEAM"}},
				Fields:  map[string]json.RawMessage{"effort": json.RawMessage(`"high"`), "generationConfig": json.RawMessage(`{"seed":7}`)},
			}
			env := map[string]string{"KEY": modelstest.Key, "TEAM": "Bearer team-secret"}
			answer, err := askProvider(t, p, env)
			require.NoError(t, err)
			assert.Equal(t, "Hello", modelstest.TextOf(answer))
			assert.Equal(t, []string{"orch", "cookie-of-mine", "Bearer team-secret"}, []string{seen.Headers.Get("X-Title"), seen.Headers.Get("Cookie"), seen.Headers.Get("X-Team-Token")})
			var body struct {
				Effort           string
				GenerationConfig struct{ Seed int }
			}
			require.NoError(t, json.Unmarshal(seen.Body, &body))
			assert.Equal(t, "high", body.Effort)
			assert.Equal(t, 7, body.GenerationConfig.Seed)
			assert.Regexp(t, `"max\w*okens":100`, string(seen.Body), "an object is added to an object")

			reply = modelstest.Reply{Status: http.StatusBadRequest, Message: "bad: cookie-of-mine, team-secret, " + modelstest.Key}
			_, err = askProvider(t, p, env)
			require.ErrorContains(t, err, "bad: ***, ***, ***")
			_, err = askProvider(t, p, map[string]string{"KEY": modelstest.Key})
			require.ErrorContains(t, err, "X-Team-Token: the variable TEAM is not set")
		})
	}
}

// A server with a certificate of its own is trusted with `ca`, and only with it.
func TestRootCertificatesOfProviders(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(modelstest.NewServer(t, func(modelstest.Seen) modelstest.Reply { return modelstest.Reply{Answer: says("Hello")} }))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	p := settings.ModelProvider{Wire: modelstest.OpenAI, URL: server.URL + "/v1", Key: "env:KEY", CA: file}
	env := map[string]string{"KEY": modelstest.Key}
	answer, err := askProvider(t, p, env)
	require.NoError(t, err)
	assert.Equal(t, "Hello", modelstest.TextOf(answer))

	p.CA = ""
	_, err = askProvider(t, p, env)
	require.ErrorContains(t, err, "certificate")

	p.CA = filepath.Join(t.TempDir(), "none.pem")
	_, err = askProvider(t, p, env)
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
	require.ErrorContains(t, err, "models.providers.test.ca")
	require.NoError(t, os.WriteFile(p.CA, []byte("no certificate"), 0o600))
	_, err = askProvider(t, p, env)
	assert.ErrorContains(t, err, "contains no certificate in the form PEM")
}

// The scripts of a root are listed by the names that agents give.
func TestScripts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := pathguard.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, root.Close()) })
	names, err := node.Scripts(root)
	require.NoError(t, err)
	assert.Empty(t, names)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, ".orch/models/folder.yaml"), 0o700))
	for _, name := range []string{"b.yaml", "a.yaml", "no script.yaml", "c.json"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".orch/models", name), []byte("turns: []"), 0o600))
	}
	names, err = node.Scripts(root)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, names)
}

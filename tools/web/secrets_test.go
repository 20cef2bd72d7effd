package web_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/internal/secret"
)

// TestRequestLeavesSecretsOut uses servers that echo a secret in every encoding, and at the end of a truncated body.
func TestRequestLeavesSecretsOut(t *testing.T) {
	t.Parallel()
	const value = "correct-horse-battery"
	for name, body := range map[string]string{
		"plain": "you sent " + value, "base64": base64.StdEncoding.EncodeToString([]byte("x:" + value)),
		"binary": "\xff\xfe" + value, "cut": strings.Repeat("x", 512<<10-9) + value,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				assert.Equal(t, "v1 "+value, r.Header.Get("X-Plain"))
				w.Header().Set("X-Answer", value)
				_, _ = w.Write([]byte(body))
			})
			env := newEnv()
			env.Secrets = secret.NewSet(map[string]string{"T": value})
			raw, err := json.Marshal(map[string]any{"url": url, "method": "GET", "headers": map[string]string{"X-Plain": "v1 " + value}})
			require.NoError(t, err)
			request := tool(t, open(), "HTTP_REQUEST")
			raw, err = request.Check(raw)
			require.NoError(t, err)
			out, err := request.Call(t.Context(), env, raw)
			require.NoError(t, err)
			assert.Contains(t, string(out), "[REDACTED:secrets.T]")
			for _, left := range []string{"horse", "correct-", "Y29ycmVjdC", base64.StdEncoding.EncodeToString([]byte("\xff\xfe" + value))[4:20]} {
				assert.NotContains(t, string(out), left)
			}
		})
	}
}

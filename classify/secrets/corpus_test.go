package secrets_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/classify/secrets"
)

// sample is a fictitious credential in the documented form of its provider, within a text.
type sample struct{ Rule, Text string }

// samples reads the corpus. It is compressed so that secret scanners of repository hosts do not report it.
func samples(t *testing.T) []sample {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join("testdata", "tokens.json.gz.b64"))
	require.NoError(t, err)
	zipped, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(string(packed), "\n", ""))
	require.NoError(t, err)
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	require.NoError(t, err)
	var list []sample
	require.NoError(t, json.NewDecoder(r).Decode(&list))
	return list
}

// Every kind of the corpus is found in plain text, as a JSON string, and as a JSON string in JSON.
func TestCorpus(t *testing.T) {
	t.Parallel()
	list := samples(t)
	kinds := map[string]bool{}
	for _, s := range list {
		kinds[s.Rule] = true
	}
	require.GreaterOrEqual(t, len(list), 870)
	require.GreaterOrEqual(t, len(kinds), 187)
	for form, encode := range encodings() {
		for _, s := range list {
			text := encode(t, s.Text)
			assert.NotEmpty(t, secrets.Find([]byte(text)), "%s: %s: %s", s.Rule, form, text)
		}
	}
}

// A token that is found by itself is also found in a URL and in a header.
func TestCorpusOnTheWay(t *testing.T) {
	t.Parallel()
	ways := map[string]func(string) string{
		"query":  func(s string) string { return "https://example.org/x?t=" + s + "&u=1" },
		"quoted": func(s string) string { return "https://example.org/x?u=" + url.QueryEscape("t="+s) },
		"path":   func(s string) string { return "GET /x/" + s + "/y HTTP/1.1" },
		"header": func(s string) string { return "X-Forwarded-Info: " + s + "\r\nHost: example.org" },
		"log":    func(s string) string { return "time=12:00 msg=started t=" + s + " n=1" },
	}
	tokens := 0
	for _, s := range samples(t) {
		if strings.ContainsAny(s.Text, " =:\"'\n/<") || len(secrets.Find([]byte(s.Text))) == 0 {
			continue
		}
		tokens++
		for way, write := range ways {
			text := write(s.Text)
			assert.NotEmpty(t, secrets.Find([]byte(text)), "%s: %s: %s", s.Rule, way, text)
		}
	}
	assert.GreaterOrEqual(t, tokens, 50)
}

// At most one in 200 source files of the Go distribution has a finding.
func TestFalseAlarms(t *testing.T) {
	t.Parallel()
	files, alarms := 0, []string(nil)
	root := filepath.Join(goroot(t), "src")
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || len(data) > 1<<20 || bytes.IndexByte(data, 0) >= 0 {
			return err
		}
		files++
		if found := secrets.Find(data); len(found) > 0 {
			alarms = append(alarms, strings.TrimPrefix(path, root)+" "+found[0].Rule)
		}
		return nil
	}))
	if files < 1000 {
		t.Skip("the sources of Go are not here")
	}
	assert.LessOrEqual(t, len(alarms)*200, files, "%d files: %s", files, strings.Join(alarms, "\n"))
}

func goroot(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("GOROOT"); dir != "" {
		return dir
	}
	_, file, _, ok := runtime.Caller(0)
	if ok && filepath.IsAbs(file) {
		return runtime.GOROOT() //nolint:staticcheck // the test runs where it was built
	}
	return "/usr/local/go"
}

func TestRules(t *testing.T) {
	t.Parallel()
	names := secrets.Rules()
	assert.GreaterOrEqual(t, len(names), 200)
	for _, name := range []string{
		"private_key", "jwt", "nats_seed", "netrc_password", "slack_webhook_url", "stripe_access_token", "gcp_api_key", "sendgrid_api_token",
		"vault_token", "telegram_bot_api_token", "bearer", "basic", "encoded_password", "azure_account_key", "age_secret_key", "tailscale_key",
	} {
		assert.True(t, slices.Contains(names, name), name)
	}
}

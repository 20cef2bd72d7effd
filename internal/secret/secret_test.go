package secret_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/secret"
)

const value = `p"a\s<s>&w/o+rd 7ü`

func quote(t *testing.T, text string) string {
	t.Helper()
	raw, err := json.Marshal(text)
	require.NoError(t, err)
	return string(raw)
}

// TestRedactForms checks that a secret is found in every documented form, and that JSON stays valid.
func TestRedactForms(t *testing.T) {
	t.Parallel()
	s := secret.NewSet(map[string]string{"PW": value})
	b64 := base64.StdEncoding.EncodeToString
	for name, text := range map[string]string{
		"plain": "x" + value + "x", "json": quote(t, "x"+value), "json in json": quote(t, quote(t, value)),
		"query": "?a=" + url.QueryEscape(value), "path": "/" + url.PathEscape(value) + "/b",
		"hex": hex.EncodeToString([]byte("ab" + value)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(value))),
		"base64": b64([]byte(value)), "base64 of user:password": b64([]byte("u:" + value)), "base64 with more": b64([]byte("user:" + value + "\nmore")),
		"base64 of a URL": base64.RawURLEncoding.EncodeToString([]byte("abcd" + value)),
	} {
		clean, found := s.Redact([]byte(text))
		assert.True(t, found, name)
		assert.Contains(t, string(clean), "[REDACTED:secrets.PW]", name)
		assert.Equal(t, json.Valid([]byte(text)), json.Valid(clean), name)
		assert.NotContains(t, string(clean), value, name)
	}
}

func TestRedactLines(t *testing.T) {
	t.Parallel()
	key := "-----BEGIN THING-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\nshort\n-----END THING-----"
	s := secret.NewSet(map[string]string{"KEY": key})
	clean, found := s.Redact([]byte("line 2 is MIIEvQIBADANBgkqhkiG9w0BAQEF\r\n"))
	assert.True(t, found)
	assert.Equal(t, "line 2 is [REDACTED:secrets.KEY]\r\n", string(clean))
}

// TestRedactJoins checks that overlapping secrets are redacted completely.
func TestRedactJoins(t *testing.T) {
	t.Parallel()
	s := secret.NewSet(map[string]string{"A": "abcdefgh", "B": "efghijkl"})
	clean, _ := s.Redact([]byte("-abcdefghijkl-"))
	assert.Equal(t, "-[REDACTED:secrets.A]-", string(clean))
}

func TestTrim(t *testing.T) {
	t.Parallel()
	s := secret.NewSet(map[string]string{"A": "hunter2hunter3"})
	assert.Equal(t, "the word is ", string(s.Trim([]byte("the word is hunter2hun"))))
	assert.Equal(t, "the word is done.", string(s.Trim([]byte("the word is done."))))
	var none *secret.Set
	assert.Equal(t, "x", string(none.Trim([]byte("x"))))
	assert.False(t, none.Holds("x"))
}

func TestCheckPattern(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"env:DB_*", "env:TOKEN", "file:/run/secrets/*", "file:/run/*/token"} {
		assert.Empty(t, secret.CheckPattern(good), good)
	}
	for _, bad := range []string{"", "*", "env:", "env:*", "env:A-B", "env:[A]", "file:x", "file:/a/../b", "file:/*", "file:/a/", "vault:x", "hunter2", "env:A?"} {
		assert.NotEmpty(t, secret.CheckPattern(bad), bad)
	}
}

func TestAllowed(t *testing.T) {
	t.Parallel()
	patterns := []string{"env:DB_*", "env:O*", "file:/run/secrets/*"}
	assert.True(t, secret.Allowed(patterns, "env:DB_PASSWORD"))
	assert.True(t, secret.Allowed(patterns, "file:/run/secrets/token"))
	assert.False(t, secret.Allowed(patterns, "file:/run/secrets/a/token"))
	assert.False(t, secret.Allowed(patterns, "env:HOME"))
	assert.False(t, secret.Allowed(patterns, "env:ORCH_TOKEN"), "those of the node are never a plan's")
	assert.False(t, secret.Allowed(nil, "env:DB_PASSWORD"), "nothing is allowed by default")
	assert.Equal(t, []string{"/run/secrets", "/etc/app/token"}, secret.Hide([]string{"env:DB_*", "file:/run/secrets/*", "file:/etc/app/token"}))
}

func TestRead(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return "file:" + path
	}
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	require.NoError(t, os.WriteFile(elsewhere, []byte("hunter2hunter2"), 0o600))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "link")))
	t.Setenv("SECRET_TEST_A", " hunter2hunter2\n")
	t.Setenv("SECRET_TEST_SHORT", "12345")
	patterns := []string{"env:SECRET_TEST_*", "file:" + dir + "/*"}

	for _, source := range []string{"env:SECRET_TEST_A", write("good", "hunter2hunter2\n", 0o600)} {
		text, err := secret.Read(source, patterns)
		require.NoError(t, err)
		assert.Equal(t, "hunter2hunter2", text)
	}
	for source, want := range map[string]struct {
		code   fault.Code
		reason string
	}{
		"env:HOME":                                        {fault.Forbidden, "SECRET_NOT_ALLOWED"},
		"env:SECRET_TEST_NONE":                            {fault.NotFound, "SECRET_UNAVAILABLE"},
		"env:SECRET_TEST_SHORT":                           {fault.ValidationError, "SECRET_TOO_SHORT"},
		"file:" + dir + "/none":                           {fault.NotFound, "SECRET_UNAVAILABLE"},
		"file:" + dir + "/link":                           {fault.Forbidden, "SECRET_UNAVAILABLE"},
		"file:" + dir + "/":                               {fault.Forbidden, "SECRET_UNAVAILABLE"},
		write("open", "hunter2hunter2", 0o644):            {fault.ValidationError, "SECRET_UNAVAILABLE"},
		write("binary", "hunter2\xff\xfe", 0o600):         {fault.ValidationError, ""},
		write("long", strings.Repeat("x", 17<<10), 0o600): {fault.ValidationError, "SIZE_LIMIT_EXCEEDED"},
	} {
		_, err := secret.Read(source, patterns)
		require.Error(t, err, source)
		assert.Equal(t, want.code, fault.CodeOf(err), source)
		assert.Equal(t, want.reason, fault.From(err).Reason, source)
		assert.NotContains(t, err.Error(), "hunter2", source)
	}
}

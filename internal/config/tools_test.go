package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
)

const toolSettings = `
search_provider: searxng
search_url: http://localhost:8888
search_key: env:SEARX
github_url: https://github.example/api/v3
github_token: file:github.token
firebase_realtime_url: http://127.0.0.1:9000?ns=demo
firebase_realtime_token: env:RTDB
firestore_project: demo
firestore_database: other
firestore_credentials: file:firestore.json
net_allow: [10.0.0.0/8, "fd00::/8", 192.0.2.7, search.internal, "localhost:8888", "[::1]:80"]
notify_on: [failed, approval]
notify_channels: [log, ops]
notify_services:
  ops: file:ops.url
  mail: env:MAIL
npm_registry: https://npm.example
pip_index: https://pip.example/simple
git_conventions: '^[A-Z]+-\d+ '
git_ssh_command: ssh -i /keys/id
git_credential_helper: store --file /keys/git
git_read: [keys, /srv/keys]
database_hosts: ["db.internal:5432"]
`

func TestToolSettings(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	write(t, home, toolSettings)
	c, err := config.Load(config.Sources{Getenv: env(nil), Dir: "/work", Home: home})
	require.NoError(t, err)
	assert.Equal(t, []string{"failed", "approval"}, c.NotifyOn)
	assert.Equal(t, config.Tools{
		SearchProvider: "searxng", SearchURL: "http://localhost:8888", SearchKey: "env:SEARX",
		GitHubURL: "https://github.example/api/v3", GitHubToken: config.Secret("file:" + filepath.Join(home, "github.token")),
		Firebase: config.Firebase{
			RealtimeURL: "http://127.0.0.1:9000?ns=demo", RealtimeToken: "env:RTDB", FirestoreProject: "demo", FirestoreDatabase: "other",
			FirestoreCredentials: config.Secret("file:" + filepath.Join(home, "firestore.json")),
		},
		NetAllow:       []string{"10.0.0.0/8", "fd00::/8", "192.0.2.7", "search.internal", "localhost:8888", "[::1]:80"},
		NotifyChannels: []string{"log", "ops"},
		NotifyServices: map[string]config.Secret{"ops": config.Secret("file:" + filepath.Join(home, "ops.url")), "mail": "env:MAIL"},
		NPMRegistry:    "https://npm.example", PipIndex: "https://pip.example/simple", GitConventions: `^[A-Z]+-\d+ `,
		GitSSHCommand: "ssh -i /keys/id", GitCredentialHelper: "store --file /keys/git",
		GitRead: []string{filepath.Join(home, "keys"), "/srv/keys"}, DatabaseHosts: []string{"db.internal:5432"},
	}, c.Tools)
	assert.Len(t, c.Tools.Secrets(), 6)
	assert.True(t, c.Tools.Firebase.Realtime() && c.Tools.Firebase.Firestore())

	c, err = config.Load(config.Sources{Getenv: env(map[string]string{"ORCH_NOTIFY_SERVICES": "a=env:A, b=file:/b"}), Dir: "/", Home: "/"})
	require.NoError(t, err)
	assert.Equal(t, map[string]config.Secret{"a": "env:A", "b": "file:/b"}, c.Tools.NotifyServices)
}

// No error contains a possible secret.
func TestWrongToolSettings(t *testing.T) {
	t.Parallel()
	for line, message := range map[string]string{
		"search_provider: bing":                          `"bing" is none of searxng, brave, tavily`,
		"github_token: hunter2":                          "a secret does not stand in the settings",
		"github_url: https://a:hunter2@h":                "it must hold neither user nor password",
		"github_url: h":                                  "it must be a URL that begins with http:// or https://",
		"firebase_realtime_url: https://h?auth=hunter2":  "it must hold no credential",
		"firebase_realtime_token: hunter2":               "a secret does not stand in the settings",
		"firestore_credentials: '{hunter2'":              "a secret does not stand in the settings",
		"firestore_emulator: localhost":                  `"localhost" is no host:port`,
		"search_key: hunter2":                            "a secret does not stand in the settings",
		"search_key: [hunter2, hunter2]":                 "a secret does not stand in the settings",
		"search_key: env:1a":                             "a secret does not stand in the settings",
		"search_key: {hunter2: hunter2}":                 "this must be a plain value or a list",
		"search_url: https://a:hunter2@b.example":        "it must hold neither user nor password",
		"search_url: ftp://hunter2.example":              "it must be a URL that begins with http:// or https://",
		"npm_registry: hunter2":                          "it must be a URL that begins with http:// or https://",
		"pip_index: 'https://hunter2@b.example'":         "it must hold neither user nor password",
		"notify_services: {ops: 'https://x/hunter2'}":    "a secret does not stand in the settings",
		"notify_services: {Ops: 'hunter2'}":              "a name has lower case letters",
		"notify_services: hunter2":                       "a name has lower case letters",
		"notify_services: ['ops=']":                      "ops needs the place of its secret",
		"notify_services: {ops: [hunter2]}":              "a list holds plain values",
		"notify_services: {a: env:A, 'a ': env:B}":       "the name a stands twice",
		"notify_on: [failed, finished]":                  `"finished" is none of failed, blocked, approval, none`,
		"net_allow: 10.0.0.0/99":                         `"10.0.0.0/99" is no range`,
		"net_allow: http://a.example":                    `"http://a.example" is no range`,
		"net_allow: a.example:0":                         `"a.example:0" is no range`,
		"net_allow: 0x7f.1":                              `"0x7f.1" is no range`,
		"git_conventions: '('":                           "it is no regular expression",
		"public_url: orch.example":                       "it must be a URL",
		"public_url: ftp://orch.example":                 "it must be a URL",
		"public_url: https://a:hunter2@orch.example":     "neither user nor password",
		"public_url: https://orch.example/orch":          "it must end after the host",
		"public_url: https://orch.example?token=hunter2": "it must end after the host",
		"database_hosts: DB:1":                           `"DB:1" is no host:port in lower case`,
		"database_hosts: db":                             `"db" is no host:port`,
		"database_hosts: ':1'":                           `":1" is no host:port`,
	} {
		var c config.Config
		err := config.Parse(&c, "f.yaml", []byte(line+"\n"), "/home", "/home")
		require.Error(t, err, line)
		e := fault.From(err)
		assert.Contains(t, e.Message, message, line)
		assert.NotContains(t, e.Error()+e.Hint, "hunter2", line)
		assert.True(t, strings.HasPrefix(e.Field, "f.yaml:1:"), line)
	}
}

// Settings that contradict each other are refused by the name of the one to mend.
func TestSettingsTogether(t *testing.T) {
	t.Parallel()
	for text, field := range map[string]string{
		"search_provider: brave\n":         "search_key",
		"search_provider: searxng\n":       "search_url",
		"firebase_realtime_token: env:T\n": "firebase_realtime_url",
		"firestore_project: p\n":           "firestore_credentials",
		"firestore_database: d\n":          "firestore_credentials",
		"firestore_emulator: h:1\n":        "firestore_project",
		"firestore_emulator: h:1\nfirestore_project: p\nfirestore_credentials: env:C\n": "firestore_emulator",
		"notify_channels: fax\n":                   "notify_channels",
		"notify_services: {log: env:LOG}\n":        "notify_services",
		"notify_services: {file: 'file:/f.url'}\n": "notify_services",
	} {
		home := t.TempDir()
		write(t, home, text)
		_, err := config.Load(config.Sources{Getenv: env(nil), Dir: "/work", Home: home})
		require.Error(t, err, text)
		assert.Equal(t, fault.ValidationError, fault.CodeOf(err), text)
		assert.Equal(t, field, fault.From(err).Field, text)
	}
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) config.Secret {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.NoError(t, os.Chmod(path, mode))
		return config.Secret("file:" + path)
	}
	vars := env(map[string]string{"KEY": " hunter2\n"})
	for _, s := range []config.Secret{"env:KEY", file("good", "hunter2\n", 0o600), file("read", "hunter2", 0o400)} {
		text, err := s.Read(vars)
		require.NoError(t, err, s)
		assert.Equal(t, "hunter2", text)
	}
	none, err := config.Secret("").Read(vars)
	require.NoError(t, err)
	assert.Empty(t, none)
	for s, why := range map[config.Secret]string{
		"env:NO_KEY":                                        "the variable NO_KEY is not set",
		file("open", "hunter2", 0o640):                      "is open to others (mode 640)",
		file("empty", " \n", 0o600):                         "is empty",
		file("big", strings.Repeat("hunter2", 1000), 0o600): "has more than 4096 bytes",
		config.Secret("file:" + dir + "/none"):              "there is no file",
		config.Secret("file:" + dir):                        "is no file",
	} {
		_, err := s.Read(vars)
		require.ErrorContains(t, err, why)
		assert.NotContains(t, err.Error(), "hunter2")
	}
	assert.Equal(t, "/a", config.Secret("file:/a").File())
	assert.Empty(t, config.Secret("env:A").File())
}

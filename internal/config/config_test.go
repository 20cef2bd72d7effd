package config_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
)

func write(t *testing.T, dir, text string) {
	t.Helper()
	path := filepath.Join(dir, config.FileName)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func env(pairs map[string]string) func(string) string {
	return func(name string) string { return pairs[name] }
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c, err := config.Load(config.Sources{Getenv: env(nil), Dir: "/work", Home: "/home/ada"})
	require.NoError(t, err)
	assert.Equal(t, config.Config{
		DataDir: "/home/ada/.orch/data", Root: "/work", Dir: "/work", Home: "/home/ada", LogLevel: "warn", Output: "text",
		Storage:     config.Storage{Replicas: 1, Durability: "fsync", Host: "127.0.0.1"},
		Worker:      config.Worker{Concurrency: 5, Queues: []string{"default"}},
		Limits:      config.Limits{Lease: 15 * time.Second, MaxDeliveries: 10, MaxSpawned: 16, MaxOpen: 250_000, MaxOpenEach: 150_000},
		Retention:   config.Retention{RetainWorkspaces: 30, RetainFailed: 90, RetainTasks: 365, RetainFailedTasks: 730, RetainAudit: 730},
		Confinement: config.Confinement{Sandbox: "enforce"},
		MCP:         config.MCP{HTTP: "auto", SyncWait: 20 * time.Second, Writes: "ask", MCPEnabled: true, MCPHotReload: true},
		NotifyOn:    []string{"failed", "blocked", "approval"}, Tools: config.Tools{NotifyChannels: []string{"log"}},
	}, c)
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	write(t, home, "concurrency: 1\nlease: 1s\nport: 1\nhost: user\ndata_dir: data\n")
	write(t, dir, "concurrency: 2\nlease: 2s\nport: 2\nqueues: [a, b]\nread_only: true\nroot: sub\n")
	c, err := config.Load(config.Sources{
		Flags:  map[string]string{"concurrency": "4"},
		Getenv: env(map[string]string{"ORCH_CONCURRENCY": "3", "ORCH_LEASE": "3s"}),
		Dir:    dir, Home: home,
	})
	require.NoError(t, err)
	assert.Equal(t, 4, c.Worker.Concurrency, "flag")
	assert.Equal(t, 3*time.Second, c.Limits.Lease, "environment")
	assert.Equal(t, 2, c.Storage.Port, "project file")
	assert.Equal(t, "user", c.Storage.Host, "user file")
	assert.Equal(t, []string{"a", "b"}, c.Worker.Queues)
	assert.True(t, c.Confinement.ReadOnly)
	assert.Equal(t, filepath.Join(home, "data"), c.DataDir, "relative to the home of its file")
	assert.Equal(t, filepath.Join(dir, "sub"), c.Root)
}

func TestErrorsNameTheirPlace(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, field, message, hint string }{
		"unknown key":    {"root: .\ndata_dirr: x\n", ":2:1", `there is no setting "data_dirr"`, "did you mean data_dir?"},
		"nothing near":   {"zzz: 1\n", ":1:1", `there is no setting "zzz"`, "see: orch help environment"},
		"twice":          {"port: 1\nport: 2\n", ":2:1", "the key port stands twice", ""},
		"wrong type":     {"port: many\n", ":1:7", `"many" is no number from 0 to 65535`, ""},
		"out of range":   {"max_open: 0\n", ":1:11", `"0" is no number from 1 to 10000000`, ""},
		"choice":         {"durability: fsink\n", ":1:13", `"fsink" is none of fsync, relaxed`, "did you mean fsync?"},
		"bool":           {"paused: maybe\n", ":1:9", `"maybe" is neither true nor false`, ""},
		"duration":       {"lease: 30\n", ":1:8", `"30" is no duration`, "write it as 500ms, 30s or 5m"},
		"url":            {"server: host\n", ":1:9", `"host" is no URL`, "write it as nats://host:4222"},
		"list of maps":   {"queues: [{a: 1}]\n", ":1:9", "a list holds plain values", ""},
		"map as value":   {"root: {a: 1}\n", ":1:7", "this must be a plain value or a list", ""},
		"agent":          {"agents: {a: {command: []}}\n", ":1:9", "the agent a needs a command that begins with its program", ""},
		"agent program":  {"agents: {a: {command: ['{model}']}}\n", ":1:9", "the agent a needs a command that begins with its program", ""},
		"agent path":     {"agents: {a/b: {command: [x]}}\n", ":1:9", `"a/b" is no type of an agent: use letters, digits, - and _, at most 64`, ""},
		"agent timeout":  {"agents: {a: {command: [x], timeout: 5}}\n", ":1:9", `the timeout "5" of the agent a is no duration`, "write it as 30s or 5m"},
		"empty list":     {"queues: []\n", ":1:9", "it names nothing", ""},
		"no mapping":     {"- a\n", ":1:1", "the file must hold keys and values", "such as data_dir: ~/.orch/data"},
		"broken":         {"a: [\n", ":1:1", "did not find expected node content", ""},
		"home in a path": {"root: ~/x\n", ":1:7", `"~/x" needs a home directory, and there is none`, "set HOME, or give an absolute path"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var c config.Config
			err := config.Parse(&c, "f.yaml", []byte(tc.text), "/work", "")
			require.Error(t, err)
			e := fault.From(err)
			assert.Equal(t, tc.message, e.Message)
			assert.Equal(t, "f.yaml"+tc.field, e.Field)
			assert.Equal(t, tc.hint, e.Hint)
		})
	}
}

func TestAgents(t *testing.T) {
	t.Parallel()
	home, dir := t.TempDir(), t.TempDir()
	write(t, home, "agents:\n  reviewer:\n    command: [review, '--brief, please']\n    timeout: 10m\n    network: true\n")
	want := map[string]config.Agent{"reviewer": {Command: []string{"review", "--brief, please"}, Timeout: 10 * time.Minute, Network: true}}
	c, err := config.Load(config.Sources{Getenv: env(nil), Dir: dir, Home: home})
	require.NoError(t, err)
	assert.Equal(t, want, c.Agents)
	c, err = config.Load(config.Sources{Getenv: env(map[string]string{"ORCH_AGENTS": `{"a": {"command": ["x"]}}`}), Dir: dir, Home: home})
	require.NoError(t, err)
	assert.Equal(t, map[string]config.Agent{"a": {Command: []string{"x"}}}, c.Agents)
	_, err = config.Load(config.Sources{Getenv: env(map[string]string{"ORCH_AGENTS": "{a: {comand: [x]}}"}), Dir: dir, Home: home})
	require.ErrorContains(t, err, "comand")
	write(t, dir, "agents: {a: {command: [x]}}\n")
	_, err = config.Load(config.Sources{Getenv: env(nil), Dir: dir, Home: home})
	require.ErrorContains(t, err, "the file of a project may not set agents")
}

func TestErrorsOfFlagsAndVariables(t *testing.T) {
	t.Parallel()
	_, err := config.Load(config.Sources{Getenv: env(map[string]string{"ORCH_PORT": "x"}), Dir: "/", Home: "/"})
	require.Error(t, err)
	assert.Equal(t, "ORCH_PORT", fault.From(err).Field)
	_, err = config.Load(config.Sources{Flags: map[string]string{"output": "yaml"}, Getenv: env(nil), Dir: "/", Home: "/"})
	require.Error(t, err)
	assert.Equal(t, "--output", fault.From(err).Field)
}

func TestEmptyAndHugeFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "# nothing\n")
	_, err := config.Load(config.Sources{Getenv: env(nil), Dir: dir, Home: dir})
	require.NoError(t, err)
	write(t, dir, strings.Repeat("#", 1<<17))
	_, err = config.Load(config.Sources{Getenv: env(nil), Dir: dir, Home: dir})
	require.ErrorIs(t, err, &fault.Error{Code: fault.ValidationError})
}

func TestDocsHoldEveryKey(t *testing.T) {
	t.Parallel()
	for _, k := range config.Keys() {
		assert.NotEmpty(t, k.Usage, k.Name)
		for _, text := range []string{config.Docs(), config.Markdown()} {
			assert.Contains(t, text, k.Name)
			assert.Contains(t, text, k.Env())
			assert.Contains(t, text, "--"+k.Flag())
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "root: .\n", "queues: [a, b]\n", "a: &x [*x]\n", "port: 1\nport: 2\n", "? {a: b}\n: c\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var c config.Config
		if err := config.Parse(&c, "f.yaml", []byte(text), "/work", "/home"); err != nil {
			var e *fault.Error
			require.ErrorAs(t, err, &e)
			require.NotEmpty(t, e.Message)
		}
	})
}

// The settings of a repository from somebody else must not affect the machine of its user.
func TestProjectFileHasLimits(t *testing.T) {
	t.Parallel()
	project, home := "/work/project", "/home/ada"
	for _, line := range []string{
		"data_dir: ./data", "server: nats://evil:4222", "nats: nats://evil:4222", "nats_creds: x.creds",
		"sandbox: off", "sandbox_read: [/srv]", "sandbox_write: /srv", "program_path: /srv", "host: 0.0.0.0", "policy: weak.yaml", "four_eyes: false",
		"search_provider: brave", "search_url: https://evil.example", "search_key: env:HOME", "net_allow: [169.254.169.254]", "notify_on: none",
		"notify_channels: nats", "public_url: https://evil.example", "traces_to: https://evil.example", "traces_view: 'https://evil.example/{trace}'", "notify_services: {a: env:HOME}", "npm_registry: https://evil.example", "pip_index: https://evil.example",
		"git_ssh_command: evil", "git_credential_helper: evil", "git_read: [/etc]", "database_hosts: [a:1]", "github_url: https://evil.example",
		"github_token: env:HOME", "firebase_realtime_url: https://evil.example", "firebase_realtime_token: env:HOME", "firestore_project: evil",
		"firestore_database: evil", "firestore_credentials: env:HOME", "firestore_emulator: evil:1", "root: /", "root: ..", "root: ../other",
	} {
		var c config.Config
		err := config.Parse(&c, "f.yaml", []byte(line+"\n"), project, home)
		assert.Equal(t, fault.ValidationError, fault.CodeOf(err), line)
		require.NoError(t, config.Parse(&c, "f.yaml", []byte(line+"\n"), home, home), line)
	}
	c := config.Config{Root: "/srv"}
	require.NoError(t, config.Parse(&c, "f.yaml", []byte("concurrency: 2\n"), project, home))
	require.NoError(t, config.Parse(&c, "f.yaml", []byte("root: src\n"), project, home))
	require.NoError(t, config.Parse(&c, "f.yaml", []byte("git_conventions: '^[A-Z]+-[0-9]+ '\n"), project, home))
	assert.Equal(t, "/work/project/src", c.Root)
}

// A pipe instead of a settings file is refused: reading it could block.
func TestAPipeIsNoSettingsFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".orch"), 0o700))
	require.NoError(t, exec.CommandContext(t.Context(), "mkfifo", filepath.Join(dir, ".orch", "config.yaml")).Run())
	_, err := config.Load(config.Sources{Getenv: env(nil), Dir: dir, Home: t.TempDir()})
	assert.ErrorContains(t, err, "is no regular file")
}

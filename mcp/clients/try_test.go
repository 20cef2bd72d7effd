package clients_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/clients"
)

// shell returns an entry that runs a script, which logs its directory and environment.
func shell(script string) clients.Launch {
	return clients.Launch{Command: "/bin/sh", Args: []string{"-c", script}, Env: map[string]string{"LEVEL": "7"}}
}

const hello = `read -r x; echo '{"jsonrpc":"2.0","method":"notifications/message"}'; echo '{"jsonrpc":"2.0","id":1,"result":{"serverInfo":{"name":"s","version":"2"}}}'; read -r x; `

func TestTryListsAllPages(t *testing.T) {
	t.Parallel()
	got, err := clients.Try(t.Context(), shell(hello+`read -r x; echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{},{}],"nextCursor":"n"}}'
read -r x; case $x in *'"cursor":"n"'*) echo '{"jsonrpc":"2.0","id":3,"result":{"tools":[{}]}}';; esac; read -r x; exit 0`), os.Getenv)
	require.NoError(t, err)
	assert.Equal(t, clients.Trial{Server: "s", Version: "2", Tools: 3, Bytes: len(`[{},{}][{}]`)}, got)
}

// TestTryStartsAsClientsDo: elsewhere, with few variables.
func TestTryStartsAsClientsDo(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	getenv := func(name string) string {
		return map[string]string{"PATH": "/usr/bin:/bin", "HOME": "/home/ada", "ORCH_TOKEN": "secret"}[name]
	}
	_, err := clients.Try(t.Context(), shell(`pwd > `+out+`; echo "$HOME $LEVEL ${ORCH_TOKEN-none}" >> `+out), getenv)
	assert.True(t, fault.Has(err, fault.ExecFailed))
	assert.Equal(t, "/\n/home/ada 7 none\n", read(t, out))
}

func TestTrySaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		`echo the log is locked >&2; exit 3`:                              "before it answers initialize; it said: the log is locked",
		`echo welcome; read -r x`:                                         `writes on stdout a line that is not a message: "welcome"`,
		`read -r x; echo '{"id":1,"error":{"message":"old"}}'; read -r x`: "answers initialize with an error: old",
		`read -r x; echo '{"id":1,"result":7}'; read -r x`:                "answer to initialize is not valid",
		hello + `exit 0`: "before it answers tools/list",
		hello + `read -r x; echo '{"id":2,"result":{"tools":[{}]}}'; exit 4`:    "then ends with exit status 4",
		hello + `read -r x; echo '{"id":2,"result":{"tools":"no"}}'; read -r x`: "answer to tools/list is not valid",
	} {
		_, err := clients.Try(t.Context(), shell(script), os.Getenv)
		require.True(t, fault.Has(err, fault.ExecFailed), script)
		assert.Contains(t, fault.From(err).Message, want)
	}
	_, err := clients.Try(t.Context(), clients.Launch{Command: "/no/such/orch"}, os.Getenv)
	assert.Contains(t, fault.From(err).Message, "/no/such/orch cannot be started")
}

// TestLaunchReadsWhatWasWritten: the entry of each client leads to the command, or the URL, again.
func TestLaunchReadsWhatWasWritten(t *testing.T) {
	t.Parallel()
	for _, c := range clients.All() {
		content, err := c.Install("f", nil, overStdio())
		require.NoError(t, err)
		got, err := c.Launch("f", content, "orch")
		require.NoError(t, err, c.ID)
		assert.Equal(t, clients.Launch{Command: overStdio().Command, Args: overStdio().Args, Env: map[string]string{}}, got, c.ID)
		_, err = c.Launch("f", content, "other")
		assert.True(t, fault.Has(err, fault.NotFound), c.ID)
		if !c.SpeaksHTTP() {
			continue
		}
		content, err = c.Install("f", nil, overHTTP())
		require.NoError(t, err)
		got, err = c.Launch("f", content, "orch")
		require.NoError(t, err, c.ID)
		assert.Equal(t, overHTTP().URL, got.URL, c.ID)
	}
	_, err := client(t, "cursor").Launch("f", []byte(`{"mcpServers": {"orch": {}}}`), "orch")
	assert.True(t, fault.Has(err, fault.ValidationError))
	got, err := client(t, "opencode").Launch("f", []byte(`{"mcp": {"servers": {"orch": {"command": ["x", "y"], "environment": {"A": "b"}}}}}`), "orch")
	require.NoError(t, err)
	assert.Equal(t, clients.Launch{Command: "x", Args: []string{"y"}, Env: map[string]string{"A": "b"}}, got)
}

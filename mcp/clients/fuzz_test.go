package clients_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tailscale/hujson"
)

// FuzzJSON checks that for any valid file the entry is there afterwards and the rest is unchanged, that a second
// run changes nothing, and that uninstalling leaves at most an empty table.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "{ }", "// a\n{} // b\n", `{"mcpServers":{}}`, `{"mcpServers":{"orch":1}}`, `{"mcpServers":{"orch":{},"b":2,},}`,
		"{\n\t// a\n\t\"x\": [1, 2,], /* b */\n\t\"mcpServers\": {\n\t\t\"b\": {}, // c\n\t},\n}\n", `{"mcpServers":{"a":1,"orch":2}}`,
		"{\"mcpServers\":{\"a\":1 // c\n,\"orch\":2 /* d */}}", `{"mcp\u0053ervers":{"\u006frch":null}}`, "{\"mcpServers\":{// x\n\"orch\":{} , \"b\":1}}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		c := client(t, "cursor")
		installed, err := c.Install("f", content, overStdio())
		if err != nil {
			return
		}
		again, err := c.Install("f", installed, overStdio())
		require.NoError(t, err)
		assert.Equal(t, string(installed), string(again))
		gone, err := c.Uninstall("f", installed, "orch")
		require.NoError(t, err)
		before, after := decoded(t, content), decoded(t, installed)
		servers, _ := after["mcpServers"].(map[string]any)
		assert.Contains(t, servers, "orch")
		assert.Equal(t, without(before), without(after))
		assert.Equal(t, without(before), without(decoded(t, gone)))
	})
}

func decoded(t *testing.T, content []byte) map[string]any {
	t.Helper()
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	if len(bytes.TrimSpace(content)) == 0 {
		return map[string]any{}
	}
	plain, err := hujson.Standardize(bytes.Clone(content))
	require.NoError(t, err)
	var m map[string]any
	require.NoError(t, json.Unmarshal(plain, &m))
	return m
}

// without returns a file without the entry.
func without(m map[string]any) map[string]any {
	m = maps.Clone(m)
	servers, _ := m["mcpServers"].(map[string]any)
	servers = maps.Clone(servers)
	delete(servers, "orch")
	m["mcpServers"] = servers
	if len(servers) == 0 {
		delete(m, "mcpServers")
	}
	return m
}

// FuzzInputs checks that an input is added once to the list of inputs, which keeps its others.
func FuzzInputs(f *testing.F) {
	for _, seed := range []string{
		"", "{}", `{"inputs":[],"servers":{}}`, "{\n  \"inputs\": [\n    {\"id\": \"a\"}, // b\n  ],\n}\n", `{"inputs":[{"id":"orch-token"}]}`,
		`{"inputs":[1,[2],{"id":{}}],"servers":{"orch":{}}}`, "{\"inputs\":[{}//\n]}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		c := client(t, "vscode")
		installed, err := c.Install("f", content, overHTTP())
		if err != nil {
			return
		}
		again, err := c.Install("f", installed, overHTTP())
		require.NoError(t, err)
		assert.Equal(t, string(installed), string(again))
		before, _ := decoded(t, content)["inputs"].([]any)
		after, _ := decoded(t, installed)["inputs"].([]any)
		require.GreaterOrEqual(t, len(after), max(1, len(before)))
		require.LessOrEqual(t, len(after), len(before)+1)
		for i := range before {
			assert.Equal(t, before[i], after[i])
		}
	})
}

// FuzzTOML checks that the result can be read, that a second run changes nothing, and that uninstalling works.
func FuzzTOML(f *testing.F) {
	for _, seed := range []string{
		"", "a = 1", "[mcp_servers]\n", "[mcp_servers.orch]\na = 1\n\n# c\n[b]\n", "[mcp_servers.orch.env]\nA = '''\n# x\n'''\n",
		"mcp_servers.orch.command = 1\n", "[[mcp_servers.orch]]\n", "[ mcp_servers . \"orch\" ]\n", "x = [\n 1,\n]\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		c := client(t, "codex")
		installed, err := c.Install("f", content, overStdio())
		if err != nil {
			return
		}
		again, err := c.Install("f", installed, overStdio())
		require.NoError(t, err)
		assert.Equal(t, string(installed), string(again))
		gone, err := c.Uninstall("f", installed, "orch")
		require.NoError(t, err)
		var m map[string]any
		require.NoError(t, toml.Unmarshal(bytes.TrimPrefix(gone, []byte("\xef\xbb\xbf")), &m))
		servers, _ := m["mcp_servers"].(map[string]any)
		assert.NotContains(t, servers, "orch")
	})
}

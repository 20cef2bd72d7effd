package registry_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/registry"
)

func TestSchemaIsPublished(t *testing.T) { // O-2
	t.Parallel()
	published, err := os.ReadFile("../../docs/reference/mcp-server.schema.json")
	require.NoError(t, err)
	assert.Equal(t, string(registry.Schema()), string(published), "copy mcp/registry/mcp-server.schema.json to docs/reference")
}

func TestRegistryValidate(t *testing.T) { // S1-060…S1-065
	t.Parallel()
	w := newWorld(t)
	place := func(p registry.SchemaError) string {
		return strings.Join([]string{itoa(p.Line), itoa(p.Column), p.Path}, ":")
	}
	for name, test := range map[string]struct {
		content string
		want    []string
	}{
		"good":            {`{"schemaVersion":"1.0.0","name":"a-1","transport":"stdio","command":"x","args":["-y"],"env":{"A":"b"},"capabilities":["a.b-c","d"],"timeout":"1m30s","description":"","retryPolicy":{"maxAttempts":10,"backoff":"fixed"},"metadata":{"a":1}}`, nil},
		"good http":       {`{"schemaVersion":"1.0.0","name":"a","transport":"http","baseURL":"https://example.com/mcp","headers":{"A":"b"},"bearer":"${T}","capabilities":["a"]}`, nil},
		"login":           {`{"schemaVersion":"1.0.0","name":"a","transport":"http","baseURL":"https://e.com","oauth":{"clientId":"b","clientSecret":"${T}","scopes":["a:b"]},"capabilities":["a"]}`, nil},
		"half a client":   {`{"schemaVersion":"1.0.0","name":"a","transport":"http","baseURL":"https://e.com","oauth":{"clientSecret":"c"},"capabilities":["a"]}`, []string{"1:90:/oauth"}},
		"odd scope":       {`{"schemaVersion":"1.0.0","name":"a","transport":"http","baseURL":"https://e.com","oauth":{"scopes":["a b"]},"capabilities":["a"]}`, []string{"1:101:/oauth/scopes/0"}},
		"map of Claude":   {`{"mcpServers": {"My Server": {"type": "stdio", "command": "npx", "args": ["-y", "x"], "env": {"PORT": 1}}, "u": {"type": "http", "url": "https://e.com"}}}`, nil},
		"map of VS Code":  {"{\n// comment\n\"inputs\": [], \"servers\": {\"a\": {\"command\": \"x\",},},\n}", nil},
		"missing":         {"\n {}", []string{"2:2:/capabilities", "2:2:/name", "2:2:/schemaVersion", "2:2:/transport"}},
		"no command":      {`{"schemaVersion":"1.0.0","name":"a","transport":"stdio","capabilities":["a"]}`, []string{"1:1:/command"}},
		"no url":          {`{"schemaVersion":"1.0.0","name":"a","transport":"http","capabilities":["a"]}`, []string{"1:1:/baseURL"}},
		"name":            {`{"schemaVersion":"1.0.0","name":"A_b","transport":"stdio","command":"x","capabilities":["a"]}`, []string{"1:33:/name"}},
		"long name":       {`{"schemaVersion":"1.0.0","name":"` + strings.Repeat("a", 65) + `","transport":"stdio","command":"x","capabilities":["a"]}`, []string{"1:33:/name"}},
		"transport":       {`{"schemaVersion":"1.0.0","name":"a","transport":"sse","command":"x","capabilities":["a"]}`, []string{"1:49:/transport"}},
		"capabilities":    {`{"schemaVersion":"1.0.0","name":"a","transport":"stdio","command":"x","capabilities":[]}`, []string{"1:86:/capabilities"}},
		"capability":      {"{\"schemaVersion\":\"1.0.0\",\"name\":\"a\",\"transport\":\"stdio\",\"command\":\"x\",\"capabilities\":[\n \"ok\",\n \"Aä\", \"a..b\"]}", []string{"3:2:/capabilities/1", "3:8:/capabilities/2"}},
		"version":         {`{"schemaVersion":"1.0","name":"a","transport":"stdio","command":"x","capabilities":["a"]}`, []string{"1:18:/schemaVersion"}},
		"args and env":    {"{\"schemaVersion\":\"1.0.0\",\"name\":\"a\",\"transport\":\"stdio\",\"command\":\"x\",\"capabilities\":[\"a\"],\r\n\"description\":\"日本\", \"args\":[1],\r\n  \"env\":{\"A\":2}}", []string{"2:29:/args/0", "3:14:/env/A"}},
		"url":             {`{"schemaVersion":"1.0.0","name":"a","transport":"http","baseURL":"ftp://x","capabilities":["a"]}`, []string{"1:66:/baseURL"}},
		"timeout":         {`{"schemaVersion":"1.0.0","name":"a","transport":"stdio","command":"x","capabilities":["a"],"timeout":"soon"}`, []string{"1:102:/timeout"}},
		"no time":         {`{"schemaVersion":"1.0.0","name":"a","transport":"stdio","command":"x","capabilities":["a"],"timeout":"0s"}`, []string{"1:102:/timeout"}},
		"retry":           {`{"schemaVersion":"1.0.0","name":"a","transport":"stdio","command":"x","capabilities":["a"],"retryPolicy":{"maxAttempts":11,"backoff":"no"}}`, []string{"1:121:/retryPolicy/maxAttempts", "1:134:/retryPolicy/backoff"}},
		"typo":            {`{"schemaVersion":"1.0.0","name":"a","transport":"stdio","command":"x","capabilities":["a"],"arg":[]}`, []string{"1:98:/arg"}},
		"twice":           {`{"schemaVersion":"1.0.0","name":"a","name":"b","transport":"stdio","command":"x","capabilities":["a"]}`, []string{"1:37:/name"}},
		"entry":           {`{"mcpServers": {"a": {"args": []}}}`, []string{"1:22:/mcpServers/a"}},
		"entry of SSE":    {`{"mcpServers": {"a": {"type": "sse", "url": "https://e.com"}}}`, []string{"1:31:/mcpServers/a/type"}},
		"same name twice": {`{"mcpServers": {"a b": {"command": "x"}, "a-b": {"command": "x"}}}`, []string{"1:49:/mcpServers/a-b"}},
		"an array":        {`[]`, []string{"1:1:"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "f.json")
			require.NoError(t, os.WriteFile(file, []byte(test.content), 0o600))
			problems, err := w.Validate(t.Context(), file)
			require.NoError(t, err)
			var got []string
			for _, p := range problems {
				got = append(got, place(p))
				assert.Equal(t, file, p.File)
				assert.NotEmpty(t, p.Message)
			}
			assert.Equal(t, test.want, got, "%v", problems)
		})
	}
}

func TestValidateSeveralFiles(t *testing.T) { // S1-061, S1-063, A-68
	t.Parallel()
	w := newWorld(t)
	var files []string
	for _, name := range []string{"a", "b", "c"} {
		files = append(files, w.put(name+".json", `{"schemaVersion":"1","name":"A","transport":"stdio","command":"x","capabilities":["a"]}`))
	}
	broken := w.put("broken.json", "{\n  \"a\": 1\n  \"b\": 2\n}")
	files = append(files, broken, filepath.Join(w.dir(), "none.json"))
	problems, err := w.Validate(t.Context(), files...)
	assert.Len(t, problems, 6)
	require.ErrorIs(t, err, registry.ErrInvalidJSON)
	require.ErrorIs(t, err, registry.ErrFileNotFound)
	assert.Contains(t, err.Error(), broken+":3:3")

	deep := w.put("deep.json", strings.Repeat("[", 200_000))
	_, err = w.Validate(t.Context(), deep)
	require.ErrorIs(t, err, registry.ErrInvalidJSON)
	assert.True(t, fault.Has(err, fault.InvalidFormat))
}

func FuzzValidate(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":"1.0.0","name":"a","transport":"stdio","command":"x","capabilities":["a"]}`))
	f.Add([]byte("{\"mcpServers\": {\"ä\": {\"command\": 1, \"env\": {\"A\": null}}}} // x"))
	f.Add([]byte("\ufeff{\"servers\":{\"\":{}},\"servers\":[1]}"))
	check, err := registry.NewCheck()
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, content []byte) {
		problems, err := check(content)
		if err != nil {
			require.ErrorIs(t, err, registry.ErrInvalidJSON)
			return
		}
		lines := strings.Split(strings.TrimPrefix(string(content), "\ufeff"), "\n")
		for _, p := range problems {
			require.LessOrEqual(t, p.Line, len(lines))
			require.LessOrEqual(t, p.Column, len([]rune(lines[p.Line-1]))+1)
		}
	})
}

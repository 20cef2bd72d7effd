package gateway_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/mcp/gateway"
)

// rawVariable makes the test binary an MCP server whose tool definitions come byte for byte from a file; its value is the
// directory of the file tools.json.
const rawVariable = "TEST_LAB_RAW"

// serveRaw answers as a server of the older generation of the protocol.
func serveRaw(dir string, in io.Reader, out io.Writer) int {
	answers := json.NewEncoder(out)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		reply := map[string]any{"jsonrpc": "2.0", "id": m.ID}
		switch m.Method {
		case "initialize":
			reply["result"] = map[string]any{
				"protocolVersion": "2025-11-25", "serverInfo": map[string]string{"name": "raw", "version": "1"}, "capabilities": map[string]any{"tools": map[string]any{}},
			}
		case "tools/list":
			list, _ := os.ReadFile(filepath.Join(dir, "tools.json"))
			reply["result"] = map[string]any{"tools": json.RawMessage(list)}
		case "tools/call":
			reply["result"] = map[string]any{"content": []any{}}
		case "ping":
			reply["result"] = map[string]any{}
		default:
			reply["error"] = map[string]any{"code": -32601, "message": "unknown method"}
		}
		if answers.Encode(reply) != nil {
			return 1
		}
	}
	return 0
}

// waitingOf returns the definitions of a server that wait to be accepted, by tool.
func (w *world) waitingOf(server string) map[string]gateway.Definition {
	w.t.Helper()
	all := map[string]gateway.Definition{}
	for _, d := range w.Definitions(server) {
		if d.Status != gateway.Accepted {
			all[d.Tool] = d
		}
	}
	return all
}

// grow adds a tool to the running server, and waits until that is known.
func (w *world) grow(tool string) {
	w.t.Helper()
	replaced := w.catalogue.Replaced()
	_, err := w.call("lab__grow", `{"text":"`+tool+`"}`)
	require.NoError(w.t, err)
	<-replaced
}

// A tool added by a known server cannot be called before it is accepted, also after restarts.
func TestAddedTool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grow("late")
	blocked := func(why string) {
		t.Helper()
		_, err := w.call("lab__late", `{}`)
		assert.Equal(t, fault.ToolDisabled, fault.CodeOf(err))
		require.ErrorContains(t, err, why)
		assert.Equal(t, "DEFINITION_UNACCEPTED", fault.From(err).Reason)
		assert.NotContains(t, w.catalogue.Names(), "lab__late")
	}
	blocked("the server has added it since it was used first")
	w.write("twins", "late")
	w.open()
	require.NoError(t, w.Ready(t.Context()))
	blocked("the server has added it since it was used first")
	assert.NotContains(t, w.ledger(), "late")
	_, err := w.Accept("lab", map[string]string{"late": strings.Repeat("0", 64)}, "user:ada")
	assert.Equal(t, fault.Conflict, fault.CodeOf(err))
	accepted, err := w.Accept("lab", map[string]string{"late": w.waitingOf("lab")["late"].SHA256}, "user:ada")
	require.NoError(t, err)
	require.Len(t, accepted, 1)
	assert.Equal(t, "user:ada", accepted[0].By)
	_, err = w.call("lab__late", `{}`)
	require.NoError(t, err)
	w.open()
	_, err = w.call("lab__late", `{}`)
	require.NoError(t, err, "it is a known one now")
}

// A name that differs from a known one only by case is no new tool, and cannot be accepted beside it.
func TestNameInAnotherCase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"WRITE", "Echo", "eCHO"} {
		w.grow(name)
		_, err := w.call("lab__"+name, `{"text":"x"}`)
		assert.Equal(t, fault.ToolDisabled, fault.CodeOf(err), name)
		require.ErrorContains(t, err, "only by case", name)
		d := w.waitingOf("lab")[name]
		assert.Equal(t, gateway.Changed, d.Status)
		_, err = w.Accept("lab", map[string]string{name: d.SHA256}, "user:ada")
		assert.Equal(t, fault.Conflict, fault.CodeOf(err), "%s: %v", name, err)
	}
	_, err := w.Accept("lab", nil, "user:ada")
	require.NoError(t, err)
	waiting := w.waitingOf("lab")
	assert.Len(t, waiting, 3, "all that wait, but for those")
	_, err = w.call("lab__write", `{"text":"x"}`)
	require.NoError(t, err, "the known one goes on")
	assert.Equal(t, "write x\n", w.ledger())
}

// A name that looks like that of a known tool in another alphabet is refused.
func TestNameInAnotherAlphabet(t *testing.T) {
	t.Parallel()
	w := newRaw(t)
	w.says(`[{"name":"search","inputSchema":{"type":"object"}},{"name":"sеarch","inputSchema":{"type":"object"}},{"name":"ｓearch","inputSchema":{"type":"object"}}]`)
	assert.Equal(t, []string{"lab__search"}, w.catalogue.Names())
	assert.Len(t, w.Definitions("lab"), 1)
}

// newRaw returns a world whose server takes its definitions from a file.
func newRaw(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.close()
	require.NoError(t, os.RemoveAll(filepath.Join(w.home, ".orch", "state")))
	w.define("lab", map[string]any{"env": map[string]string{rawVariable: w.dir}})
	return w
}

// says restarts the server with other tools.
func (w *world) says(tools string) {
	w.t.Helper()
	w.write("tools.json", tools)
	w.open()
	require.NoError(w.t, w.Ready(w.t.Context()))
}

// Everything in the definition of a tool is pinned, except what may change each time.
func TestWhatIsPinned(t *testing.T) {
	t.Parallel()
	const plain = `"name":"search","inputSchema":{"type":"object"}`
	for name, tc := range map[string]struct {
		before, after string
		free          bool
	}{
		"icons":              {`{` + plain + `}`, `{` + plain + `,"icons":[{"src":"https://example.com/a.png"}]}`, false},
		"another icon":       {`{` + plain + `,"icons":[{"src":"https://example.com/a.png"}]}`, `{` + plain + `,"icons":[{"src":"https://example.com/b.png"}]}`, false},
		"support of tasks":   {`{` + plain + `}`, `{` + plain + `,"execution":{"taskSupport":"required"}}`, false},
		"a schema of null":   {`{` + plain + `}`, `{` + plain + `,"outputSchema":null}`, false},
		"a null in a schema": {`{"name":"search","inputSchema":{"type":"object"}}`, `{"name":"search","inputSchema":{"type":"object","default":null}}`, false},
		"title":              {`{` + plain + `}`, `{` + plain + `,"title":"Finds"}`, false},
		"title of a hint":    {`{` + plain + `,"annotations":{}}`, `{` + plain + `,"annotations":{"title":"Finds"}}`, false},
		"a hint":             {`{` + plain + `,"annotations":{}}`, `{` + plain + `,"annotations":{"readOnlyHint":true}}`, false},
		"an unknown hint":    {`{` + plain + `,"annotations":{}}`, `{` + plain + `,"annotations":{"freeHint":true}}`, false},
		"what is unknown":    {`{` + plain + `}`, `{` + plain + `,"price":1}`, false},
		"metadata":           {`{` + plain + `,"_meta":{"n":1}}`, `{` + plain + `,"_meta":{"n":2}}`, true},
		"the order of keys":  {`{` + plain + `}`, `{"inputSchema":{"type":"object"},"name":"search"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRaw(t)
			w.says("[" + tc.before + "]")
			_, err := w.call("lab__search", `{}`)
			require.NoError(t, err)
			w.says("[" + tc.after + "]")
			_, err = w.call("lab__search", `{}`)
			if tc.free {
				require.NoError(t, err)
				return
			}
			assert.Equal(t, fault.ToolDisabled, fault.CodeOf(err), "%v", err)
			assert.Equal(t, gateway.Changed, w.waitingOf("lab")["search"].Status)
		})
	}
}

// A record that was written before all of a definition was pinned is completed once, and never again.
func TestRecordsArePinnedWhole(t *testing.T) {
	t.Parallel()
	w := newRaw(t)
	file := filepath.Join(w.home, ".orch", "state", "mcp-tools", "lab.json")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte(`{"tools":{"search":{"accepted":{"inputSchema":{"type":"object"},"name":"search"},"by":"user:ada"}}}`), 0o600))
	w.says(`[{"name":"search","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}]`)
	_, err := w.call("lab__search", `{}`)
	require.NoError(t, err)
	list := w.Definitions("lab")
	require.Len(t, list, 1)
	assert.Equal(t, "user:ada", list[0].By)
	for _, later := range []string{`[{"name":"search","inputSchema":{"type":"object"}}]`, `[{"name":"search","inputSchema":{"type":"object"},"icons":[]}]`} {
		w.says(later)
		assert.Equal(t, []string{"lab__search"}, slices.Clone(w.catalogue.Refused()))
	}
}

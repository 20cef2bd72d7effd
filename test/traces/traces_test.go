package traces_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/test/need"
)

// While the collector is down, ten thousand tasks end, and the node is killed. When it is back, the node is killed while it sends,
// and the collector too. The receiver has then the spans that orch trace export makes, and no others.
func TestTracesThroughCrashes(t *testing.T) {
	t.Parallel()
	need.Long(t)
	const tasks = 10_000
	w := newWorld(t)
	w.write("leaf.yaml", "orch: v1\nname: leaf\nsteps: [{id: a, tool: LOG_WRITE, with: {level: INFO, message: x}}]\n")
	w.write("child.yaml", "orch: v1\nname: child\nsteps: [{id: a, run: leaf.yaml}]\n")
	w.write("parent.yaml", `orch: v1
name: parent
inputs: {properties: {items: {type: array}}}
steps:
  - {id: each, for_each: '${{ inputs.items }}', do: [{id: s, tool: LOG_WRITE, with: {level: INFO, message: x}}]}
  - {id: below, run: child.yaml}
  - {id: bad, needs: [below, each], tool: FILE_READ, with: {file_path: '${{ task.root }}/nowhere'}}
`)
	w.run("submit", "child.yaml") // without a node: nothing of it is sent, and the first node begins behind it
	w.start()
	const inParts = 1001
	w.write("inputs.json", `{"items": [0`+strings.Repeat(",0", inParts-1)+`]}`)
	ids := []string{strings.TrimSpace(w.run("submit", "parent.yaml", "-I", "inputs.json", "--detach"))}
	var lines strings.Builder
	for i := range tasks {
		fmt.Fprintf(&lines, `{"tool": "LOG_WRITE", "args": {"level": "INFO", "message": "x"}, "name": "t%d"}`+"\n", i)
	}
	w.write("batch.jsonl", lines.String())
	ids = append(ids, strings.Fields(w.run("submit", "-f", "batch.jsonl", "--detach", "-o", "name"))...)
	require.Len(t, ids, tasks+1)
	w.eventually("the first tasks have ended, and the collector is missed", func() bool { return w.logged("traces_not_sent") == 1 })
	kill(w.node)
	w.start()
	w.eventually("all tasks have ended", w.idle)
	w.eventually("the collector is missed", func() bool { return w.logged("traces_not_sent") == 2 })
	want := w.exported(ids...)
	tree := w.exported("--tree", ids[0])
	maps.Copy(want, tree)
	assert.Greater(t, len(tree), 2*inParts)
	for _, span := range tree {
		assert.Contains(t, span, `"traceState":"rojo=1"`, "the tracestate of the caller reaches parts and children")
		assert.Contains(t, span, `"traceId":"4bf92f3577b34da6a3ce929d0e0e4736"`)
	}

	w.collect()
	w.eventually("some spans have arrived", func() bool { return w.received() > 2000 })
	kill(w.node)
	assert.Less(t, w.received(), len(want), "the node was killed in the middle")
	w.start()
	w.eventually("more spans have arrived", func() bool { return w.received() > 5000 })
	kill(w.receiver)
	w.collect()
	w.equal(want)
	t.Logf("%d spans in %d requests", len(want), w.requests)
	assert.LessOrEqual(t, w.logged("traces_not_sent"), 4, "one warning for each outage of each process")
}

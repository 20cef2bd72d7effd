package tree_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/tools/firebase/tree"
)

// turn is one line of testdata/engine.jsonl: an operation, and the result of Google's own engine (@firebase/database
// 1.1.5, offline).
type turn struct {
	Op    string `json:"op"`
	ID    string `json:"id"`
	Path  string `json:"path"`
	Value any    `json:"value"`
	Query *struct {
		OrderBy string `json:"orderBy"`
		StartAt any    `json:"startAt"`
		EndAt   any    `json:"endAt"`
		Limit   int    `json:"limitToFirst"`
	} `json:"query"`
	Want struct {
		OK     bool     `json:"ok"`
		Error  string   `json:"error"`
		Value  any      `json:"value"`
		Order  []string `json:"order"`
		Events []heard  `json:"events"`
	} `json:"want"`
}

// heard is an event of a listener.
type heard struct {
	ID   string    `json:"id"`
	Type tree.Kind `json:"type"`
	Key  string    `json:"key"`
	Data any       `json:"data"`
}

// The tree behaves like Google's engine: values, the order of children, queries, errors, and the events of several
// listeners, over a long random history.
func TestLikeTheEngine(t *testing.T) {
	t.Parallel()
	recorded, err := os.ReadFile("testdata/engine.jsonl")
	require.NoError(t, err)
	lines := bufio.NewScanner(bytes.NewReader(recorded))
	lines.Buffer(nil, 1<<20)
	var root *tree.Node
	listeners := map[string]tree.Path{}
	for n := 1; lines.Scan(); n++ {
		var now turn
		require.NoError(t, json.Unmarshal(lines.Bytes(), &now), "line %d", n)
		path, err := tree.ParsePath(now.Path)
		require.NoError(t, err)
		switch now.Op {
		case "listen":
			listeners[now.ID] = path
		case "get":
			now.get(t, n, root.At(path))
		default:
			after, err := now.write(root, path)
			require.Equal(t, now.Want.OK, err == nil, "line %d: %s: %v, the engine: %s", n, lines.Bytes(), err, now.Want.Error)
			if err == nil {
				now.hear(t, n, listeners, root, after)
				root = after
			}
		}
	}
	require.NoError(t, lines.Err())
	assert.Len(t, listeners, 6)
	assert.False(t, root.Equal(nil))
}

func (now turn) write(root *tree.Node, path tree.Path) (*tree.Node, error) {
	switch now.Op {
	case "set":
		return root.Set(path, now.Value, time.UnixMilli(0))
	case "update":
		return root.Update(path, now.Value, time.UnixMilli(0))
	default:
		return root.Delete(path), nil
	}
}

func (now turn) get(t *testing.T, line int, node *tree.Node) {
	t.Helper()
	query := tree.Query{OrderBy: tree.ByPriority}
	if q := now.Query; q != nil {
		query = tree.Query{OrderBy: q.OrderBy, StartAt: q.StartAt, EndAt: q.EndAt, Limit: q.Limit}
	}
	left, found, err := node.Select(query)
	require.NoError(t, err)
	order := []string{}
	for _, child := range found {
		order = append(order, child.Key)
	}
	require.Equal(t, now.Want.Order, order, "line %d", line)
	require.Equal(t, now.Want.Value, left.Value(), "line %d", line)
}

func (now turn) hear(t *testing.T, line int, listeners map[string]tree.Path, before, after *tree.Node) {
	t.Helper()
	wanted := map[string][]heard{}
	for _, e := range now.Want.Events {
		wanted[e.ID] = append(wanted[e.ID], e)
	}
	for id, path := range listeners {
		var got []heard
		for _, c := range tree.Diff(before.At(path), after.At(path)) {
			key := c.Key
			if c.Kind == tree.Value {
				key = path[len(path)-1]
			}
			got = append(got, heard{ID: id, Type: c.Kind, Key: key, Data: c.Now.Value()})
		}
		if !assert.Equal(t, wanted[id], got, "line %d, listener %s", line, id) {
			t.FailNow()
		}
	}
}

package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/mcp/server"
)

// A dialogue is a file of messages: `> ` sends one, `< ` waits for one that has at least the given fields, `! ` checks
// that no such message has arrived so far. "<any>" stands for any value, "<name=>" for one that later messages call
// "<name>". `? ` is `< ` for the answer to the message before, which is sent again until it matches. `+ ` is the id of an
// approval that another person grants. Messages may arrive in any order, as in MCP. ROOT is the root of the node.
func TestDialogues(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/dialogues/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			n := startNode(t)
			write(t, filepath.Join(n.root, "a.txt"), "some text\n")
			n.agentFile("sampled", "model: 'sampling:claude'\ninstructions: You echo.\ntools: [echo]\n")
			talk(t, n, n.face(quick(file)), file)
		})
	}
}

// quick shortens the wait of plain calls, for dialogues about later messages.
func quick(file string) func(*server.Config) {
	return func(c *server.Config) {
		if strings.Contains(file, "handed_back") {
			c.Limits.SyncWait = 50 * time.Millisecond
		}
		c.Consent.OutsideApprovals = strings.Contains(file, "outside")
		if strings.Contains(file, "page") {
			c.Consent.OutsideApprovals = true
			c.Consent.ApprovalPage = func(id string) string { return "http://127.0.0.1:1/ui/approvals/" + id }
		}
	}
}

type talker struct {
	t     *testing.T
	n     *node
	to    io.Writer
	from  chan map[string]any
	kept  []map[string]any
	names map[string]string
	last  string
	at    string
}

func talk(t *testing.T, n *node, s *server.Server, file string) {
	t.Helper()
	in, to := io.Pipe()
	from, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- s.Serve(context.Background(), in, out)
		assert.NoError(t, out.Close())
	}()
	d := &talker{t: t, n: n, to: to, from: make(chan map[string]any, 1000), names: map[string]string{"ROOT": n.root}}
	go d.listen(from)
	f, err := os.Open(file)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	for line, lines := 1, bufio.NewScanner(f); lines.Scan(); line++ {
		d.at = fmt.Sprintf("%s:%d", file, line)
		d.line(lines.Text())
	}
	require.NoError(t, to.Close())
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		require.Fail(t, "the server goes on after its input has ended")
	}
}

func (d *talker) listen(from io.Reader) {
	for lines := bufio.NewReader(from); ; {
		text, err := lines.ReadBytes('\n')
		var m map[string]any
		if len(text) > 0 && assert.NoError(d.t, json.Unmarshal(text, &m), "S2-007: a line that is no message") {
			d.from <- m
		}
		if err != nil {
			close(d.from)
			return
		}
	}
}

func (d *talker) line(text string) {
	kind, rest, _ := strings.Cut(text, " ")
	for name, value := range d.names {
		rest = strings.ReplaceAll(rest, "<"+name+">", value)
	}
	switch kind {
	case ">":
		d.send(rest)
	case "<":
		d.expect(d.parse(rest))
	case "+":
		_, err := d.n.owner.Decide(d.t.Context(), api.DecideRequest{ID: rest, As: "granted", Actor: "user:bob"})
		require.NoError(d.t, err, d.at)
	case "?":
		d.ask(d.parse(rest))
	case "!":
		want := d.parse(rest)
		for _, m := range d.kept {
			assert.False(d.t, d.fits(want, m, nil), "%s: there is %v", d.at, m)
		}
	}
}

func (d *talker) send(text string) {
	d.last = text
	_, err := io.WriteString(d.to, text+"\n")
	require.NoError(d.t, err, d.at)
}

// ask repeats the last message until its answer matches.
func (d *talker) ask(want map[string]any) {
	require.Eventually(d.t, func() bool {
		for m := range d.from {
			d.kept = append(d.kept, m)
			if m["id"] == want["id"] {
				break
			}
		}
		if d.fits(want, d.kept[len(d.kept)-1], nil) {
			return true
		}
		d.send(d.last)
		return false
	}, time.Minute, 10*time.Millisecond, d.at)
}

func (d *talker) parse(text string) map[string]any {
	var m map[string]any
	require.NoError(d.t, json.Unmarshal([]byte(text), &m), d.at)
	return m
}

func (d *talker) expect(want map[string]any) {
	limit := time.After(time.Minute)
	for looked := 0; ; {
		for ; looked < len(d.kept); looked++ {
			names := map[string]string{}
			if d.fits(want, d.kept[looked], names) {
				maps.Copy(d.names, names)
				d.kept = append(d.kept[:looked], d.kept[looked+1:]...)
				return
			}
		}
		select {
		case m, open := <-d.from:
			require.True(d.t, open, "%s: the server has ended; kept: %v", d.at, d.kept)
			d.kept = append(d.kept, m)
		case <-limit:
			kept, _ := json.MarshalIndent(d.kept, "", " ")
			require.Fail(d.t, "no such message", "%s\nthere are: %s", d.at, kept)
		}
	}
}

// fits reports whether a value has at least the wanted fields.
func (d *talker) fits(want, got any, names map[string]string) bool {
	switch w := want.(type) {
	case string:
		if name, ok := strings.CutPrefix(w, "<"); ok && strings.HasSuffix(name, "=>") {
			if names != nil {
				names[strings.TrimSuffix(name, "=>")] = fmt.Sprint(got)
			}
			return got != nil
		}
		text, ok := got.(string)
		part, has := strings.CutPrefix(w, "~")
		return w == "<any>" && got != nil || ok && (text == w || has && strings.Contains(text, part))
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return false
		}
		for key, value := range w {
			have, there := g[key]
			if value == "<none>" && !there {
				continue
			}
			if !there || !d.fits(value, have, names) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) < len(w) {
			return false
		}
		for i := range w {
			if !d.fits(w[i], g[i], names) {
				return false
			}
		}
		return true
	default:
		return want == got
	}
}

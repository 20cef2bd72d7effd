package traces_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/test/need"
)

// patience bounds waits that are normally short.
const patience = 2 * time.Minute

// caller is the program that submits tasks.
const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// world is a node with a collector, each a process that can be killed.
type world struct {
	t                  *testing.T
	dir                string
	program, collector string
	address            string

	node, receiver *exec.Cmd

	mu sync.Mutex
	// got has the spans that receivers have got, by trace and id. requests counts their requests.
	got      map[string]string
	requests int
	reading  sync.WaitGroup
}

func newWorld(t *testing.T) *world {
	t.Helper()
	need.Program(t, "go")
	w := &world{t: t, dir: t.TempDir(), got: map[string]string{}}
	w.program, w.collector = os.Getenv(need.Binary), filepath.Join(w.dir, "collector")
	if w.program == "" {
		w.program = filepath.Join(w.dir, "orch")
		w.build("../..", w.program, "./cmd/orch")
	}
	w.build("../collector", w.collector, ".")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w.address = l.Addr().String()
	require.NoError(t, l.Close())
	t.Cleanup(func() {
		for _, p := range []*exec.Cmd{w.node, w.receiver} {
			if p != nil && p.ProcessState == nil {
				_ = p.Process.Kill()
				_ = p.Wait()
			}
		}
		w.reading.Wait()
	})
	return w
}

func (w *world) build(dir, program, what string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "go", "build", "-o", program, what)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=readonly -trimpath", "GOWORK=off", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(w.t, err, "%s", out)
}

func (w *world) command(args ...string) *exec.Cmd {
	c := exec.Command(w.program, args...)
	c.Dir, c.Env = w.dir, append(os.Environ(), "HOME="+w.dir, "ORCH_DATA_DIR="+filepath.Join(w.dir, "data"), "TRACEPARENT="+caller, "TRACESTATE=rojo=1", "ORCH_TRACES_TO=http://"+w.address)
	return c
}

// run runs a command that must succeed, and returns what it prints.
func (w *world) run(args ...string) string {
	w.t.Helper()
	var stdout, stderr bytes.Buffer
	c := w.command(args...)
	c.Stdout, c.Stderr = &stdout, &stderr
	require.NoError(w.t, c.Run(), "%.200v: %s", args, &stderr)
	return stdout.String()
}

// write writes a file in the directory of the world.
func (w *world) write(name, text string) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600))
}

// start starts a node that sends its traces to the collector.
func (w *world) start() {
	w.t.Helper()
	w.node = w.command("serve", "--http", "off", "--concurrency", "20")
	logs, err := os.OpenFile(filepath.Join(w.dir, "node.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(w.t, err)
	defer logs.Close()
	w.node.Stderr = logs
	require.NoError(w.t, w.node.Start())
	pid := `"pid":` + strconv.Itoa(w.node.Process.Pid)
	w.eventually("the node is ready", func() bool {
		data, err := os.ReadFile(filepath.Join(w.dir, "data", "node.json"))
		return err == nil && strings.Contains(string(data), pid)
	})
}

func (w *world) eventually(what string, is func() bool) {
	w.t.Helper()
	require.Eventually(w.t, is, patience, 10*time.Millisecond, what)
}

// idle reports whether no task is open.
func (w *world) idle() bool { return strings.TrimSpace(w.run("queue", "-o", "name")) == "" }

// kill ends a process as a crash does.
func kill(p *exec.Cmd) {
	_ = p.Process.Kill()
	_ = p.Wait() // it was killed
}

// logged returns how many warnings the logs of the nodes have with a text.
func (w *world) logged(text string) int {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.dir, "node.log"))
	require.NoError(w.t, err)
	return strings.Count(string(data), text)
}

// collect starts a receiver.
func (w *world) collect() {
	w.t.Helper()
	w.receiver = exec.Command(w.collector, w.address)
	out, err := w.receiver.StdoutPipe()
	require.NoError(w.t, err)
	w.receiver.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(w.t, w.receiver.Start())
	w.reading.Go(func() { w.read(out) })
}

// read notes the spans of each line.
func (w *world) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if lines.Text() == "listening" {
			continue
		}
		spans, err := spansIn(lines.Bytes())
		if err != nil {
			continue // the receiver was killed while it wrote
		}
		w.mu.Lock()
		maps.Copy(w.got, spans)
		w.requests++
		w.mu.Unlock()
	}
}

// received returns the number of spans that receivers have got.
func (w *world) received() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.got)
}

// spansIn returns the spans of a request, in one form, by trace and id.
func spansIn(line []byte) (map[string]string, error) {
	var r struct {
		ResourceSpans []struct {
			ScopeSpans []struct{ Spans []map[string]any }
		}
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, resource := range r.ResourceSpans {
		for _, span := range resource.ScopeSpans[0].Spans {
			if status, _ := span["status"].(map[string]any); len(status) == 0 {
				delete(span, "status") // the receiver writes also one that is unset
			}
			text, err := json.Marshal(span)
			if err != nil {
				return nil, err
			}
			all[fmt.Sprint(span["traceId"], " ", span["spanId"])] = string(text)
		}
	}
	return all, nil
}

// exported returns the spans that orch trace export makes.
func (w *world) exported(args ...string) map[string]string {
	w.t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(w.run(append([]string{"trace", "export"}, args...)...)) {
		spans, err := spansIn([]byte(line))
		require.NoError(w.t, err)
		maps.Copy(all, spans)
	}
	return all
}

// equal checks that the receivers have got the spans, and no others.
func (w *world) equal(want map[string]string) {
	w.t.Helper()
	w.eventually("all spans arrive", func() bool { return w.received() >= len(want) })
	w.mu.Lock()
	defer w.mu.Unlock()
	assert.Len(w.t, w.got, len(want))
	for id, span := range want {
		if w.got[id] != span {
			require.Equal(w.t, span, w.got[id], id)
		}
	}
}

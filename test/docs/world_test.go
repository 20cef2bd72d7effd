package docs_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
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

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/objects/s3/s3test"
)

// patience is how long the commands of one page may take.
const patience = 2 * time.Minute

// source is the folder of the module.
const source = "../.."

// world is the machine of a reader: a home, a folder to work in, and ports that no other test uses.
type world struct {
	home, run string
	env       []string
	replace   *strings.Replacer
}

func newWorld(t *testing.T, bin string) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	w := &world{home: filepath.Join(dir, "home"), run: filepath.Join(dir, "run")}
	for _, folder := range []string{w.run, filepath.Join(w.home, "work")} {
		require.NoError(t, os.MkdirAll(folder, 0o700))
	}
	require.NoError(t, os.WriteFile(filepath.Join(w.run, "ended"), nil, 0o600))
	face, nats, metrics := freePort(t), freePort(t), freePort(t)
	receiver, bucket := outside(t, filepath.Join(w.run, "seen")), s3test.New(t, "records", "key").URL
	w.replace = strings.NewReplacer(
		"127.0.0.1:7424", face, "127.0.0.1:9424", metrics, "127.0.0.1:4222", nats, `"127.0.0.1", 4222`, strings.Replace(`"`+nats, ":", `", `, 1),
		"http://127.0.0.1:4318", receiver, "https://example.com", receiver, "https://minio.example.com", bucket,
		"eu-central-1", "us-east-1", // that of the server
	)
	root, err := filepath.Abs(source)
	require.NoError(t, err)
	prelude, err := filepath.Abs("testdata/prelude.sh")
	require.NoError(t, err)
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	w.env = []string{
		"GOCACHE=" + cmp.Or(os.Getenv("GOCACHE"), filepath.Join(cache, "go-build")),
		"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + w.home, "LANG=C.UTF-8", "USER=ada",
		"RUN=" + w.run, "SOURCE=" + root, "PRELUDE=" + prelude, "NATS=" + nats,
		"WORKER_METRICS=" + metrics, "ORCH_HTTP=" + face, "ORCH_DURABILITY=relaxed",
		"OUTSIDE=" + receiver, "S3=" + bucket,
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com",
	}
	return w
}

// outside starts a receiver of webhooks and spans, which writes the requests that it gets to a file, and returns its address.
func outside(t *testing.T, seen string) string {
	t.Helper()
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		f, err := os.OpenFile(seen, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if assert.NoError(t, err) {
			_, err = fmt.Fprintf(f, "%s %s %s %s %s\n", r.Method, r.URL.Path, r.Header.Get("Webhook-Signature"), r.Header.Get("Webhook-Id")+","+r.Header.Get("Webhook-Timestamp"), body)
			assert.NoError(t, err)
			assert.NoError(t, f.Close())
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// startNATS starts a NATS server, and adds its address to the environment.
func (w *world) startNATS(t *testing.T) {
	t.Helper()
	server, err := bus.StartServer(t.Context(), bus.ServerConfig{DataDir: filepath.Join(w.run, "nats")})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close(context.WithoutCancel(t.Context()))) })
	var auth struct{ Operator string }
	text, err := os.ReadFile(filepath.Join(server.DataDir(), "auth.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &auth))
	w.env = append(w.env, "NATS_URL="+strings.Replace(server.Addr(), "://", "://operator:"+auth.Operator+"@", 1))
}

// freePort returns an address of loopback that nobody uses, outside of the ports that systems give to whoever asks for any.
func freePort(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	for range 100 {
		port := 15000 + int(ports.Add(1)) + os.Getpid()%10000
		l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			require.NoError(t, l.Close())
			return l.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

// bash runs a script, and ends what it leaves running.
func (w *world) bash(t *testing.T, text string) {
	t.Helper()
	path := filepath.Join(w.run, "script")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	log, err := os.Create(filepath.Join(w.run, "bash.log"))
	require.NoError(t, err)
	defer log.Close()
	cmd := exec.CommandContext(ctx, "bash", path)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = filepath.Join(w.home, "work"), w.env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	require.NoError(t, cmd.Start())
	err = cmd.Wait()
	endGroup(t, cmd.Process.Pid)
	said, readErr := os.ReadFile(log.Name())
	require.NoError(t, readErr)
	assert.Empty(t, string(said), "bash itself says nothing (%v)", err)
}

// perform runs the acts of a page, and returns what is not as the page says, each with its line.
func (w *world) perform(t *testing.T, d directions, acts []act) []string {
	t.Helper()
	if d.NATS {
		w.startNATS(t)
	}
	s, outputs, err := write(w.run, d, acts, w.replace)
	require.NoError(t, err)
	w.bash(t, s.text.String())
	text, err := os.ReadFile(filepath.Join(w.run, "ended"))
	require.NoError(t, err)
	ended := strings.Split(strings.TrimSpace(string(text)), "\n")
	if i := s.failed(ended); i >= 0 {
		return []string{w.why(t, s, i, ended)}
	}
	said := make([]string, len(acts))
	for i, n := range outputs {
		if n >= 0 {
			said[i] = w.read(t, s, n)
		}
	}
	return compare(d, acts, outputs, said)
}

// why says how a part has failed.
func (w *world) why(t *testing.T, s *script, i int, ended []string) string {
	t.Helper()
	p := s.parts[i]
	node, _ := os.ReadFile(filepath.Join(w.run, "node.log")) // most pages have no node
	text := fmt.Sprintf("%d: %s has not ended with %d (part %d; ended: %s):\n%s\n%s\nthe node says:\n%s",
		p.line, p.what, p.code, i, ended[len(ended)-1], p.text, w.read(t, s, i), node)
	if i > 0 && s.parts[i-1].beside {
		text += "\nthe command beside it says:\n" + w.read(t, s, i-1)
	}
	return text
}

// compare returns where the output of the acts has not what the page shows.
func compare(d directions, acts []act, outputs []int, said []string) (findings []string) {
	var above string
	block := 0
	for i, a := range acts {
		for _, want := range a.Shows {
			if !says(said[i], want, d.Varies) {
				findings = append(findings, fmt.Sprintf("%d: the output has no %q:\n%s", a.line, want, said[i]))
			}
		}
		switch {
		case a.kind == command && a.block == block:
			above += said[i]
		case a.kind == command:
			above, block = said[i], a.block
		case a.kind == shown && a.LeftOut == "":
			if outputs[i] >= 0 {
				above = said[i]
			}
			if !shows(above, a.text, d.Varies) {
				findings = append(findings, fmt.Sprintf("%d: the page shows\n%s\nbut the output is\n%s", a.line, a.text, above))
			}
		}
	}
	return findings
}

// read returns the output of a part of a script.
func (w *world) read(t *testing.T, s *script, n int) string {
	t.Helper()
	output, err := os.ReadFile(s.output(n))
	if os.IsNotExist(err) {
		return ""
	}
	require.NoError(t, err)
	return string(output)
}

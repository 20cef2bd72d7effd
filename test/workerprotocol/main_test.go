package main

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/test/need"
)

// The node of this module speaks the protocol.
func TestNodeConforms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	binary, err := need.Orch(dir)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	orch := func(args ...string) *exec.Cmd {
		cmd := exec.Command(binary, append(args, "--data-dir", filepath.Join(dir, "data"), "--root", dir)...)
		cmd.Env = append(os.Environ(), "HOME="+dir)
		return cmd
	}
	node := orch("serve", "--http", address)
	require.NoError(t, node.Start())
	t.Cleanup(func() { _, _ = node.Process.Kill(), node.Wait() })
	require.Eventually(t, func() bool {
		answer, err := http.Get("http://" + address + "/readyz")
		return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	}, time.Minute, 10*time.Millisecond)
	printed, err := orch("agents", "register", "conformer", "--capability", "conform", "-o", "json").Output()
	require.NoError(t, err)
	var credential struct{ Secret string }
	require.NoError(t, json.Unmarshal(printed, &credential))
	secret := filepath.Join(dir, "secret")
	require.NoError(t, os.WriteFile(secret, []byte(credential.Secret), 0o600))
	err = check(t.Context(), t.Output(), "http://"+address, map[string]string{"operator": filepath.Join(dir, "data", "mcp.token"), "worker": secret}, "*")
	require.NoError(t, err)
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ want, have, problem string }{
		{`{"a": 1}`, `{"a": 1, "b": 2}`, ""},
		{`{"a": 1}`, `{"a": 2}`, ".a is 2 instead of 1"},
		{`{"a": 1}`, `{}`, ".a is missing"},
		{`{"a": "$absent"}`, `{"a": null}`, ".a is there"},
		{`["$x", "$x"]`, `[1, 1]`, ""},
		{`["$x", "$x"]`, `[1, 2]`, ".1 is 2 instead of 1"},
		{`[1]`, `[1, 2]`, " is [1 2] instead of [1]"},
		{`{"a": {}}`, `{"a": []}`, ".a is [] instead of map[]"},
	} {
		var want, have any
		require.NoError(t, json.Unmarshal([]byte(c.want), &want))
		require.NoError(t, json.Unmarshal([]byte(c.have), &have))
		assert.Equal(t, c.problem, values{}.match(want, have, ""), c.want)
	}
}

// The clients of this module keep the rules, with one slot and with several.
func TestClientsConform(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup // the workers wait most of the time
	defer all.Wait()
	for _, c := range []struct{ program, script, folder string }{
		{"python3", "worker.py", "python"}, {"node", "worker.mjs", "typescript"},
	} {
		need.Program(t, c.program)
		folder, err := filepath.Abs(filepath.Join("..", "..", "clients", c.folder))
		require.NoError(t, err)
		for _, slots := range []string{"1", "4"} {
			all.Go(func() {
				var report bytes.Buffer
				err := checkWorker(t.Context(), &report, []string{c.program, filepath.Join("testdata", c.script), folder, slots}, "*", usualPatience)
				assert.NoError(t, err, "%s with %s slots:\n%s", c.folder, slots, &report)
			})
		}
	}
}

// A worker that breaks the rules is found out: this one says nothing about what it runs, repeats nothing and ends at once.
func TestKitBites(t *testing.T) {
	t.Parallel()
	need.Program(t, "python3")
	worker := []string{"python3", filepath.Join("testdata", "smallest.py")}
	for rule, kept := range map[string]bool{
		"takes-*": true, "loses-no-call-without-answer": true, "repeats-a-report-without-answer": false, "keeps-leases": false, "says-goodbye": false,
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, kept, checkWorker(t.Context(), t.Output(), worker, rule, 4*time.Second) == nil)
		})
	}
}

package openai_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/modelstest"
	"github.com/orch-dev/orch/models/openai"
	"github.com/orch-dev/orch/models/wire"
	"github.com/orch-dev/orch/test/need"
)

// llama is llama.cpp with a model of its own, for the tests of this package.
type llama struct {
	start sync.Once
	cmd   *exec.Cmd
	stdin io.Closer
	base  string
	err   error
}

var server llama

// open returns a provider of the running server. headers are added to its requests.
func (l *llama) open(tb testing.TB, headers map[string]string) models.Provider {
	tb.Helper()
	need.Program(tb, "node", "npm")
	need.That(tb, "llama", runtime.GOOS+"/"+runtime.GOARCH == "linux/amd64")
	l.start.Do(func() { l.err = l.run() })
	require.NoError(tb, l.err)
	transport := &http.Transport{}
	tb.Cleanup(transport.CloseIdleConnections)
	return openai.New(wire.Config{BaseURL: l.base, Client: &http.Client{Transport: transport}, Headers: func() (map[string]string, error) { return headers, nil }})
}

// run starts the server, which prints its port.
func (l *llama) run() (err error) {
	l.cmd = exec.Command("../../scripts/llama/run", "server.mjs")
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	l.cmd.Stderr = os.Stderr
	if l.stdin, err = l.cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, err := l.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := l.cmd.Start(); err != nil {
		return err
	}
	timer := time.AfterFunc(5*time.Minute, l.kill)
	defer timer.Stop()
	var ready struct{ Port int }
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the server ended before it listened: %w", err)
	}
	err = json.Unmarshal(line, &ready)
	l.base = fmt.Sprintf("http://127.0.0.1:%d/v1", ready.Port)
	return err
}

func (l *llama) kill() { _ = syscall.Kill(-l.cmd.Process.Pid, syscall.SIGKILL) }

// stopBehind returns a runner for goleak.VerifyTestMain that runs m and then stops the server.
func (l *llama) stopBehind(m *testing.M) interface{ Run() int } { return stopping{l, m} }

type stopping struct {
	server *llama
	tests  *testing.M
}

// Run implements goleak.TestingM.
func (s stopping) Run() int {
	code := s.tests.Run()
	if s.server.stdin != nil {
		s.server.stdin.Close()
		timer := time.AfterFunc(20*time.Second, s.server.kill)
		_ = s.server.cmd.Wait() // the exit status does not matter
		timer.Stop()
	}
	return code
}

// markov is what the model says after a result.
const markov = "The file adds the prices – and nothing else."

func TestLlama(t *testing.T) {
	t.Parallel()
	p := server.open(t, nil)
	r := modelstest.Question("What does it do?")
	var heard strings.Builder
	hear := func(d models.Delta) { heard.WriteString(d.Text + d.Call) }

	first, err := p.Stream(t.Context(), r, hear)
	require.NoError(t, err)
	assert.Equal(t, models.StopCalls, first.Stop)
	assert.Equal(t, []string{`call_llama FILE_READ {"file_path":"/w/shop.go"}`}, calls(first))
	assert.Equal(t, "FILE_READ", heard.String())
	assert.Equal(t, int64(7), first.Usage.Output)

	r.Messages = append(r.Messages, first.Message, models.Message{Role: models.User, Parts: []models.Part{
		{Result: &models.Result{ID: "call_llama", Name: "FILE_READ", Content: "package shop"}},
	}})
	heard.Reset()
	second, err := p.Stream(t.Context(), r, hear)
	require.NoError(t, err)
	assert.Equal(t, models.StopEnd, second.Stop)
	assert.Equal(t, markov, modelstest.TextOf(second))
	assert.Equal(t, markov, heard.String())
	assert.Equal(t, int64(10), second.Usage.Output)
	assert.Greater(t, second.Usage.Input, first.Usage.Input)
}

func TestLlamaReachesTheLimit(t *testing.T) {
	t.Parallel()
	r := models.Request{Model: "loop", MaxTokens: 7, Messages: modelstest.Question("go").Messages}
	a, err := server.open(t, nil).Stream(t.Context(), r, nil)
	require.NoError(t, err)
	assert.Equal(t, models.StopLength, a.Stop)
	assert.Equal(t, "Tick"+strings.Repeat(" tock", 6), modelstest.TextOf(a))
	assert.Equal(t, int64(7), a.Usage.Output)
}

func TestLlamaIsCut(t *testing.T) {
	t.Parallel()
	r := models.Request{Model: "markov", Messages: modelstest.Question("go").Messages}
	for tokens := 1; tokens <= 10; tokens++ {
		var heard strings.Builder
		_, err := server.open(t, map[string]string{"X-Cut": strconv.Itoa(tokens)}).Stream(t.Context(), r, func(d models.Delta) { heard.WriteString(d.Text) })
		var known *models.Error
		require.ErrorAs(t, err, &known)
		assert.Equal(t, models.Transport, known.Kind)
		assert.True(t, strings.HasPrefix(markov, heard.String()), heard.String())
	}
}

func TestLlamaRefusesALongRequest(t *testing.T) {
	t.Parallel()
	_, err := server.open(t, nil).Stream(t.Context(), modelstest.Question(strings.Repeat("very long ", 200)), nil)
	var known *models.Error
	require.ErrorAs(t, err, &known)
	assert.Equal(t, models.TooLong, known.Kind)
	assert.Contains(t, known.Message, "exceeds the available context size")
}

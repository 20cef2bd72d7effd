package main

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models/modelstest"
)

// A server with a root certificate of its own fails at the step tls, with a hint that helps.
func TestModelBehindItsOwnCertificate(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(modelstest.NewServer(t, answerAsTold))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	for ca, want := range map[string]struct {
		exit     int
		out, err string
	}{
		"":           {exitUnreachable, `✗ tls .*certificate`, "name its file in `ca` of the provider own"},
		", ca: ~/ca": {exitOK, `✓ tls +\S+  TLS 1\.3\n`, ""},
	} {
		p := newProbe(t)
		require.NoError(t, os.MkdirAll(filepath.Join(p.home, ".orch"), 0o700))
		for name, text := range map[string]string{
			"ca": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})), "key": modelstest.Key,
			".orch/config.yaml": "models: {providers: {own: {wire: gemini, url: '" + server.URL + "/v1beta', key: 'file:~/key'" + ca + "}}}",
		} {
			require.NoError(t, os.WriteFile(filepath.Join(p.home, name), []byte(text), 0o600))
		}
		assert.Equal(t, want.exit, p.run(t.Context(), []string{"models", "test", "own/x"}), ca)
		assert.Regexp(t, want.out, p.out.String())
		assert.Contains(t, p.err.String(), want.err)
	}
}

// play calls the hooks of a connection. err is the error of its TLS handshake.
func play(h *httptrace.ClientTrace, err error) {
	h.GetConn("models.example:443")
	h.DNSStart(httptrace.DNSStartInfo{})
	h.DNSDone(httptrace.DNSDoneInfo{Addrs: []net.IPAddr{{IP: net.IPv6loopback}, {IP: net.IPv4(127, 0, 0, 1)}}})
	h.ConnectStart("tcp", "[::1]:443")
	h.ConnectStart("tcp", "127.0.0.1:443")
	h.ConnectDone("tcp", "[::1]:443", errors.New("unreachable"))
	h.ConnectDone("tcp", "127.0.0.1:443", nil)
	h.TLSHandshakeStart()
	h.ConnectStart("tcp", "[::1]:443") // late
	h.ConnectDone("tcp", "[::1]:443", errors.New("unreachable"))
	h.TLSHandshakeDone(tls.ConnectionState{Version: tls.VersionTLS13}, err)
}

func TestModelSteps(t *testing.T) {
	t.Parallel()
	clock := noon
	s := &modelSteps{now: func() time.Time { clock = clock.Add(time.Second); return clock }}
	play(s.trace(), nil)
	s.trace().GotConn(httptrace.GotConnInfo{})
	s.trace().GotFirstResponseByte()
	s.end(stepAnswer, "ready")
	assert.Equal(t, []modelStep{
		{Name: stepResolve, Duration: time.Second, Detail: "::1, 127.0.0.1"},
		{Name: stepConnect, Duration: time.Second, Detail: "127.0.0.1:443"},
		{Name: stepTLS, Duration: time.Second, Detail: "TLS 1.3"},
		{Name: stepFirstByte, Duration: time.Second},
		{Name: stepAnswer, Duration: time.Second, Detail: "ready"},
	}, s.all())
}

func TestModelStepsThatFail(t *testing.T) {
	t.Parallel()
	s := &modelSteps{now: func() time.Time { return noon }}
	failed := errors.New("failed")
	s.trace().DNSStart(httptrace.DNSStartInfo{})
	s.trace().DNSDone(httptrace.DNSDoneInfo{Err: failed})
	assert.Equal(t, stepResolve, s.current())

	s = &modelSteps{now: func() time.Time { return noon }}
	play(s.trace(), failed)
	assert.Equal(t, stepTLS, s.current())
	e := fault.New(fault.NetworkError, "no")
	s.fail(e)
	all := s.all()
	assert.Equal(t, modelStep{Name: stepTLS, Error: e}, all[len(all)-1])
	assert.Equal(t, stepRequest, s.current(), "no step has begun")
}

func TestModelsAreCompleted(t *testing.T) {
	t.Parallel()
	p := newProbe(t)
	require.NoError(t, os.MkdirAll(filepath.Join(p.home, ".orch"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(p.home, ".orch/config.yaml"), []byte("models: {providers: {b: {wire: openai}, a: {wire: gemini}}}"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(p.dir, ".orch/models"), 0o700))
	p.write(t, ".orch/models/answers.yaml", "turns: []")
	require.Zero(t, p.run(t.Context(), []string{"__complete", "models", "test", ""}))
	assert.Equal(t, "a/\nb/\nscript:answers\n:6\n", p.out.String())
}

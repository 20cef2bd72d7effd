package realtime_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/realtime"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// script answers each connection with the next part. The last one remains open if it is a stream.
func script(t *testing.T, parts ...func(w http.ResponseWriter, r *http.Request)) string {
	t.Helper()
	var turn atomic.Int64
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := int(turn.Add(1))
		parts[min(n, len(parts))-1](w, r)
		if n >= len(parts) && w.Header().Get("Content-Type") == "text/event-stream" {
			<-r.Context().Done()
		}
	})
}

func says(t *testing.T, text string) func(http.ResponseWriter, *http.Request) {
	t.Helper()
	return func(w http.ResponseWriter, _ *http.Request) { say(t, w, text) }
}

func answers(t *testing.T, status int) func(http.ResponseWriter, *http.Request) {
	t.Helper()
	return func(w http.ResponseWriter, _ *http.Request) { reply(t, w, status, `{}`) }
}

// A broken stream is reopened. It starts with all data: only differences become events, and changes in between are a
// single write.
func TestReconnect(t *testing.T) {
	t.Parallel()
	url := script(t,
		says(t, put("/", `{"a":1,"b":1}`)+put("/a", `2`)),
		answers(t, http.StatusServiceUnavailable),
		says(t, "event: put\ndata: {\"path\":\"/\""), // ends in the middle of an event
		answers(t, http.StatusTooManyRequests),
		says(t, put("/", `{"a":2,"b":1}`)+"event: put\ndata: {broken\n\n"),
		says(t, put("/", `{"a":5,"c":1}`)+put("/c", `2`)),
	)
	whole := func(a, b, c any) map[string]any {
		all := map[string]any{}
		for key, value := range map[string]any{"a": a, "b": b, "c": c} {
			if value != nil {
				all[key] = value
			}
		}
		return all
	}
	l := listen(t, at(t, url), firebase.Value)
	assert.Equal(t, whole(1.0, 1.0, nil), l.initial)
	l.hears(whole(2.0, 1.0, nil), whole(5.0, nil, 1.0), whole(5.0, nil, 2.0))
}

// Errors that end a watch, and errors that do not.
func TestEnds(t *testing.T) {
	t.Parallel()
	first := put("/", `1`)
	for name, test := range map[string]struct {
		parts  []func(http.ResponseWriter, *http.Request)
		reason string
	}{
		"cancel":          {[]func(http.ResponseWriter, *http.Request){says(t, first+put("/", "2")+"event: cancel\ndata: null\n\n")}, refusal.PermissionDenied},
		"auth_revoked":    {[]func(http.ResponseWriter, *http.Request){says(t, first+put("/", "2")+"event: auth_revoked\ndata: \""+token+" has expired\"\n\n")}, refusal.PermissionDenied},
		"refused later":   {[]func(http.ResponseWriter, *http.Request){says(t, first+put("/", "2")), answers(t, http.StatusUnauthorized)}, refusal.PermissionDenied},
		"rules later":     {[]func(http.ResponseWriter, *http.Request){says(t, first+put("/", "2")), answers(t, http.StatusForbidden)}, refusal.PermissionDenied},
		"unusual framing": {[]func(http.ResponseWriter, *http.Request){says(t, ": hello\r\n\r\nid: 7\r\nevent:put\r\ndata:{\"path\":\"/\",\r\ndata:\"data\":1}\r\n\r\nevent: keep-alive\ndata: null\n\nevent: new\ndata: {}\n\n"+put("", "2")+"event: cancel\n\n")}, refusal.PermissionDenied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := listen(t, at(t, script(t, test.parts...)), firebase.Value)
			assert.InDelta(t, 1, l.initial, 0)
			l.hears(2.0)
			l.ends(test.reason)
		})
	}
}

// A watch does not start without a valid first event.
func TestNoBeginning(t *testing.T) {
	t.Parallel()
	for text, reason := range map[string]string{
		"event: cancel\ndata: null\n\n":                       refusal.PermissionDenied,
		"event: auth_revoked\ndata: \"expired\"\n\n":          refusal.PermissionDenied,
		"event: put\ndata: {\"path\":\"/\",\"data\":1}\n":     refusal.ConnectionError, // incomplete
		"event: put\ndata: 1\n\n":                             refusal.ConnectionError,
		"event: put\ndata: {\"data\":{\"a.b\":1}}\n\n":        refusal.ConnectionError,
		"event: patch\ndata: {\"path\":\"/\",\"data\":1}\n\n": refusal.ConnectionError,
	} {
		c := at(t, script(t, says(t, text)), func(cfg *realtime.Config) {
			if strings.HasSuffix(text, "1}\n") {
				cfg.Call = 200 * time.Millisecond
			}
		})
		_, err := c.Watch(t.Context(), "w", firebase.Value)
		refused(t, err, reason)
	}
	c := at(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { reply(t, w, http.StatusOK, `1`) }))
	_, err := c.Watch(t.Context(), "w", firebase.Value)
	refused(t, err, refusal.ConnectionError)
}

// A patch contains paths; children are reported in the order of the protocol.
func TestPatch(t *testing.T) {
	t.Parallel()
	url := script(t, says(t, put("/", `{"a":{"x":1,"y":2},"b":1}`)+
		"event: patch\ndata: {\"path\":\"/\",\"data\":{\"a/x\":5,\"c\":1,\"b\":null}}\n\n"+
		"event: patch\ndata: {\"path\":\"/a\",\"data\":{\"y\":null}}\n\n"))
	l := listen(t, at(t, url), firebase.Value)
	l.hears(map[string]any{"a": map[string]any{"x": 5.0, "y": 2.0}, "c": 1.0}, map[string]any{"a": map[string]any{"x": 5.0}, "c": 1.0})
}

// A stream that is silent for too long counts as broken, because the server sends a keep-alive every 30 seconds. The
// log records it, without the credential.
func TestSilence(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	url := script(t,
		func(w http.ResponseWriter, r *http.Request) {
			say(t, w, put("/", "1"))
			<-r.Context().Done()
		},
		says(t, put("/", "2")),
	)
	l := listen(t, at(t, url, func(cfg *realtime.Config) {
		cfg.Idle = time.Second
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	}), firebase.Value)
	l.hears(2.0)
	assert.Contains(t, log.String(), "firebase_stream_broken")
	assert.Contains(t, log.String(), "silent for too long")
	assert.NotContains(t, log.String(), "hunter2")
}

// google is a token server, and a database that accepts only the latest token.
type google struct {
	t      *testing.T
	mu     sync.Mutex
	tokens int
	status int
}

func (g *google) token(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.FormValue("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" || r.FormValue("assertion") == "" {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	if g.status != 0 {
		reply(g.t, w, g.status, `{"error":"invalid_grant","error_description":"hunter2"}`)
		return
	}
	g.tokens++
	reply(g.t, w, http.StatusOK, fmt.Sprintf(`{"access_token":"t%d","token_type":"Bearer","expires_in":3600}`, g.tokens))
}

func (g *google) knows(r *http.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return r.Header.Get("Authorization") == fmt.Sprintf("Bearer t%d", g.tokens) && r.URL.RawQuery == ""
}

// account returns the JSON key of a service account.
func account(t *testing.T, tokens string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	file, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "p", "private_key_id": "k", "private_key": string(text),
		"client_email": "a@p.iam.gserviceaccount.com", "token_uri": tokens,
	})
	require.NoError(t, err)
	return string(file)
}

// A service account requests tokens with its key: one for many calls, and a new one after revocation.
func TestServiceAccount(t *testing.T) {
	t.Parallel()
	g := &google{t: t}
	var streams atomic.Int64
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !g.knows(r):
			reply(t, w, http.StatusUnauthorized, `{"error":"who is that"}`)
		case r.Header.Get("Accept") != "text/event-stream":
			reply(t, w, http.StatusOK, `1`)
		case streams.Add(1) == 1:
			say(t, w, put("/", "1")+"event: auth_revoked\ndata: \"credential is no longer valid\"\n\n")
		default:
			say(t, w, put("/", "2"))
			<-r.Context().Done()
		}
	})
	c := at(t, url, func(cfg *realtime.Config) { cfg.Token = account(t, serve(t, g.token)) })
	var calls sync.WaitGroup
	for range 10 {
		calls.Go(func() {
			_, err := c.Read(t.Context(), "w", firebase.Query{})
			assert.NoError(t, err)
		})
	}
	calls.Wait()
	assert.Equal(t, 1, g.tokens)
	l := listen(t, c, firebase.Value)
	assert.InDelta(t, 1, l.initial, 0)
	l.hears(2.0)
	assert.Equal(t, 2, g.tokens)
}

func TestServiceAccountWithoutToken(t *testing.T) {
	t.Parallel()
	for status, reason := range map[int]string{
		http.StatusBadRequest: refusal.PermissionDenied, http.StatusUnauthorized: refusal.PermissionDenied, http.StatusBadGateway: refusal.ConnectionError,
	} {
		g := &google{t: t, status: status}
		c := at(t, "http://127.0.0.1:1", func(cfg *realtime.Config) { cfg.Token = account(t, serve(t, g.token)) })
		_, err := c.Read(t.Context(), "w", firebase.Query{})
		refused(t, err, reason)
		_, err = c.Write(t.Context(), "w", set(1.0))
		refused(t, err, reason)
		_, err = c.Watch(t.Context(), "w", firebase.Value)
		refused(t, err, reason)
	}
}

// Any bytes from a server lead to a tree within the limit, and an error with a reason.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		"", "\n\n", "event: put\n\n", "data: {}\n\n", put("/", `{"a":{"b":1},"c":[1,null,2]}`) + put("/a/b", `null`), put("//a//b", `1`),
		"event: patch\ndata: {\"path\":\"/a\",\"data\":{\"b/c\":1,\"/d\":null}}\n\n", put("/", `{".value":1,".priority":{}}`), put("/", `{".sv":"timestamp"}`),
		"event: cancel\ndata: null\n\n", "event: auth_revoked\ndata: x\n\n", ":\r\nevent\r\ndata\r\n\r\n", put("/$", `1`), put("/", strings.Repeat("[", 40)),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		c, err := realtime.Open(realtime.Config{URL: "http://127.0.0.1:1", MaxAnswer: 2048})
		require.NoError(t, err)
		root, revoked, err := c.ReadStream(bytes.NewReader(sent))
		require.LessOrEqual(t, root.Size(), 2048)
		if !revoked {
			require.Contains(t, []string{refusal.ConnectionError, refusal.PermissionDenied, refusal.QuotaExceeded}, fault.From(err).Reason)
		}
	})
}

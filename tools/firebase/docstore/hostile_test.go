package docstore_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/docstore"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// reach starts a server and returns a client of it.
func reach(t *testing.T, server firestorepb.FirestoreServer, cfg docstore.Config) *docstore.Client {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer()
	firestorepb.RegisterFirestoreServer(s, server)
	served := make(chan struct{})
	go func() {
		defer close(served)
		assert.NoError(t, s.Serve(l))
	}()
	t.Cleanup(func() { s.Stop(); <-served })
	cfg.Emulator, cfg.Project = l.Addr().String(), "p"
	c, err := docstore.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// flood is a server whose collection has no end.
type flood struct {
	firestorepb.UnimplementedFirestoreServer
}

func (flood) RunQuery(*firestorepb.RunQueryRequest, firestorepb.Firestore_RunQueryServer) error {
	return nil
}

func (flood) Listen(calls firestorepb.Firestore_ListenServer) error {
	_, err := calls.Recv()
	for n := int32(1); err == nil; n++ {
		news := has(strconv.Itoa(int(n)), n)
		news.GetDocumentChange().GetDocument().GetFields()["s"] = &firestorepb.Value{
			ValueType: &firestorepb.Value_StringValue{StringValue: strings.Repeat("s", 1024)},
		}
		err = calls.Send(news)
	}
	return err
}

// A collection that is too large to be watched is refused before all of it has come.
func TestListenToTooMuch(t *testing.T) {
	t.Parallel()
	c := reach(t, flood{}, docstore.Config{MaxAnswer: 1 << 20, Call: 5 * time.Second})
	_, err := c.Watch(t.Context(), "w", firebase.DocumentAdded)
	refused(t, err, refusal.QuotaExceeded)
}

// A server that counts wrong again and again is asked less and less often.
func TestListenCountsWrong(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	hears(t, &scripted{listen: []script{
		begins(counts(7)), begins(counts(7)), begins(has("c", 3), whole("t2")),
	}}, firebase.DocumentAdded, one, "c <nil> 3")
	assert.Greater(t, time.Since(begun), 1400*time.Millisecond)
}

// A version that no document has is no version that holds always.
func TestVersionWithoutTime(t *testing.T) {
	t.Parallel()
	c, err := docstore.Open(docstore.Config{Emulator: "127.0.0.1:1", Project: "p"})
	require.NoError(t, err)
	defer func() { assert.NoError(t, c.Close()) }()
	_, err = c.Write(t.Context(), "w/a", firebase.Write{Operation: firebase.Delete, If: "0001-01-01T00:00:00Z"})
	refused(t, err, refusal.Conflict)
}

// A call ends in its time while the server for access tokens is silent.
func TestTokensThatDoNotCome(t *testing.T) {
	t.Parallel()
	address, roots := serveTLS(t)
	release := make(chan struct{})
	tokens := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices only then that the client has gone
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(tokens.Close)
	t.Cleanup(func() { close(release) })
	c, err := docstore.OpenAt(docstore.Config{Net: netguard.Config{RootCAs: roots}, Credentials: key(t, tokens.URL), Call: 200 * time.Millisecond}, address)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	failed := make(chan error, 1)
	go func() {
		_, err := c.Read(t.Context(), "w/a", firebase.Query{})
		failed <- err
	}()
	select {
	case err := <-failed:
		refused(t, err, refusal.ConnectionError)
	case <-time.After(5 * time.Second):
		t.Error("a call outlives its time")
	}
}

// A token that cannot be sent is in no error.
func TestOddToken(t *testing.T) {
	t.Parallel()
	address, roots := serveTLS(t)
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(w, `{"access_token":"hunter2\nx","token_type":"Bearer","expires_in":3600}`)
		assert.NoError(t, err)
	}))
	t.Cleanup(tokens.Close)
	c, err := docstore.OpenAt(docstore.Config{Net: netguard.Config{RootCAs: roots}, Credentials: key(t, tokens.URL)}, address)
	require.NoError(t, err)
	defer func() { assert.NoError(t, c.Close()) }()
	_, err = c.Write(t.Context(), "w/a", firebase.Write{Operation: firebase.Delete})
	refused(t, err, refusal.ConnectionError)
	assert.NotContains(t, err.Error(), "hunter2")
}

// ending is a server that says when a call to listen has ended.
type ending struct {
	*scripted
	ended chan struct{}
}

func (e ending) Listen(calls firestorepb.Firestore_ListenServer) error {
	defer close(e.ended)
	return e.scripted.Listen(calls)
}

// The call of a watch ends when its reader stops.
func TestReaderThatStops(t *testing.T) {
	t.Parallel()
	server := ending{&scripted{t: t, listen: []script{begins(has("c", 3), whole("t2"))}}, make(chan struct{})}
	w, err := reach(t, server, docstore.Config{}).Watch(t.Context(), "w", firebase.DocumentAdded)
	require.NoError(t, err)
	for _, err := range w.Events {
		require.NoError(t, err)
		break
	}
	<-server.ended
}

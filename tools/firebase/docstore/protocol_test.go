package docstore_test

import (
	"context"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/option"
	"google.golang.org/genproto/googleapis/type/latlng"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/docstore"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// failing is a server that answers every call with the same error.
type failing struct {
	firestorepb.UnimplementedFirestoreServer
	err error
}

func (f failing) Commit(context.Context, *firestorepb.CommitRequest) (*firestorepb.CommitResponse, error) {
	return nil, f.err
}

func (f failing) BatchGetDocuments(*firestorepb.BatchGetDocumentsRequest, firestorepb.Firestore_BatchGetDocumentsServer) error {
	return f.err
}

func (f failing) RunQuery(*firestorepb.RunQueryRequest, firestorepb.Firestore_RunQueryServer) error {
	return f.err
}

// serve starts a failing server and returns a client for it.
func serve(t *testing.T, err error) *docstore.Client {
	t.Helper()
	l, failure := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, failure)
	s := grpc.NewServer()
	firestorepb.RegisterFirestoreServer(s, failing{err: err})
	served := make(chan struct{})
	go func() {
		defer close(served)
		assert.NoError(t, s.Serve(l))
	}()
	t.Cleanup(func() { s.Stop(); <-served })
	c, failure := docstore.Open(docstore.Config{Emulator: l.Addr().String(), Project: "p", Call: 5 * time.Second})
	require.NoError(t, failure)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

func refused(t *testing.T, err error, reason string) {
	t.Helper()
	require.Error(t, err)
	e := fault.From(err)
	assert.Equal(t, reason, e.Reason, "%v", err)
	assert.Equal(t, refusal.Code(reason), e.Code)
	assert.NotContains(t, e.Message, "\x1b")
}

// Responses of the server, as the names of the S3 rules (S3-025, S3-035).
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		code    codes.Code
		message string
		// the reasons of a read of a document, of a query, of a write
		read, query, write string
	}{
		"rules":         {codes.PermissionDenied, "Missing or insufficient permissions.", refusal.PermissionDenied, refusal.PermissionDenied, refusal.PermissionDenied},
		"no account":    {codes.Unauthenticated, "", refusal.PermissionDenied, refusal.PermissionDenied, refusal.PermissionDenied},
		"too large":     {codes.InvalidArgument, "Document exceeds the maximum allowed size of 1,048,576 bytes", refusal.ValidationError, refusal.ValidationError, refusal.SizeLimitExceeded},
		"invalid":       {codes.InvalidArgument, "Cannot do that", refusal.ValidationError, refusal.ValidationError, refusal.ValidationError},
		"no index":      {codes.FailedPrecondition, "The query requires an index.", refusal.ValidationError, refusal.ValidationError, refusal.Conflict},
		"contention":    {codes.Aborted, "Too much contention", refusal.ConnectionError, refusal.ConnectionError, refusal.Conflict},
		"no database":   {codes.NotFound, "The database (default) does not exist", refusal.ConnectionError, refusal.ConnectionError, refusal.ConnectionError},
		"lost":          {codes.DataLoss, "\x1b[31mgone\n", refusal.ConnectionError, refusal.ConnectionError, refusal.ConnectionError},
		"unimplemented": {codes.Unimplemented, "", refusal.ConnectionError, refusal.ConnectionError, refusal.ConnectionError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, status.Error(test.code, test.message))
			_, err := c.Read(t.Context(), "w/a", firebase.Query{})
			refused(t, err, test.read)
			_, err = c.Read(t.Context(), "w", firebase.Query{OrderBy: "n"})
			refused(t, err, test.query)
			_, err = c.Write(t.Context(), "w/a", firebase.Write{Operation: firebase.Set, Data: map[string]any{}})
			refused(t, err, test.write)
			_, err = c.Watch(t.Context(), "w", firebase.DocumentAdded)
			require.Error(t, err)
		})
	}
}

// Reads are retried while a server is unavailable; a write is sent once.
func TestServerThatIsAway(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	c, err := docstore.Open(docstore.Config{Emulator: l.Addr().String(), Project: "p", Call: 500 * time.Millisecond})
	require.NoError(t, err)
	defer func() { assert.NoError(t, c.Close()) }()
	_, err = c.Read(t.Context(), "w/a", firebase.Query{})
	refused(t, err, refusal.ConnectionError)
	_, err = c.Read(t.Context(), "w", firebase.Query{})
	refused(t, err, refusal.ConnectionError)
	_, err = c.Write(t.Context(), "w/a", firebase.Write{Operation: firebase.Set, Data: map[string]any{}})
	refused(t, err, refusal.ConnectionError)
	_, err = c.Watch(t.Context(), "w/a", firebase.Value)
	refused(t, err, refusal.ConnectionError)
	_, err = serve(t, status.Error(codes.ResourceExhausted, "Quota exceeded.")).Write(t.Context(), "w/a", firebase.Write{Operation: firebase.Delete})
	refused(t, err, refusal.QuotaExceeded)
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for field, cfg := range map[string]docstore.Config{
		"firestore_credentials": {Project: "p"},
		"firestore_project":     {Emulator: "127.0.0.1:1"},
		"firestore_emulator":    {Emulator: "nowhere", Project: "p"},
	} {
		_, err := docstore.Open(cfg)
		require.Error(t, err)
		assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
		assert.Equal(t, field, fault.From(err).Field)
	}
	_, err := docstore.Open(docstore.Config{Credentials: `{"type":"hunter2"}`, Project: "p"})
	require.Error(t, err)
	assert.Equal(t, "firestore_credentials", fault.From(err).Field)
	assert.NotContains(t, err.Error(), "hunter2")
}

// Stored values that JSON lacks are read in the form of the REST protocol.
func TestForeignTypes(t *testing.T) {
	t.Parallel()
	var cfg docstore.Config
	c := open(t, func(given *docstore.Config) { cfg = *given })
	conn, err := grpc.NewClient("passthrough:///"+cfg.Emulator, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	other, err := firestore.NewClient(t.Context(), cfg.Project, option.WithGRPCConn(conn))
	require.NoError(t, err)
	defer func() { assert.NoError(t, other.Close()) }()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	_, err = other.Doc("w/a").Set(t.Context(), map[string]any{
		"at": at, "bytes": []byte("abc"), "place": &latlng.LatLng{Latitude: 1.5, Longitude: -2}, "ref": other.Doc("w/b"), "int": 7,
		"nan": math.NaN(), "inf": math.Inf(-1), "list": []any{1, at}, "vector": firestore.Vector64{1, 2.5},
	})
	require.NoError(t, err)
	s, err := c.Read(t.Context(), "w/a", firebase.Query{})
	require.NoError(t, err)
	assert.Equal(t, map[string]any{
		"at": "2026-01-02T03:04:05.000006Z", "bytes": "YWJj", "place": map[string]any{"latitude": 1.5, "longitude": -2.0},
		"ref": other.Doc("w/b").Path, "int": 7.0, "nan": "NaN", "inf": "-Inf",
		"list": []any{1.0, "2026-01-02T03:04:05.000006Z"}, "vector": []any{1.0, 2.5},
	}, s.Data)
}

// Data beyond the limit is neither read nor watched.
func TestHugeAnswers(t *testing.T) {
	t.Parallel()
	c := open(t, func(cfg *docstore.Config) { cfg.MaxAnswer = 4096 })
	put := func(path string) error {
		_, err := c.Write(t.Context(), path, firebase.Write{Operation: firebase.Set, Data: map[string]any{"s": strings.Repeat("s", 2048)}})
		return err
	}
	require.NoError(t, put("w/a"))
	w, err := c.Watch(t.Context(), "w", firebase.DocumentAdded)
	require.NoError(t, err)
	// The emulator stores the document, but may fail to say so: the watch that it tells of it has just been cancelled.
	if err := put("w/b"); err != nil {
		require.ErrorContains(t, err, "call already cancelled")
	}
	var last error
	for _, err := range w.Events {
		last = err
	}
	refused(t, last, refusal.QuotaExceeded)
	_, err = c.Read(t.Context(), "w", firebase.Query{})
	refused(t, err, refusal.QuotaExceeded)
	_, err = c.Watch(t.Context(), "w", firebase.DocumentAdded)
	refused(t, err, refusal.QuotaExceeded)
}

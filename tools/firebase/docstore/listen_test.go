package docstore_test

import (
	"context"
	"fmt"
	"iter"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/docstore"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

const documents = "projects/p/databases/(default)/documents/"

// sayer sends answers.
type sayer func(...*firestorepb.ListenResponse)

// script answers a call to listen.
type script func(t assert.TestingT, from *firestorepb.Target, say sayer) error

// scripted is a server whose calls go by a script. Reads that have none find nothing.
type scripted struct {
	firestorepb.UnimplementedFirestoreServer
	calls  atomic.Int32
	reads  func(call int32) error
	commit func(call int32) error
	// listen answers the calls to listen, of which the last one stays open.
	listen []script
	t      *testing.T
}

func (s *scripted) BatchGetDocuments(r *firestorepb.BatchGetDocumentsRequest, answers firestorepb.Firestore_BatchGetDocumentsServer) error {
	if s.reads != nil {
		if err := s.reads(s.calls.Add(1)); err != nil {
			return err
		}
	}
	return answers.Send(&firestorepb.BatchGetDocumentsResponse{Result: &firestorepb.BatchGetDocumentsResponse_Missing{Missing: r.GetDocuments()[0]}})
}

func (s *scripted) RunQuery(_ *firestorepb.RunQueryRequest, answers firestorepb.Firestore_RunQueryServer) error {
	if s.reads == nil {
		return nil
	}
	call := s.calls.Add(1)
	err := answers.Send(&firestorepb.RunQueryResponse{Document: written("a", call)}) // a part of the answer may come before a failure
	if err != nil {
		return err
	}
	return s.reads(call)
}

func (s *scripted) Commit(context.Context, *firestorepb.CommitRequest) (*firestorepb.CommitResponse, error) {
	return nil, s.commit(s.calls.Add(1))
}

func (s *scripted) Listen(calls firestorepb.Firestore_ListenServer) error {
	r, err := calls.Recv()
	if err != nil {
		return err
	}
	call := int(s.calls.Add(1))
	if !assert.LessOrEqual(s.t, call, len(s.listen), "a call without a script") {
		return status.Error(codes.PermissionDenied, "enough")
	}
	err = s.listen[call-1](s.t, r.GetAddTarget(), func(all ...*firestorepb.ListenResponse) {
		for _, news := range all {
			assert.NoError(s.t, calls.Send(news))
		}
	})
	if err == nil && call == len(s.listen) {
		<-calls.Context().Done()
	}
	return err
}

// client starts the server and returns a client of it.
func (s *scripted) client(t *testing.T) *docstore.Client {
	t.Helper()
	s.t = t
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	firestorepb.RegisterFirestoreServer(server, s)
	served := make(chan struct{})
	go func() {
		defer close(served)
		assert.NoError(t, server.Serve(l))
	}()
	t.Cleanup(func() { server.Stop(); <-served })
	c, err := docstore.Open(docstore.Config{Emulator: l.Addr().String(), Project: "p", Call: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// written is a document of the collection w as its nth write left it.
func written(id string, n int32) *firestorepb.Document {
	return &firestorepb.Document{
		Name: documents + "w/" + id, UpdateTime: timestamppb.New(time.Unix(int64(n), 0)),
		Fields: map[string]*firestorepb.Value{"n": {ValueType: &firestorepb.Value_IntegerValue{IntegerValue: int64(n)}}},
	}
}

func has(id string, n int32) *firestorepb.ListenResponse {
	return &firestorepb.ListenResponse{ResponseType: &firestorepb.ListenResponse_DocumentChange{
		DocumentChange: &firestorepb.DocumentChange{Document: written(id, n), TargetIds: []int32{1}},
	}}
}

func lacks(id string) *firestorepb.ListenResponse {
	return &firestorepb.ListenResponse{ResponseType: &firestorepb.ListenResponse_DocumentDelete{DocumentDelete: &firestorepb.DocumentDelete{Document: documents + "w/" + id}}}
}

func counts(n int32) *firestorepb.ListenResponse {
	return &firestorepb.ListenResponse{ResponseType: &firestorepb.ListenResponse_Filter{Filter: &firestorepb.ExistenceFilter{TargetId: 1, Count: n}}}
}

func turns(c *firestorepb.TargetChange) *firestorepb.ListenResponse {
	return &firestorepb.ListenResponse{ResponseType: &firestorepb.ListenResponse_TargetChange{TargetChange: c}}
}

func target(kind firestorepb.TargetChange_TargetChangeType) *firestorepb.ListenResponse {
	return turns(&firestorepb.TargetChange{TargetChangeType: kind, TargetIds: []int32{1}})
}

// whole says that the state is whole, and with which token listening goes on from there.
func whole(token string) *firestorepb.ListenResponse {
	return turns(&firestorepb.TargetChange{ReadTime: timestamppb.New(time.Unix(5, 0)), ResumeToken: []byte(token)})
}

const (
	added   = firestorepb.TargetChange_ADD
	current = firestorepb.TargetChange_CURRENT
	reset   = firestorepb.TargetChange_RESET
	removed = firestorepb.TargetChange_REMOVE
)

// hears fails the test unless the watch of documents in the collection w hears the events, each as "id before now".
func hears(t *testing.T, s *scripted, kind firebase.EventType, initial any, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w, err := s.client(t).Watch(ctx, "w", kind)
	require.NoError(t, err)
	assert.Equal(t, initial, w.Initial.Data)
	next, stop := iter.Pull2(w.Events)
	defer stop()
	n := func(data any) any {
		fields, _ := data.(map[string]any)
		return fields["n"]
	}
	for _, text := range want {
		e, err, ok := next()
		require.True(t, ok)
		require.NoError(t, err)
		assert.Equal(t, text, fmt.Sprintf("%s %v %v", e.Key, n(e.Previous), n(e.Data)))
		assert.Equal(t, int64(5), e.At.Unix())
	}
}

var one = map[string]any{"a": map[string]any{"n": 1.0}, "b": map[string]any{"n": 2.0}}

// begins tells two documents.
func begins(then ...*firestorepb.ListenResponse) script {
	return func(t assert.TestingT, from *firestorepb.Target, say sayer) error {
		assert.Equal(t, documents[:len(documents)-1], from.GetQuery().GetParent())
		assert.Equal(t, "w", from.GetQuery().GetStructuredQuery().GetFrom()[0].GetCollectionId())
		assert.Empty(t, from.GetResumeToken())
		say(target(added), has("b", 2), has("a", 1), target(current), whole("t1"))
		say(then...)
		return nil
	}
}

// breaks is a call that ends with an error.
func breaks(call script, code codes.Code) script {
	return func(t assert.TestingT, from *firestorepb.Target, say sayer) error {
		if err := call(t, from, say); err != nil || code == codes.OK {
			return err
		}
		return status.Error(code, "broken")
	}
}

// A call that ends is made again where it ended; what it had half told is told once.
func TestListenGoesOn(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{
		codes.OK, codes.Unknown, codes.DeadlineExceeded, codes.Internal, codes.Unavailable, codes.Unauthenticated,
	} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			hears(t, &scripted{listen: []script{
				breaks(begins(has("a", 3), lacks("b")), code),
				func(t assert.TestingT, from *firestorepb.Target, say sayer) error {
					assert.Equal(t, "t1", string(from.GetResumeToken()))
					say(target(added), whole("early"), has("a", 4), has("b", 2), target(current), whole("t2"), has("b", 5), whole("t3"))
					return nil
				},
			}}, firebase.DocumentModified, one, "a 1 4", "b 2 5")
		})
	}
}

// A message that cannot be decoded fails the call, which is made again where it was. The emulator sends such messages: under
// load it writes two at once, so that the second header is inside the first message.
func TestListenToMalformedMessage(t *testing.T) {
	t.Parallel()
	malformed := has("b", 7)
	malformed.ProtoReflect().SetUnknown([]byte{0, 0, 0, 0, 100})
	hears(t, &scripted{listen: []script{
		begins(has("a", 3), malformed),
		func(t assert.TestingT, from *firestorepb.Target, say sayer) error {
			assert.Equal(t, "t1", string(from.GetResumeToken()))
			say(target(added), has("a", 4), has("b", 5), target(current), whole("t2"))
			return nil
		},
	}}, firebase.DocumentModified, one, "a 1 4", "b 2 5")
}

// A call that begins anew tells everything; what it does not tell is gone.
func TestListenBeginsAnew(t *testing.T) {
	t.Parallel()
	anew := func(t assert.TestingT, from *firestorepb.Target, say sayer) error {
		assert.Empty(t, from.GetResumeToken())
		say(target(added), whole("early"), has("b", 2), has("c", 3), target(current), whole("t2"))
		return nil
	}
	for name, calls := range map[string][]script{
		"reset":           {begins(target(reset), has("b", 2), has("c", 3), target(current), whole("t2"))},
		"wrong count":     {begins(counts(7)), anew},
		"no token":        {breaks(begins(whole("")), codes.Unavailable), anew},
		"broken in reset": {breaks(begins(target(reset), has("b", 2)), codes.Unavailable), anew},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hears(t, &scripted{listen: calls}, firebase.DocumentDeleted, one, "a 1 1")
			hears(t, &scripted{listen: calls}, firebase.DocumentAdded, one, "c <nil> 3")
		})
	}
}

// The server counts what it has told, also what is not whole yet.
func TestListenCounts(t *testing.T) {
	t.Parallel()
	hears(t, &scripted{listen: []script{
		begins(counts(2), has("b", 9), counts(2), has("c", 3), counts(3), lacks("a"), counts(2), lacks("never"), counts(2), has("c", 4), whole("t2")),
	}}, firebase.DocumentAdded, one, "c <nil> 4")
}

// A write that changed nothing is no event.
func TestListenToNothingNew(t *testing.T) {
	t.Parallel()
	hears(t, &scripted{listen: []script{
		begins(has("a", 1), whole("t2"), lacks("c"), whole("t3"), has("b", 3), whole("t4")),
	}}, firebase.DocumentModified, one, "b 2 3")
}

// What cannot be listened to any more says why.
func TestListenEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		call   script
		reason string
	}{
		"status":  {breaks(begins(), codes.PermissionDenied), refusal.PermissionDenied},
		"query":   {breaks(begins(), codes.FailedPrecondition), refusal.ValidationError},
		"removed": {begins(target(removed)), refusal.ConnectionError},
		"reason": {begins(turns(&firestorepb.TargetChange{
			TargetChangeType: removed, TargetIds: []int32{1}, Cause: &rpc.Status{Code: int32(codes.PermissionDenied), Message: "no"},
		})), refusal.PermissionDenied},
		"another target": {begins(turns(&firestorepb.TargetChange{TargetChangeType: added, TargetIds: []int32{2}})), refusal.ConnectionError},
		"unknown turn":   {begins(turns(&firestorepb.TargetChange{TargetChangeType: 42})), refusal.ConnectionError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &scripted{listen: []script{test.call}}
			w, err := s.client(t).Watch(t.Context(), "w", firebase.DocumentAdded)
			require.NoError(t, err)
			var last error
			for _, err := range w.Events {
				last = err
			}
			refused(t, last, test.reason)
		})
	}
}

// The end of the client is that of its watches.
func TestCloseEndsWatches(t *testing.T) {
	t.Parallel()
	c := (&scripted{listen: []script{begins()}}).client(t)
	w, err := c.Watch(t.Context(), "w", firebase.DocumentAdded)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	var last error
	for _, err := range w.Events {
		last = err
	}
	refused(t, last, refusal.ConnectionError)
}

// A read is repeated while the server fails in a way that passes, up to five times. A write is sent once.
func TestRepeats(t *testing.T) {
	t.Parallel()
	failing := func(code codes.Code, calls int32) func(int32) error {
		return func(call int32) error {
			if call <= calls {
				return status.Error(code, "broken")
			}
			return nil
		}
	}
	for _, code := range []codes.Code{codes.Unavailable, codes.Internal, codes.DeadlineExceeded} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			s := &scripted{reads: failing(code, 2)}
			got, err := s.client(t).Read(t.Context(), "w/a", firebase.Query{})
			require.NoError(t, err)
			assert.False(t, got.Exists)
			assert.Equal(t, int32(3), s.calls.Load())

			s = &scripted{reads: failing(code, 2)}
			got, err = s.client(t).Read(t.Context(), "w", firebase.Query{})
			require.NoError(t, err)
			assert.Equal(t, map[string]any{"a": map[string]any{"n": 3.0}}, got.Data, "the parts before are forgotten")

			s = &scripted{reads: failing(code, 99)}
			_, err = s.client(t).Read(t.Context(), "w/a", firebase.Query{})
			refused(t, err, refusal.ConnectionError)
			require.ErrorContains(t, err, "broken")
			assert.Equal(t, int32(5), s.calls.Load())

			s = &scripted{commit: failing(code, 99)}
			_, err = s.client(t).Write(t.Context(), "w/a", firebase.Write{Operation: firebase.Delete})
			refused(t, err, refusal.ConnectionError)
			assert.Equal(t, int32(1), s.calls.Load())
		})
	}
	s := &scripted{reads: failing(codes.ResourceExhausted, 99)}
	_, err := s.client(t).Read(t.Context(), "w/a", firebase.Query{})
	refused(t, err, refusal.QuotaExceeded)
	assert.Equal(t, int32(1), s.calls.Load())
}

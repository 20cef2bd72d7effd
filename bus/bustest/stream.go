package bustest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// Stream is a stream on a server that is not one of orch.
type Stream struct {
	js  jetstream.JetStream
	cfg jetstream.StreamConfig
}

// NewStream connects to a server until the test ends, and makes a stream of the subjects.
func NewStream(t *testing.T, url, name string, subjects ...string) *Stream {
	t.Helper()
	return newStream(t, url, jetstream.StreamConfig{Name: name, Subjects: subjects})
}

// NewWorkQueue is NewStream for a stream that removes acknowledged messages.
func NewWorkQueue(t *testing.T, url, name string, subjects ...string) *Stream {
	t.Helper()
	return newStream(t, url, jetstream.StreamConfig{Name: name, Subjects: subjects, Retention: jetstream.WorkQueuePolicy})
}

func newStream(t *testing.T, url string, cfg jetstream.StreamConfig) *Stream {
	t.Helper()
	nc, err := ConnectPlain(url)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	s := &Stream{js, cfg}
	s.Make(t)
	return s
}

// Make makes the stream, empty.
func (s *Stream) Make(t *testing.T) {
	t.Helper()
	_, err := s.js.CreateStream(t.Context(), s.cfg)
	require.NoError(t, err)
}

// Delete removes the stream.
func (s *Stream) Delete(t *testing.T) {
	t.Helper()
	require.NoError(t, s.js.DeleteStream(t.Context(), s.cfg.Name))
}

// Publish publishes a message with headers, as names and values in turns, and returns its position.
func (s *Stream) Publish(t *testing.T, subject, body string, headers ...string) uint64 {
	t.Helper()
	position, err := s.TryPublish(t.Context(), subject, body, headers...)
	require.NoError(t, err)
	return position
}

// TryPublish is Publish outside the goroutine of a test.
func (s *Stream) TryPublish(ctx context.Context, subject, body string, headers ...string) (uint64, error) {
	m := nats.NewMsg(subject)
	m.Data = []byte(body)
	for i := 0; i+1 < len(headers); i += 2 {
		m.Header[headers[i]] = []string{headers[i+1]}
	}
	ctx, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	ack, err := s.js.PublishMsg(ctx, m)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// Consumers returns the names of the consumers of the stream.
func (s *Stream) Consumers(t *testing.T) (names []string) {
	t.Helper()
	stream, err := s.js.Stream(t.Context(), s.cfg.Name)
	require.NoError(t, err)
	list := stream.ConsumerNames(t.Context())
	for name := range list.Name() {
		names = append(names, name)
	}
	require.NoError(t, list.Err())
	return names
}

// Left returns the number of messages in the stream.
func (s *Stream) Left(t *testing.T) uint64 {
	t.Helper()
	stream, err := s.js.Stream(t.Context(), s.cfg.Name)
	require.NoError(t, err)
	return stream.CachedInfo().State.Msgs
}

// DocumentedPermissions returns the configuration of a NATS server with the permissions that docs/reference/nats-permissions.md has for the
// user of orch, as ORCH_PERMISSIONS. root is the root of the repository.
func DocumentedPermissions(t *testing.T, root string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "reference", "nats-permissions.md"))
	require.NoError(t, err)
	_, text, found := strings.Cut(string(page), "```conf\n")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "```")
	require.Contains(t, text, "ORCH_PERMISSIONS {")
	return text
}

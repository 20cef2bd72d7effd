package bus

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
)

const (
	// pieceSize is the size of the pieces of a snapshot, windowSize the maximum in flight, both in bytes.
	pieceSize  = 512 << 10
	windowSize = 8 << 20
	// pieceWithin is how long the next piece may take. The server may be busy: it copies a whole block under a lock.
	pieceWithin = time.Minute
	// knownWithin is how long the servers of a cluster may take to tell each other which of them receives the pieces of a restore.
	knownWithin = 5 * time.Second
)

// snapshotRequest and snapshotReply are messages of the server's snapshot API. The client library has no function for it.
type snapshotRequest struct {
	DeliverSubject string `json:"deliver_subject"`
	NoConsumers    bool   `json:"no_consumers"`
	ChunkSize      int    `json:"chunk_size"`
	WindowSize     int    `json:"window_size"`
}

type snapshotReply struct {
	Error  *apiError       `json:"error"`
	Config json.RawMessage `json:"config"`
	State  struct {
		Bytes uint64 `json:"bytes"`
	} `json:"state"`
}

// snapshot calls use with the pieces of a snapshot of a stream, and returns the configuration of the stream. The snapshot
// is a compressed archive, in the server's format, of all current messages with their positions. size is an estimate of
// the size of the stream in bytes.
func (c *Conn) snapshot(ctx context.Context, stream string, use func(piece []byte, size uint64) error) (json.RawMessage, error) {
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, snapshotFault(stream, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // only fails on a closed connection
	var reply snapshotReply
	err = c.request(ctx, "$JS.API.STREAM.SNAPSHOT."+stream, snapshotRequest{inbox, true, pieceSize, windowSize}, &reply)
	if err == nil && reply.Error != nil {
		err = errors.New(reply.Error.Description)
	}
	if err != nil {
		return nil, snapshotFault(stream, err)
	}
	for {
		m, err := nextPiece(ctx, sub)
		if err != nil {
			return nil, snapshotFault(stream, err)
		}
		if len(m.Data) == 0 {
			return reply.Config, endOfSnapshot(stream, m)
		}
		if err := use(m.Data, reply.State.Bytes); err != nil {
			return nil, err
		}
		if m.Reply == "" {
			continue
		}
		if err := c.nc.Publish(m.Reply, nil); err != nil {
			return nil, snapshotFault(stream, err)
		}
	}
}

// request sends a request of the server's JSON API and decodes the reply.
func (c *Conn) request(ctx context.Context, subject string, request, reply any) error {
	ctx, cancel := context.WithTimeout(ctx, pieceWithin)
	defer cancel()
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	m, err := c.nc.RequestWithContext(ctx, subject, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(m.Data, reply)
}

func nextPiece(ctx context.Context, sub *nats.Subscription) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, pieceWithin)
	defer cancel()
	return sub.NextMsgWithContext(ctx)
}

// endOfSnapshot returns the error in the last message of a snapshot, or nil.
func endOfSnapshot(stream string, m *nats.Msg) error {
	if status := m.Header.Get("Status"); status != "" && status != "204" {
		return snapshotFault(stream, errors.New(status+" "+m.Header.Get("Description")))
	}
	return nil
}

func snapshotFault(stream string, err error) error {
	if errors.Is(err, context.Canceled) {
		return fault.From(err)
	}
	return fault.Wrap(fault.Unavailable, err, "the stream "+stream+" cannot be copied now").
		WithHint("try again; the log of the server names the cause")
}

type restoreRequest struct {
	Config jetstream.StreamConfig `json:"config"`
}

type restoreReply struct {
	Error          *apiError `json:"error"`
	DeliverSubject string    `json:"deliver_subject"`
}

type apiError struct {
	Description string `json:"description"`
}

// restoreStream creates a stream from a snapshot, on a server that does not have it.
func (c *Conn) restoreStream(ctx context.Context, stream string, config json.RawMessage, data io.Reader) error {
	request := restoreRequest{}
	if err := json.Unmarshal(config, &request.Config); err != nil {
		return damagedBackup(err)
	}
	request.Config.MaxBytes, request.Config.Replicas = -1, 1 // OpenStore sets the values for this server
	var reply restoreReply
	if err := c.request(ctx, "$JS.API.STREAM.RESTORE."+stream, request, &reply); err != nil {
		return restoreStreamFault(stream, err)
	}
	if reply.Error != nil {
		return restoreStreamFault(stream, errors.New(reply.Error.Description))
	}
	piece := make([]byte, pieceSize)
	for {
		n, err := io.ReadFull(data, piece)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		if err := c.sendPiece(ctx, reply.DeliverSubject, piece[:n]); err != nil {
			return restoreStreamFault(stream, err)
		}
		if n == 0 {
			return nil
		}
	}
}

// sendPiece sends one piece and waits for its acknowledgement. An empty piece ends the snapshot.
func (c *Conn) sendPiece(ctx context.Context, subject string, piece []byte) error {
	ctx, cancel := context.WithTimeout(ctx, pieceWithin)
	defer cancel()
	m, err := c.nc.RequestWithContext(ctx, subject, piece)
	for since := time.Now(); errors.Is(err, nats.ErrNoResponders) && time.Since(since) < knownWithin; {
		if err := pause.For(ctx, 50*time.Millisecond); err != nil {
			return err
		}
		m, err = c.nc.RequestWithContext(ctx, subject, piece)
	}
	if err != nil || len(m.Data) == 0 {
		return err
	}
	var reply restoreReply
	if err := json.Unmarshal(m.Data, &reply); err != nil {
		return err
	}
	if reply.Error != nil {
		return errors.New(reply.Error.Description)
	}
	return nil
}

func restoreStreamFault(stream string, err error) error {
	if errors.Is(err, context.Canceled) {
		return fault.From(err)
	}
	return fault.Wrap(fault.Unavailable, err, "the stream "+stream+" cannot be restored").
		WithHint("check the space of the disk; the log of the server names the cause")
}

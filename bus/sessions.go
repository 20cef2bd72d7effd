package bus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/fault"
)

const (
	// sessionTTL is how long the record of a session is stored after its last change.
	sessionTTL = 7 * 24 * time.Hour
	// sessionRecord is the maximum size of a record in bytes, sessionBytes that of all records.
	sessionRecord = 64 << 10
	sessionBytes  = 64 << 20
)

// SaveSession stores the state, at most 64 KiB, from which a session of an MCP client can be reopened. The state expires after
// seven days. It survives the death of every process; a power loss may lose the newest states. Errors: VALIDATION_ERROR if
// the state is too large, QUOTA_EXCEEDED, DISK_FULL, UNAVAILABLE.
func (sd *sideStore) SaveSession(ctx context.Context, id string, data []byte) error {
	if len(data) > sessionRecord {
		return fault.New(fault.ValidationError, "the record of the session has %d bytes, the limit is %d", len(data), sessionRecord)
	}
	if err := sd.space.checkRoom(len(data), time.Now()); err != nil {
		return err
	}
	if err := sd.roomForSession(ctx); err != nil {
		return err
	}
	m := &nats.Msg{
		Subject: kvSubject(sessionsBucket, hashed(id)), Data: data, Header: nats.Header{headHeader: {"session"}},
	}
	if _, err := sd.conn.js.PublishMsg(ctx, m); err != nil {
		return sideFault(err, "the session cannot be stored")
	}
	return nil
}

// roomForSession returns QUOTA_EXCEEDED if the sessions have reached their maximum total size. The bucket itself has no
// limit, because the server would reserve the space for it.
func (sd *sideStore) roomForSession(ctx context.Context) error {
	status, err := sd.sessions.Status(ctx)
	if err != nil {
		return sideFault(err, "the session cannot be stored")
	}
	if status.Bytes() >= sessionBytes {
		return fault.New(fault.QuotaExceeded, "the sessions of MCP clients take up %d bytes, the limit is %d", status.Bytes(), sessionBytes).
			WithHint("a session is forgotten seven days after its last change")
	}
	return nil
}

// LoadSession returns the last saved state, or nil for an unknown or invalid id.
func (sd *sideStore) LoadSession(ctx context.Context, id string) ([]byte, error) {
	e, err := sd.sessions.Get(ctx, hashed(id))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, sideFault(err, "the session cannot be read")
	}
	return e.Value(), nil
}

// DeleteSession deletes a session. It returns nil for a missing session.
func (sd *sideStore) DeleteSession(ctx context.Context, id string) error {
	if err := sd.sessions.Purge(ctx, hashed(id)); err != nil {
		return sideFault(err, "the session cannot be deleted")
	}
	return nil
}

// hashed returns the digest of an id, in hex. It is a valid part of a subject whatever the client has sent, and the store
// does not contain the id itself.
func hashed(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

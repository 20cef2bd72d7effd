package bus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
)

const refPrefix = "sha256-"

// Put implements events.Blobs. Equal data is stored once.
func (sd *sideStore) Put(ctx context.Context, data []byte) (string, error) {
	ref := digest(data)
	info, err := sd.blobs.GetInfo(ctx, ref)
	if err == nil && info.Size == uint64(len(data)) {
		return ref, sd.settle(blobsStream) // a concurrent call may have stored the value, not yet durably
	}
	if err := sd.space.checkRoom(len(data), time.Now()); err != nil {
		return "", err
	}
	defer sd.touched.Store(true)
	if err := sd.putObject(ctx, object{bucket: blobsBucket, name: ref}, data); err != nil {
		return "", sideFault(err, "the value cannot be stored")
	}
	return ref, sd.settle(blobsStream)
}

func sum(data []byte) []byte {
	s := sha256.Sum256(data)
	return s[:]
}

func digest(data []byte) string {
	return refPrefix + hex.EncodeToString(sum(data))
}

// Get implements events.Blobs.
func (sd *sideStore) Get(ctx context.Context, ref string) ([]byte, error) {
	if !isRef(ref) {
		return nil, fault.New(fault.NotFound, "%q names no value", ref)
	}
	_, data, err := sd.getObject(ctx, sd.blobs, object{bucket: blobsBucket, name: ref})
	switch {
	case errors.Is(err, jetstream.ErrObjectNotFound):
		return nil, fault.Wrap(fault.NotFound, err, "there is no value "+ref)
	case fault.CodeOf(err) == fault.DataLoss, err == nil && digest(data) != ref:
		return nil, fault.New(fault.DataLoss, "the value %s is damaged", ref).WithHint("run: orch verify")
	case err != nil:
		return nil, sideFault(err, "the value cannot be read")
	default:
		return data, nil
	}
}

func isRef(ref string) bool {
	sum, err := hex.DecodeString(strings.TrimPrefix(ref, refPrefix))
	return err == nil && len(sum) == sha256.Size && strings.HasPrefix(ref, refPrefix)
}

// Save implements events.Checkpoints.
func (sd *sideStore) Save(ctx context.Context, task events.TaskID, id string, data []byte) (string, error) {
	key, err := pointKey(task, id)
	if err != nil {
		return "", err
	}
	if err := sd.space.checkRoom(len(data), time.Now()); err != nil {
		return "", err
	}
	failpoint.Pass(failpoint.BeforeCheckpoint)
	defer sd.touched.Store(true)
	m := &nats.Msg{Subject: kvSubject(pointsBucket, key), Data: data, Header: nats.Header{headHeader: {"checkpoint"}}}
	if _, err := sd.conn.js.PublishMsg(ctx, m); err != nil {
		return "", sideFault(err, "the checkpoint cannot be stored")
	}
	failpoint.Pass(failpoint.CheckpointSaved)
	return "KV/" + pointsBucket + "/" + key, sd.barrier().wait(checkpointsStream)
}

// Load implements events.Checkpoints.
func (sd *sideStore) Load(ctx context.Context, task events.TaskID, id string) ([]byte, error) {
	key, err := pointKey(task, id)
	if err != nil {
		return nil, err
	}
	e, err := sd.points.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, fault.Wrap(fault.NotFound, err, "task "+string(task)+" has no checkpoint "+id).WithField("checkpoint")
	}
	if err != nil {
		return nil, sideFault(err, "the checkpoint cannot be read")
	}
	return e.Value(), nil
}

// pointKey returns the key of a checkpoint, "<task>.<id>". INVALID_FORMAT unless the id consists of 1 to 128 letters,
// digits, '-' and '_'.
func pointKey(task events.TaskID, id string) (string, error) {
	if _, err := events.ParseTaskID(string(task)); err != nil {
		return "", err
	}
	const maxLength = 128
	ok := id != "" && len(id) <= maxLength
	for _, c := range []byte(id) {
		ok = ok && (c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '-' || c == '_')
	}
	if !ok {
		return "", fault.New(fault.InvalidFormat, "this is no id of a checkpoint").WithField("checkpoint").
			WithHint("use 1 to 128 letters, digits, - and _")
	}
	return string(task) + "." + id, nil
}

// sideFault wraps an error of a stream beside the log: DISK_FULL, CANCELLED, otherwise UNAVAILABLE.
func sideFault(err error, message string) error {
	var apiErr *jetstream.APIError
	switch {
	case errors.As(err, &apiErr) && isFullCode(apiErr.ErrorCode):
		return fault.Wrap(fault.DiskFull, err, message+": the NATS server has reached its limits").WithHint(serverLimits)
	case errors.Is(err, context.Canceled):
		return fault.From(err)
	default:
		return fault.Wrap(fault.Unavailable, err, message+" now").WithHint("try again in a moment")
	}
}

package bus

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/orch-dev/orch/fault"
)

// object is the name, the bucket and the headers of an object to be stored.
type object struct {
	bucket, name string
	header       nats.Header
}

// subject returns the subject of the metadata of an object.
func (o object) subject() string {
	return "$O." + o.bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(o.name))
}

// chunks returns the subject of the chunks of an object.
func (o object) chunks(id string) string { return "$O." + o.bucket + ".C." + id }

// chunkSize is the chunk size of the client library.
const chunkSize = 128 << 10

// putObject stores an object in the format of the client library: first the chunks, then the description, which replaces
// an earlier description. It does not use the library's function, which publishes asynchronously and may leak a goroutine
// each time.
func (sd *sideStore) putObject(ctx context.Context, o object, data []byte) error {
	info := jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: o.name, Headers: o.header, Opts: &jetstream.ObjectMetaOptions{ChunkSize: chunkSize}},
		Bucket:     o.bucket, NUID: nuid.Next(), Size: uint64(len(data)),
		Digest: objectDigest(data),
	}
	for chunk := range slices.Chunk(data, chunkSize) {
		if _, err := sd.conn.js.Publish(ctx, o.chunks(info.NUID), chunk); err != nil {
			return err
		}
		info.Chunks++
	}
	description, err := json.Marshal(info)
	if err != nil {
		return err
	}
	_, err = sd.conn.js.PublishMsg(ctx, &nats.Msg{
		Subject: o.subject(),
		Header:  nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}}, Data: description,
	})
	return err
}

// getObject returns the description and the data of an object. It reads page by page instead of with the library's
// function, which creates a consumer each time and has one deadline for the whole. Errors: jetstream.ErrObjectNotFound,
// DATA_LOSS if chunks are missing or damaged, those of readFault.
func (sd *sideStore) getObject(ctx context.Context, bucket jetstream.ObjectStore, o object) (*jetstream.ObjectInfo, []byte, error) {
	info, err := bucket.GetInfo(ctx, o.name)
	if err != nil {
		return nil, nil, err
	}
	data := make([]byte, 0, min(info.Size, 64<<20)) // a damaged description may have any size
	for e, err := range sd.conn.walk(ctx, "OBJ_"+o.bucket, o.chunks(info.NUID), 1, math.MaxUint64) {
		if err != nil {
			return nil, nil, err
		}
		data = append(data, e.Data...)
	}
	if info.Digest != objectDigest(data) {
		return nil, nil, fault.Wrap(fault.DataLoss, jetstream.ErrDigestMismatch, "the object is damaged")
	}
	return info, data, nil
}

// objectDigest returns the digest of data in the description of an object.
func objectDigest(data []byte) string {
	return "SHA-256=" + base64.URLEncoding.EncodeToString(sum(data))
}

package events

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// Value is a JSON value inside an event. A large value is represented by its digest and size; its bytes are in the blob
// store.
type Value struct {
	// Raw is the compact JSON text; nil if the text is in the blob store, or if there is no value.
	Raw json.RawMessage

	// blob is where the text is if it is in the blob store. Few values are, and there are several in each step in memory.
	blob *blobRef
}

// Ref returns "sha256-<hex>" of the JSON text if that is in the blob store, otherwise "".
func (v Value) Ref() string {
	if v.blob == nil {
		return ""
	}
	return v.blob.Blob
}

// Size returns the length in bytes of a JSON text in the blob store; 0 for one inside the event.
func (v Value) Size() int64 {
	if v.blob == nil {
		return 0
	}
	return v.blob.Size
}

// Len returns the length in bytes of the JSON text, wherever it is.
func (v Value) Len() int64 { return max(v.Size(), int64(len(v.Raw))) }

// MaxInline is the size in bytes from which a value is stored in the blob store.
const MaxInline = 64 << 10

// Inline returns raw as a value inside the event. The bytes are not copied or changed.
func Inline(raw json.RawMessage) Value { return Value{Raw: raw} }

// IsZero reports whether there is no value.
func (v Value) IsZero() bool { return v.blob == nil && len(v.Raw) == 0 }

// Offloaded returns a reference to raw. The caller must store raw in the blob store before the reference enters the
// log.
func Offloaded(raw json.RawMessage) Value {
	sum := sha256.Sum256(raw)
	return InBlobs(refPrefix+hex.EncodeToString(sum[:]), int64(len(raw)))
}

// InBlobs returns a reference to a JSON text of a size in the blob store.
func InBlobs(ref string, size int64) Value { return Value{blob: &blobRef{ref, size}} }

const refPrefix = "sha256-"

// MustOffload reports whether the value must be moved to the blob store before it is written.
func (v Value) MustOffload() bool {
	return v.blob == nil && (len(v.Raw) >= MaxInline || looksLikeRef(v.Raw))
}

// looksLikeRef reports whether JSON text is an object whose first key is $blob, the mark of a reference on the wire.
// Such an object is always moved to the blob store, so that it cannot be confused with a reference.
func looksLikeRef(raw []byte) bool {
	const space = " \t\r\n"
	for _, token := range []string{"{", `"$blob"`, ":"} {
		rest, found := bytes.CutPrefix(bytes.TrimLeft(raw, space), []byte(token))
		if !found {
			return false
		}
		raw = rest
	}
	return true
}

func isBlobRef(ref string) bool {
	digest, ok := strings.CutPrefix(ref, refPrefix)
	raw, err := hex.DecodeString(digest)
	return ok && err == nil && len(raw) == sha256.Size
}

// blobRef is a reference on the wire.
type blobRef struct {
	Blob string `json:"$blob"`
	Size int64  `json:"size"`
}

// MarshalJSON writes the value itself, or {"$blob":"sha256-…","size":n}.
func (v Value) MarshalJSON() ([]byte, error) {
	switch {
	case v.blob != nil:
		return json.Marshal(v.blob)
	case len(v.Raw) == 0:
		return []byte("null"), nil
	case looksLikeRef(v.Raw):
		return nil, fault.New(fault.Internal, "a value that looks like a reference is not in the blob store")
	default:
		return v.Raw, nil
	}
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (v *Value) UnmarshalJSON(data []byte) error {
	if !looksLikeRef(data) {
		*v = Value{Raw: bytes.Clone(data)}
		return nil
	}
	ref := &blobRef{}
	if err := json.Unmarshal(data, ref); err != nil || !isBlobRef(ref.Blob) || ref.Size < 0 {
		return fault.New(fault.DataLoss, "a reference to a large value is damaged")
	}
	*v = Value{blob: ref}
	return nil
}

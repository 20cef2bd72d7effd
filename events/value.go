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
	// Raw is the compact JSON text; nil when Ref is set, or when there is no value.
	Raw json.RawMessage
	// Ref is "sha256-<hex>" of the JSON text in the blob store.
	Ref string
	// Size is the length of the JSON text in bytes; set with Ref.
	Size int64
}

// MaxInline is the size in bytes from which a value is stored in the blob store.
const MaxInline = 64 << 10

// Inline returns raw as a value inside the event. The bytes are not copied or changed.
func Inline(raw json.RawMessage) Value { return Value{Raw: raw} }

// IsZero reports whether there is no value.
func (v Value) IsZero() bool { return v.Ref == "" && len(v.Raw) == 0 }

// Offloaded returns a reference to raw. The caller must store raw in the blob store before the reference enters the
// log.
func Offloaded(raw json.RawMessage) Value {
	sum := sha256.Sum256(raw)
	return Value{Ref: refPrefix + hex.EncodeToString(sum[:]), Size: int64(len(raw))}
}

const refPrefix = "sha256-"

// MustOffload reports whether the value must be moved to the blob store before it is written.
func (v Value) MustOffload() bool {
	return v.Ref == "" && (len(v.Raw) >= MaxInline || looksLikeRef(v.Raw))
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

type blobRef struct {
	Blob string `json:"$blob"`
	Size int64  `json:"size"`
}

// MarshalJSON writes the value itself, or {"$blob":"sha256-…","size":n}.
func (v Value) MarshalJSON() ([]byte, error) {
	switch {
	case v.Ref != "":
		return json.Marshal(blobRef{v.Ref, v.Size})
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
	var ref blobRef
	if err := json.Unmarshal(data, &ref); err != nil || !isBlobRef(ref.Blob) || ref.Size < 0 {
		return fault.New(fault.DataLoss, "a reference to a large value is damaged")
	}
	*v = Value{Ref: ref.Blob, Size: ref.Size}
	return nil
}

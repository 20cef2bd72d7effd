package events

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// Value is a JSON value inside an event: inline, or, when it is large, only its digest and size
// while the bytes lie in the blob store.
type Value struct {
	// Raw is the compact JSON text; nil when Ref is set, or when there is no value.
	Raw json.RawMessage
	// Ref is "sha256-<hex>" of the JSON text in the blob store.
	Ref string
	// Size is the length of the JSON text in bytes; set with Ref.
	Size int64
}

// MaxInline is the size in bytes from which on a value goes to the blob store.
const MaxInline = 64 << 10

// blobKey marks a reference on the wire. An inline object that has this key as its first one is
// stored in the blob store whatever its size, so that the two can never be mixed up.
const blobKey = `{"$blob":`

// Inline returns raw as a value inside the event. It keeps the bytes as they are.
func Inline(raw json.RawMessage) Value { return Value{Raw: raw} }

// IsZero reports whether there is no value.
func (v Value) IsZero() bool { return v.Ref == "" && len(v.Raw) == 0 }

// MustOffload reports whether the value has to move to the blob store before it is written.
func (v Value) MustOffload() bool {
	return v.Ref == "" && (len(v.Raw) >= MaxInline || bytes.HasPrefix(v.Raw, []byte(blobKey)))
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
	default:
		return v.Raw, nil
	}
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (v *Value) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(data, []byte(blobKey)) {
		*v = Value{Raw: bytes.Clone(data)}
		return nil
	}
	var ref blobRef
	if err := json.Unmarshal(data, &ref); err != nil || !strings.HasPrefix(ref.Blob, "sha256-") {
		return fault.New(fault.DataLoss, "a reference to a large value is damaged")
	}
	*v = Value{Ref: ref.Blob, Size: ref.Size}
	return nil
}

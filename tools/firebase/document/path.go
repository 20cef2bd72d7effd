// Package document is the data model of Firestore: documents in collections, writes, the order of values, and
// queries. It contains no storage.
//
// Values are decoded JSON: nil, bool, float64, string, []any and map[string]any. Results share no memory with
// arguments unless the comment of a function states otherwise.
package document

import (
	"strings"
	"unicode/utf8"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// The limits of Firestore.
const (
	// MaxID is the maximum length in bytes of the id of a document or a collection, and of a field name.
	MaxID = 1500
	// MaxPath is the maximum length of a path in bytes.
	MaxPath = 6 << 10
	// MaxSegments is the maximum number of segments: 100 levels of collections and documents.
	MaxSegments = 200
	// MaxDepth is the maximum nesting of arrays and objects in a document.
	MaxDepth = 20
	// MaxSize is the maximum size of a document in bytes, as returned by Size.
	MaxSize = 1 << 20
	// MaxString is the maximum length of a string in bytes.
	MaxString = MaxSize - 89
)

// Path identifies a document or a collection: alternating ids of collections and documents.
type Path []string

// ParsePath parses a path such as "rooms/a". Slashes are only permitted between ids (S3-026). A path with an even number
// of segments identifies a document, with an odd number a collection (S3-022). Errors: INVALID_PATH.
func ParsePath(text string) (Path, error) {
	if err := checkPath(text); err != nil {
		return nil, err.WithField("path")
	}
	return strings.Split(text, "/"), nil
}

func checkPath(text string) *fault.Error {
	if len(text) > MaxPath {
		return refusal.New(refusal.InvalidPath, "the path has %d bytes, at most %d", len(text), MaxPath)
	}
	segments := strings.Split(text, "/")
	if len(segments) > MaxSegments {
		return refusal.New(refusal.InvalidPath, "the path has %d segments, at most %d", len(segments), MaxSegments)
	}
	for _, id := range segments {
		if err := checkID(id); err != nil {
			return err
		}
	}
	return nil
}

func checkID(id string) *fault.Error {
	switch {
	case id == "":
		return refusal.New(refusal.InvalidPath, "a segment is empty: use one slash between two ids, and none at the ends")
	case len(id) > MaxID:
		return refusal.New(refusal.InvalidPath, "an id has %d bytes, at most %d", len(id), MaxID)
	case !utf8.ValidString(id):
		return refusal.New(refusal.InvalidPath, "the id %q is not valid UTF-8", id)
	case id == ".", id == "..", reserved(id):
		return refusal.New(refusal.InvalidPath, "the id %q is reserved", id)
	default:
		return nil
	}
}

// reserved reports whether Firestore reserves a name: __.*__.
func reserved(name string) bool {
	return len(name) >= 4 && strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__")
}

// IsDocument reports whether the path identifies a document; otherwise it identifies a collection.
func (p Path) IsDocument() bool { return len(p)%2 == 0 }

// ID returns the last segment.
func (p Path) ID() string { return p[len(p)-1] }

// Parent returns the path of the collection of a document, or of the document of a collection. It is empty for a
// top-level collection.
func (p Path) Parent() Path { return p[:len(p)-1] }

// Child returns the path of a document in a collection. It does not alias p.
func (p Path) Child(id string) Path {
	child := make(Path, 0, len(p)+1)
	return append(append(child, p...), id)
}

// String returns the path in the form of ParsePath.
func (p Path) String() string { return strings.Join(p, "/") }

package tree

import (
	"strings"
)

// The limits of the Realtime Database.
const (
	// MaxDepth is the maximum number of keys from the root to a value.
	MaxDepth = 32
	// MaxPath is the maximum length of a path in bytes, including a slash before each key.
	MaxPath = 768
	// MaxString is the maximum length of a string in bytes.
	MaxString = 10 << 20
	// MaxWrite is the maximum size of one write, in bytes as returned by Size.
	MaxWrite = 16 << 20
)

// Path contains the keys from the root to a node. The empty path identifies the root.
type Path []string

// ParsePath parses a path such as "rooms/a/messages"; "" is the root. Slashes are only permitted between keys
// (S3-026). Errors: INVALID_PATH.
func ParsePath(text string) (Path, error) {
	if text == "" {
		return nil, nil
	}
	path := Path(strings.Split(text, "/"))
	if err := path.check(); err != nil {
		return nil, err.WithField("path")
	}
	return path, nil
}

// String returns the path in the form of ParsePath.
func (p Path) String() string { return strings.Join(p, "/") }

// Child returns the path with keys appended. It does not alias p.
func (p Path) Child(keys ...string) Path {
	child := make(Path, 0, len(p)+len(keys))
	return append(append(child, p...), keys...)
}

// Contains reports whether q is p or a path below p.
func (p Path) Contains(q Path) bool {
	if len(q) < len(p) {
		return false
	}
	for i, key := range p {
		if q[i] != key {
			return false
		}
	}
	return true
}

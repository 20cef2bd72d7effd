package tree

import (
	"strings"
)

// The limits of the Realtime Database.
const (
	// MaxDepth is the greatest number of keys from the root to a value.
	MaxDepth = 32
	// MaxPath is the greatest length of a path in bytes, with one slash before each key.
	MaxPath = 768
	// MaxString is the greatest length of a string in bytes.
	MaxString = 10 << 20
	// MaxWrite is the greatest size of what one call writes, in bytes as Size counts them.
	MaxWrite = 16 << 20
)

// Path leads from the root to a node, key by key. The empty path is the root.
type Path []string

// ParsePath reads a path such as "rooms/a/messages"; "" is the root. Slashes separate keys and stand
// nowhere else (S3-026). Errors: INVALID_PATH.
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

// String returns the path as ParsePath reads it.
func (p Path) String() string { return strings.Join(p, "/") }

// Child returns the path of a child. It shares nothing with p.
func (p Path) Child(keys ...string) Path {
	child := make(Path, 0, len(p)+len(keys))
	return append(append(child, p...), keys...)
}

// Contains reports whether q is p or lies below p.
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

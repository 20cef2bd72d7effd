// Package objects defines stores of named objects outside of a node, and implements one in a directory. Package s3 implements one in a
// bucket of S3.
package objects

import (
	"context"
	"io"
	"iter"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// Store stores objects under keys, which are relative paths such as 2026/11/29/a.json. An object is there as a whole or not at all.
type Store interface {
	// Put stores an object, and replaces one with the same key. sum is the SHA-256 of the body. Errors: DISK_FULL, FORBIDDEN,
	// UNAVAILABLE.
	Put(ctx context.Context, key string, body io.ReadSeeker, size int64, sum []byte) error
	// Get returns a part of an object; a negative length is the rest. Errors: NOT_FOUND, FORBIDDEN, UNAVAILABLE.
	Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)
	// List yields the objects whose keys begin with a prefix that ends with a slash, or all, in the order of their keys.
	List(ctx context.Context, prefix string) iter.Seq2[Object, error]
	// String returns the place of the store, without credentials.
	String() string
}

// Object is an object in a list.
type Object struct {
	Key  string
	Size int64
}

// maxKey limits a key, in bytes.
const maxKey = 512

// CheckKey returns INVALID_FORMAT for a text that is not a key: a relative path of names with letters, digits, '.', '_' and '-' that do
// not begin with a dot.
func CheckKey(key string) error {
	valid := func(c rune) bool {
		return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '-' || c == '_' || c == '.'
	}
	bad := key == "" || len(key) > maxKey
	for name := range strings.SplitSeq(key, "/") {
		bad = bad || name == "" || name[0] == '.' || strings.TrimFunc(name, valid) != ""
	}
	if bad {
		return fault.New(fault.InvalidFormat, "%q is not the name of an object", clip(key))
	}
	return nil
}

// isKey reports whether a text is a key.
func isKey(key string) bool { return CheckKey(key) == nil }

func clip(text string) string { return fault.Clip(text, 80) }

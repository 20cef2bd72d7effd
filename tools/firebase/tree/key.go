package tree

import (
	"cmp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// check returns INVALID_PATH for an invalid path.
func (p Path) check() *fault.Error {
	length := 0
	for _, key := range p {
		if err := checkKey(key); err != nil {
			return err
		}
		length += 1 + len(key)
	}
	if len(p) > MaxDepth {
		return refusal.New(refusal.InvalidPath, "the path is %d keys deep, at most %d", len(p), MaxDepth)
	}
	if length > MaxPath {
		return refusal.New(refusal.InvalidPath, "the path has %d bytes, at most %d", length, MaxPath)
	}
	return nil
}

func checkKey(key string) *fault.Error {
	switch {
	case key == "":
		return refusal.New(refusal.InvalidPath, "a key is empty: use one slash between two keys, and none at the ends")
	case !utf8.ValidString(key):
		return refusal.New(refusal.InvalidPath, "the key %q is not valid UTF-8", key)
	case strings.ContainsFunc(key, isForbidden):
		return refusal.New(refusal.InvalidPath, "the key %q contains a control character or one of . # $ [ ] /", key)
	default:
		return nil
	}
}

func isForbidden(r rune) bool { return r < ' ' || r == 0x7f || strings.ContainsRune(".#$[]/", r) }

// CompareKeys compares keys as the Realtime Database does: 32-bit integers come first, in numeric order, then all
// other keys by code point.
func CompareKeys(a, b string) int {
	x, aIsInt := integer(a)
	y, bIsInt := integer(b)
	switch {
	case aIsInt && bIsInt:
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	case aIsInt:
		return -1
	case bIsInt:
		return 1
	default:
		return strings.Compare(a, b)
	}
}

// integer parses a key that is a 32-bit integer; leading zeros are permitted.
func integer(key string) (int32, bool) {
	if strings.HasPrefix(key, "+") {
		return 0, false
	}
	n, err := strconv.ParseInt(key, 10, 32)
	return int32(n), err == nil
}

// index parses a key that is an array index: decimal, without leading zeros.
func index(key string) (int, bool) {
	n, ok := integer(key)
	return int(n), ok && n >= 0 && strconv.Itoa(int(n)) == key
}

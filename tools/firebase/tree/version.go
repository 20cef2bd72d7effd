package tree

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"io"
	"math"
)

// Version returns the digest of what the node holds, priorities included: two nodes have the same one
// when they are Equal. Nothing has a version too, so that a write can insist on it.
func (n *Node) Version() string {
	digest := sha256.New()
	n.digest(digest)
	return base64.RawURLEncoding.EncodeToString(digest.Sum(nil))
}

func (n *Node) digest(to hash.Hash) {
	if n == nil {
		tag(to, '0', "")
		return
	}
	digestScalar(to, n.priority)
	digestScalar(to, n.scalar)
	for _, key := range n.Keys() {
		tag(to, 'k', key)
		n.children[key].digest(to)
	}
	tag(to, 'e', "")
}

func digestScalar(to hash.Hash, value any) {
	switch v := value.(type) {
	case string:
		tag(to, 's', v)
	case float64:
		tag(to, 'n', string(binary.BigEndian.AppendUint64(nil, math.Float64bits(v+0)))) // -0 and 0 are Equal
	case bool:
		tag(to, 'b', alphabet[count(v):count(v)+1])
	default:
		tag(to, '-', "")
	}
}

// tag writes a text with its kind and length, so that no two contents run together.
func tag(to hash.Hash, kind byte, text string) {
	head := binary.AppendUvarint([]byte{kind}, uint64(len(text)))
	_, _ = to.Write(head) // a hash never fails
	_, _ = io.WriteString(to, text)
}

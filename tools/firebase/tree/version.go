package tree

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"io"
	"math"
)

// Version returns a digest of the content of the node, including priorities. Equal nodes have the same version. A nil node
// has a version too, so that a write can require that there is no data.
func (n *Node) Version() string {
	digest := sha256.New()
	n.digest(digest)
	return base64.RawURLEncoding.EncodeToString(digest.Sum(nil))
}

// digest writes an unambiguous encoding of the node to a hash.
func (n *Node) digest(to hash.Hash) {
	if n == nil {
		writeTagged(to, '0', "")
		return
	}
	digestScalar(to, n.priority)
	digestScalar(to, n.scalar)
	for _, key := range n.Keys() {
		writeTagged(to, 'k', key)
		n.children[key].digest(to)
	}
	writeTagged(to, 'e', "")
}

func digestScalar(to hash.Hash, value any) {
	switch v := value.(type) {
	case string:
		writeTagged(to, 's', v)
	case float64:
		writeTagged(to, 'n', string(binary.BigEndian.AppendUint64(nil, math.Float64bits(v+0)))) // -0 and 0 are Equal
	case bool:
		writeTagged(to, 'b', alphabet[boolInt(v):boolInt(v)+1])
	default:
		writeTagged(to, '-', "")
	}
}

// writeTagged writes a text with its kind and length, so that different contents never produce the same bytes.
func writeTagged(to hash.Hash, kind byte, text string) {
	head := binary.AppendUvarint([]byte{kind}, uint64(len(text)))
	_, _ = to.Write(head) // a hash never fails
	_, _ = io.WriteString(to, text)
}

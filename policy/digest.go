package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/orch-dev/orch/fault"
)

// Digest returns the digest that binds an approval to a call (M-3). It is the SHA-256, in hex, of the name of the tool
// and its arguments in canonical form: sorted keys, no spaces, numbers as they were written. Different arguments have
// different digests.
func Digest(tool string, args json.RawMessage) (string, error) {
	canonical, err := canonicalJSON(args)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append([]byte(tool+"\n"), canonical...))
	return hex.EncodeToString(sum[:]), nil
}

func canonicalJSON(args json.RawMessage) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fault.Wrap(fault.InvalidFormat, err, "the arguments are not valid JSON")
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the arguments cannot be encoded")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

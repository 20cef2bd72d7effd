package export

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"

	"github.com/orch-dev/orch/fault"
)

// signature is the content of the last member.
type signature struct {
	Algorithm string `json:"algorithm"`
	Key       string `json:"key"`
	SHA256    string `json:"sha256"`
	Signature string `json:"signature"`
}

// algorithm is the value of signature.Algorithm.
const algorithm = "ed25519"

// signed returns what is signed: the digest of the file in front of its signature, in its context.
func signed(digest []byte) []byte {
	return append([]byte("orch export file, version 1\n"), digest...)
}

// sign returns the last member of a file.
func sign(key ed25519.PrivateKey, digest []byte) []byte {
	return stored(encodeLine(signature{
		Algorithm: algorithm, Key: EncodeKey(PublicKey(key)), SHA256: hex.EncodeToString(digest),
		Signature: base64.StdEncoding.EncodeToString(ed25519.Sign(key, signed(digest))),
	}))
}

// PublicKey returns the public part of a key.
func PublicKey(key ed25519.PrivateKey) ed25519.PublicKey {
	return ed25519.PublicKey(key[ed25519.PrivateKeySize-ed25519.PublicKeySize:])
}

// parseSignature decodes the last member: DATA_LOSS unless it is exactly as sign writes it.
func parseSignature(member []byte) (signature, error) {
	var s signature
	if len(member) <= storedSize {
		return s, damagedSignature("it ends early")
	}
	const tail = 8
	text := member[storedSize-tail : len(member)-tail]
	if !parseLine(text, &s) || string(stored(text)) != string(member) {
		return s, damagedSignature("its form is not as written")
	}
	return s, nil
}

// check returns the public key of a valid signature. expected, if not nil, is the only key that may have signed. digest is the digest
// of the bytes in front of the signature.
func (s signature) check(digest []byte, expected ed25519.PublicKey) (ed25519.PublicKey, error) {
	if s.Algorithm != algorithm {
		return nil, fault.New(fault.InvalidFormat, "the file is signed with %q, which this orch does not know", clip(s.Algorithm)).WithField("signature")
	}
	key, err := ParseKey(s.Key)
	if err != nil {
		return nil, damagedSignature("it has no public key")
	}
	if s.SHA256 != hex.EncodeToString(digest) {
		return nil, fault.New(fault.DataLoss, "the file is not the one that was signed: its digest is %x, and the signature is for %s", digest, clip(s.SHA256)).WithField("signature")
	}
	if expected != nil && !key.Equal(expected) {
		return nil, fault.New(fault.Forbidden, "the file was signed by the key %s, and not by the expected %s", Fingerprint(key), Fingerprint(expected)).
			WithField("key").WithReason("KEY_MISMATCH").WithHint("the file may be intact, but another node has made it; ask its operator for: orch export --public-key")
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(s.Signature)
	if err != nil || !ed25519.Verify(key, signed(digest), raw) {
		return nil, damagedSignature("it does not belong to the file and the key " + Fingerprint(key))
	}
	return key, nil
}

func damagedSignature(why string) *fault.Error {
	return fault.New(fault.DataLoss, "the signature is damaged: %s", why).WithField("signature")
}

// clip shortens foreign text for a message.
func clip(text string) string {
	const most = 80
	if len(text) > most {
		return text[:most]
	}
	return text
}

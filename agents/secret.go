package agents

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
)

// CredentialLife is how long the credential of an agent is good at most; the agent can renew it before.
const CredentialLife = 24 * time.Hour

const (
	// secretPrefix begins every secret, so that it is recognized wherever it shows up.
	secretPrefix = "orch_"
	// secretDigits is how many base62 digits follow: 62^43 > 2^256.
	secretDigits = 43
	// SecretLength is the length of a secret in bytes.
	SecretLength = len(secretPrefix) + secretDigits
)

// NewSecret returns "orch_" and 256 random bits in base62. The form lets a secret be recognized, and
// redacted, wherever it shows up.
func NewSecret() string {
	var bits [32]byte
	_, _ = rand.Read(bits[:]) // never fails
	text := new(big.Int).SetBytes(bits[:]).Text(62)
	return secretPrefix + strings.Repeat("0", secretDigits-len(text)) + text
}

// IsSecret reports whether a text has the form of a secret. Nothing else is the secret of a token, whatever its digest.
func IsSecret(text string) bool {
	digits, ok := strings.CutPrefix(text, secretPrefix)
	return ok && len(digits) == secretDigits && !strings.ContainsFunc(digits, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// DigestOf is what a node keeps of a secret: its SHA-256, in hex.
func DigestOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Renewal asks for another credential: the one that is used ends.
type Renewal struct {
	// Digest is that of the next secret, which the agent has made and kept before it asks (DigestOf). Empty lets the node
	// make the secret: then an answer that is lost locks the agent out.
	Digest string `json:"digest,omitempty"`
}

// Check brings the digest to its normal form. VALIDATION_ERROR for one that is none.
func (r *Renewal) Check() error {
	sum, err := hex.DecodeString(r.Digest)
	if r.Digest != "" && (err != nil || len(sum) != sha256.Size) {
		return fault.New(fault.ValidationError, "is no SHA-256 in hex").WithField("digest").WithHint("send 64 hex digits")
	}
	r.Digest = strings.ToLower(r.Digest)
	return nil
}

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

// CredentialLife is the maximum lifetime of an agent's credential. The agent can renew it before.
const CredentialLife = 24 * time.Hour

const (
	// secretPrefix is the prefix of every secret, so that it can be detected anywhere.
	secretPrefix = "orch_"
	// secretDigits is the number of base62 digits after the prefix: 62^43 > 2^256.
	secretDigits = 43
	// SecretLength is the length of a secret in bytes.
	SecretLength = len(secretPrefix) + secretDigits
)

// NewSecret returns "orch_" and 256 random bits in base62. Because of its form a secret can be detected and redacted
// anywhere.
func NewSecret() string {
	var bits [32]byte
	_, _ = rand.Read(bits[:]) // never fails
	text := new(big.Int).SetBytes(bits[:]).Text(62)
	return secretPrefix + strings.Repeat("0", secretDigits-len(text)) + text
}

// IsSecret reports whether text has the form of a secret. Anything else is not accepted as a secret, whatever its
// digest.
func IsSecret(text string) bool {
	digits, ok := strings.CutPrefix(text, secretPrefix)
	return ok && len(digits) == secretDigits && !strings.ContainsFunc(digits, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// DigestOf returns the SHA-256 of a secret, in hex. A node stores only this digest.
func DigestOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Renewal requests a new credential. The current one becomes invalid.
type Renewal struct {
	// Digest is the digest (DigestOf) of the next secret, which the agent generates and stores before it sends the
	// request. If empty, the node generates the secret; then a lost answer locks the agent out.
	Digest string `json:"digest,omitempty"`
}

// Check brings the digest to normal form. It returns VALIDATION_ERROR if it is invalid.
func (r *Renewal) Check() error {
	sum, err := hex.DecodeString(r.Digest)
	if r.Digest != "" && (err != nil || len(sum) != sha256.Size) {
		return fault.New(fault.ValidationError, "is not a SHA-256 in hex").WithField("digest").WithHint("send 64 hex digits")
	}
	r.Digest = strings.ToLower(r.Digest)
	return nil
}

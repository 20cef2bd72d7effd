package policy

import "github.com/orch-dev/orch/classify/secrets"

// FindSecrets returns the secrets in data, in order and without overlap.
func FindSecrets(data []byte) []secrets.Finding { return secrets.Find(data) }

// Redact returns data with every secret replaced by [REDACTED:rule], and reports whether it replaced any. Valid JSON
// stays valid. If data contains no secret, Redact returns data itself.
func Redact(data []byte) ([]byte, bool) { return secrets.Redact(data, secrets.Find) }

// Redact is like the function Redact, but does not replace text on the allow list of the policy.
func (p *Policy) Redact(data []byte) ([]byte, bool) { return secrets.Redact(data, p.findings) }

// FindSecrets is like the function FindSecrets, but does not find text on the allow list of the policy.
func (p *Policy) FindSecrets(data []byte) []secrets.Finding { return p.findings(data) }

// findings returns the secrets that are not on the allow list.
func (p *Policy) findings(data []byte) []secrets.Finding {
	found := secrets.Find(data)
	kept := found[:0]
	for _, f := range found {
		if !p.allowed(string(data[f.Offset : f.Offset+f.Length])) {
			kept = append(kept, f)
		}
	}
	return kept
}

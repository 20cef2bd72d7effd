package hooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
)

// The headers of the schemes, in lower case.
const (
	headerGitHub        = "x-hub-signature-256"
	headerGitHubEvent   = "x-github-event"
	headerGitHubID      = "x-github-delivery"
	headerStripe        = "stripe-signature"
	headerSlack         = "x-slack-signature"
	headerSlackTime     = "x-slack-request-timestamp"
	headerStandardID    = "webhook-id"
	headerStandardTime  = "webhook-timestamp"
	headerStandard      = "webhook-signature"
	headerIdempotency   = "idempotency-key"
	headerNATSID        = "nats-msg-id"
	standardSecretStart = "whsec_"
)

const (
	// Tolerance is how far the time in a signature may be from that of the node, before or after.
	Tolerance = 5 * time.Minute
	// MaxSignatures bounds the signatures in one header.
	MaxSignatures = 8
	// maxSignatureHeader bounds a header with signatures, in bytes.
	maxSignatureHeader = 4096
	// minSecret and maxSecret bound a secret, in bytes.
	minSecret, maxSecret = 16, 256
)

// Headers are the headers of a delivery, by their names in lower case.
type Headers map[string]string

// RejectionError is why a request is no delivery. Only operators see it.
type RejectionError string

// Error implements error.
func (r RejectionError) Error() string { return string(r) }

// CheckSecret returns why a secret cannot be used with a provider.
func CheckSecret(p Provider, secret string) error {
	f := func(format string, args ...any) error {
		return fault.New(fault.ValidationError, format, args...).WithField("secret")
	}
	switch {
	case !p.Signs() && secret != "":
		return f("a hook of the provider %s has no secret", p)
	case !p.Signs():
		return nil
	case secret == "":
		return fault.New(fault.RequiredField, "is missing").WithField("secret").WithHint("orch hook create NAME --secret-file FILE, or - for stdin")
	case len(secret) > maxSecret:
		return f("has %d bytes, the limit is %d", len(secret), maxSecret)
	case strings.ContainsFunc(secret, func(r rune) bool { return r < ' ' || r > '~' }):
		return f("contains other characters than printable ASCII")
	case p == Standard && !strings.HasPrefix(secret, standardSecretStart):
		return fault.New(fault.InvalidFormat, "must begin with %s", standardSecretStart).WithField("secret").WithHint("echo %s$(openssl rand -base64 32) makes one", standardSecretStart)
	}
	if len(keyOf(p, secret)) < minSecret {
		if p == Standard && len(keyOf(p, secret)) == 0 {
			return fault.New(fault.InvalidFormat, "is not base64 after %s", standardSecretStart).WithField("secret")
		}
		made := "openssl rand -hex 32"
		if p == Standard {
			made = "echo " + standardSecretStart + "$(openssl rand -base64 32)"
		}
		return fault.New(fault.ValidationError, "is too short: %d bytes are the least", minSecret).WithField("secret").WithHint("%s makes one", made)
	}
	return nil
}

// KeySize returns the number of bytes of the key of a secret; 0 if the secret cannot be decoded.
func KeySize(p Provider, secret string) int { return len(keyOf(p, secret)) }

// keyOf returns the key of a secret: its bytes, or what it encodes. It is empty if the secret cannot be decoded.
func keyOf(p Provider, secret string) []byte {
	if p != Standard {
		return []byte(secret)
	}
	encoded := strings.TrimRight(strings.TrimPrefix(secret, standardSecretStart), "=")
	key, err := base64.RawStdEncoding.DecodeString(encoded)
	if err != nil {
		return nil
	}
	return key
}

// signed is what a request claims: a text in front of the body, and signatures.
type signed struct {
	prefix     string
	signatures [][]byte
}

// Verify returns a RejectionError unless one of the secrets has signed a body. An empty secret signs nothing. The provider of an unknown
// hook is empty. The work is the same in all cases: two signatures of the body.
func Verify(p Provider, secrets [2]string, h Headers, body []byte, now time.Time) error {
	claim, err := claimOf(p, h, now)
	valid := false
	for _, secret := range secrets {
		key := keyOf(p, secret)
		usable := len(key) > 0
		if !usable {
			key = make([]byte, sha256.Size)
		}
		sum := sumOf(key, claim.prefix, body)
		for _, s := range claim.signatures {
			if hmac.Equal(s, sum) && usable {
				valid = true
			}
		}
	}
	switch {
	case err != nil:
		return err
	case !valid:
		return RejectionError("the signature is that of another secret or another body")
	default:
		return nil
	}
}

func sumOf(key []byte, prefix string, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(prefix))
	mac.Write(body)
	return mac.Sum(nil)
}

// claimOf reads the headers of a scheme.
func claimOf(p Provider, h Headers, now time.Time) (signed, error) {
	switch p {
	case GitHub:
		return gitHubClaim(h)
	case Stripe:
		return stripeClaim(h, now)
	case Slack:
		return slackClaim(h, now)
	case Standard:
		return standardClaim(h, now)
	default:
		return signed{}, RejectionError("there is no such hook")
	}
}

// header returns a header with signatures.
func (h Headers) header(name string) (string, error) {
	value, found := h[name]
	switch {
	case !found || value == "":
		return "", RejectionError("the header " + name + " is missing")
	case len(value) > maxSignatureHeader:
		return "", RejectionError("the header " + name + " is too long")
	}
	return value, nil
}

func gitHubClaim(h Headers) (signed, error) {
	value, err := h.header(headerGitHub)
	if err != nil {
		return signed{}, err
	}
	s, err := hexSignature(strings.TrimPrefix(value, "sha256="))
	if err != nil || !strings.HasPrefix(value, "sha256=") {
		return signed{}, RejectionError("the header " + headerGitHub + " is not sha256= and 64 hex digits")
	}
	return signed{signatures: [][]byte{s}}, nil
}

// hexSignature decodes a signature in lower case, as all senders write it.
func hexSignature(text string) ([]byte, error) {
	s, err := hex.DecodeString(text)
	if err != nil || len(s) != sha256.Size {
		return nil, RejectionError("a signature is not 64 hex digits")
	}
	return s, nil
}

// stripeClaim reads t=TIME,v1=SIGNATURE,v1=SIGNATURE. Other schemes are left out, so that nobody can choose a weaker one.
func stripeClaim(h Headers, now time.Time) (signed, error) {
	value, err := h.header(headerStripe)
	if err != nil {
		return signed{}, err
	}
	var at string
	claim := signed{}
	for part := range strings.SplitSeq(value, ",") {
		name, text, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			if at != "" {
				return signed{}, RejectionError("the header " + headerStripe + " has two times")
			}
			at = text
		case "v1":
			s, err := hexSignature(text)
			if err != nil {
				return signed{}, err
			}
			claim.signatures = append(claim.signatures, s)
		}
	}
	claim.prefix = at + "."
	return claim, claim.check(at, now)
}

func slackClaim(h Headers, now time.Time) (signed, error) {
	value, err := h.header(headerSlack)
	if err != nil {
		return signed{}, err
	}
	at, err := h.header(headerSlackTime)
	if err != nil {
		return signed{}, err
	}
	s, err := hexSignature(strings.TrimPrefix(value, "v0="))
	if err != nil || !strings.HasPrefix(value, "v0=") {
		return signed{}, RejectionError("the header " + headerSlack + " is not v0= and 64 hex digits")
	}
	claim := signed{prefix: "v0:" + at + ":", signatures: [][]byte{s}}
	return claim, claim.check(at, now)
}

// standardClaim reads a list of v1,SIGNATURE with blanks between. Signatures of public keys (v1a) are left out.
func standardClaim(h Headers, now time.Time) (signed, error) {
	var values [3]string
	for i, name := range []string{headerStandardID, headerStandardTime, headerStandard} {
		var err error
		if values[i], err = h.header(name); err != nil {
			return signed{}, err
		}
	}
	claim := signed{prefix: values[0] + "." + values[1] + "."}
	for part := range strings.FieldsSeq(values[2]) {
		text, ours := strings.CutPrefix(part, "v1,")
		if !ours {
			continue
		}
		s, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(s) != sha256.Size {
			return signed{}, RejectionError("a signature is not base64 of 32 bytes")
		}
		claim.signatures = append(claim.signatures, s)
	}
	return claim, claim.check(values[1], now)
}

// check checks the number of signatures and the time, which is in seconds since 1970.
func (c signed) check(at string, now time.Time) error {
	switch {
	case len(c.signatures) == 0:
		return RejectionError("there is no signature of the scheme v1")
	case len(c.signatures) > MaxSignatures:
		return RejectionError("there are more than " + strconv.Itoa(MaxSignatures) + " signatures")
	case len(at) > 12 || strings.ContainsFunc(at, func(r rune) bool { return r < '0' || r > '9' }):
		return RejectionError("the time is not a number of seconds")
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return RejectionError("the time is not a number of seconds")
	}
	off := now.Sub(time.Unix(seconds, 0)).Round(time.Second)
	switch {
	case off > Tolerance:
		return RejectionError("the signature is " + off.String() + " old; " + Tolerance.String() + " is the limit")
	case off < -Tolerance:
		return RejectionError("the signature is of a time " + (-off).String() + " from now; look at the clocks")
	}
	return nil
}

// Sign returns the headers with which a sender of a provider delivers a body with an id.
func Sign(p Provider, secret, id string, body []byte, now time.Time) Headers {
	at := strconv.FormatInt(now.Unix(), 10)
	sum := func(prefix string) []byte { return sumOf(keyOf(p, secret), prefix, body) }
	switch p {
	case GitHub:
		return Headers{headerGitHubID: id, headerGitHub: "sha256=" + hex.EncodeToString(sum(""))}
	case Stripe:
		return Headers{headerStripe: "t=" + at + ",v1=" + hex.EncodeToString(sum(at+"."))}
	case Slack:
		return Headers{headerSlackTime: at, headerSlack: "v0=" + hex.EncodeToString(sum("v0:"+at+":"))}
	case Standard:
		return Headers{
			headerStandardID: id, headerStandardTime: at,
			headerStandard: "v1," + base64.StdEncoding.EncodeToString(sum(id+"."+at+".")),
		}
	default:
		return Headers{headerIdempotency: id}
	}
}

// visible are the headers that expressions see of each delivery.
func visible() []string {
	return []string{
		"content-type", "user-agent", headerGitHubEvent, headerGitHubID, "x-github-hook-id", "x-github-hook-installation-target-id",
		"x-github-hook-installation-target-type", headerSlackTime, "x-slack-retry-num", "x-slack-retry-reason", headerStandardID, headerStandardTime,
		headerIdempotency, headerNATSID,
	}
}

// maxHeaderValue bounds the value of a header that expressions see, in bytes.
const maxHeaderValue = 1024

// Visible returns the headers that expressions of a definition see. Values that are too long are left out.
func (d *Definition) Visible(h Headers) map[string]string {
	seen := map[string]string{}
	for _, name := range slices.Concat(visible(), d.Headers) {
		if value, found := h[name]; found && len(value) <= maxHeaderValue {
			seen[name] = strings.ToValidUTF8(value, "�")
		}
	}
	return seen
}

package s3

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Credentials sign requests. Token is set for temporary ones.
type Credentials struct{ KeyID, Secret, Token string }

// String keeps the secret out of logs.
func (c Credentials) String() string { return "credentials of S3" }

// GoString keeps the secret out of logs.
func (c Credentials) GoString() string { return c.String() }

const (
	algorithm  = "AWS4-HMAC-SHA256"
	timeFormat = "20060102T150405Z"
	dateFormat = "20060102"
)

// signer signs requests with version 4 of the signatures of AWS.
type signer struct {
	credentials     Credentials
	region, service string
}

// sign adds the headers with the time, the digest of the body and the signature to a request. sum is the digest in hex; empty leaves
// its header out.
func (s signer) sign(r *http.Request, sum string, at time.Time) {
	at = at.UTC()
	r.Header.Set("X-Amz-Date", at.Format(timeFormat))
	if s.service == "s3" {
		r.Header.Set("X-Amz-Content-Sha256", sum)
	}
	if s.credentials.Token != "" {
		r.Header.Set("X-Amz-Security-Token", s.credentials.Token)
	}
	signed, headers := canonicalHeaders(r)
	canonical := strings.Join([]string{r.Method, canonicalPath(r.URL), canonicalQuery(r.URL.Query()), headers, signed, sum}, "\n")
	scope := strings.Join([]string{at.Format(dateFormat), s.region, s.service, "aws4_request"}, "/")
	digest := sha256.Sum256([]byte(canonical))
	text := strings.Join([]string{algorithm, at.Format(timeFormat), scope, hex.EncodeToString(digest[:])}, "\n")
	key := []byte("AWS4" + s.credentials.Secret)
	for _, part := range []string{at.Format(dateFormat), s.region, s.service, "aws4_request"} {
		key = mac(key, part)
	}
	r.Header.Set("Authorization", algorithm+" Credential="+s.credentials.KeyID+"/"+scope+", SignedHeaders="+signed+", Signature="+hex.EncodeToString(mac(key, text)))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// canonicalHeaders returns the names of the headers that are signed, and these headers.
func canonicalHeaders(r *http.Request) (names, headers string) {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	values := map[string]string{"host": host}
	for name := range r.Header {
		lower := strings.ToLower(name)
		if strings.HasPrefix(lower, "x-amz-") || lower == "range" || lower == "date" || lower == "content-type" {
			values[lower] = strings.TrimSpace(r.Header.Get(name))
		}
	}
	var all []string
	for name := range values {
		all = append(all, name)
	}
	slices.Sort(all)
	var b strings.Builder
	for _, name := range all {
		b.WriteString(name + ":" + values[name] + "\n")
	}
	return strings.Join(all, ";"), b.String()
}

func canonicalPath(u *url.URL) string {
	if u.Path == "" {
		return "/"
	}
	return escape(u.Path, true)
}

func canonicalQuery(q url.Values) string {
	var pairs []string
	for name, values := range q {
		for _, value := range values {
			pairs = append(pairs, escape(name, false)+"="+escape(value, false))
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

// escape encodes all bytes but the unreserved ones of RFC 3986, and slashes if they are kept.
func escape(text string, slashes bool) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-_.~", c) >= 0, c == '/' && slashes:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}

package server

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// sealer signs the state that a client carries from one round of a call to the next. A signature is valid for one identity.
type sealer struct{ key []byte }

// newSealer returns a sealer with the given key, or with a random key if it is empty.
func newSealer(key []byte) sealer {
	if len(key) == 0 {
		key = make([]byte, 32)
		_, _ = rand.Read(key)
	}
	return sealer{key}
}

// seal returns state with a signature.
func (s sealer) seal(who, state string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(state)) + "." + base64.RawURLEncoding.EncodeToString(s.sum(who, state))
}

// open verifies a sealed text and returns its state. It returns false if the text was not sealed with this key for this identity.
func (s sealer) open(who, text string) (string, bool) {
	head, tail, ok := strings.Cut(text, ".")
	state, err := base64.RawURLEncoding.DecodeString(head)
	sum, err2 := base64.RawURLEncoding.DecodeString(tail)
	if !ok || err != nil || err2 != nil || !hmac.Equal(sum, s.sum(who, string(state))) {
		return "", false
	}
	return string(state), true
}

func (s sealer) sum(who, state string) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(who + "\n" + state))
	return mac.Sum(nil)
}

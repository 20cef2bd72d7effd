package oauth

import (
	"encoding/json"
	"net/url"
	"time"
)

// Trusted, Covers and the rest are the checks of data from other parties, for tests.
func Trusted(address string, local bool) error {
	_, err := parseTrusted(address, local)
	return err
}

// Covers is covers for a server that is a URL.
func Covers(resource, server string) bool {
	u, err := url.Parse(server)
	return err == nil && covers(resource, u)
}

// Canonical, ResourceAddresses and IssuerAddresses are for a URL.
func Canonical(address string) string           { return resourceName(parsed(address)) }
func ResourceAddresses(address string) []string { return resourceAddresses(parsed(address)) }
func IssuerAddresses(address string) []string   { return issuerAddresses(parsed(address)) }

func parsed(address string) *url.URL {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	return u
}

// Expiry is expiry.
func Expiry(seconds string, now time.Time) time.Time { return expiry(json.RawMessage(seconds), now) }

// ErrorCode is errorCode.
func ErrorCode(code string) string { return errorCode(code, "none") }

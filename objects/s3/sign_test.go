package s3

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The published test suite of version 4 of the signatures, and the examples in the documentation of S3.
func TestVectorsOfAWS(t *testing.T) {
	t.Parallel()
	suite := signer{Credentials{KeyID: "AKIDEXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}, "us-east-1", "service"}
	suiteTime := time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)
	docs := signer{Credentials{KeyID: "AKIAIOSFODNN7EXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}, "us-east-1", "s3"}
	docsTime := time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)
	const host, bucket = "https://example.amazonaws.com", "https://examplebucket.s3.amazonaws.com"
	for name, c := range map[string]struct {
		signer      signer
		at          time.Time
		method, url string
		headers     map[string]string
		body        string
		want        string
	}{
		"get-vanilla":                      {suite, suiteTime, "GET", host + "/", nil, "", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		"get-vanilla-query-order-key-case": {suite, suiteTime, "GET", host + "/?Param2=value2&Param1=value1", nil, "", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
		"post-vanilla":                     {suite, suiteTime, "POST", host + "/", nil, "", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
		"S3: get an object":                {docs, docsTime, "GET", bucket + "/test.txt", map[string]string{"Range": "bytes=0-9"}, "", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
		"S3: put an object": {docs, docsTime, "PUT", bucket + "/test$file.text", map[string]string{
			"Date": "Fri, 24 May 2013 00:00:00 GMT", "X-Amz-Storage-Class": "REDUCED_REDUNDANCY",
		}, "Welcome to Amazon S3.", "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
		"S3: lifecycle of a bucket": {docs, docsTime, "GET", bucket + "/?lifecycle", nil, "", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
		"S3: list objects":          {docs, docsTime, "GET", bucket + "/?max-keys=2&prefix=J", nil, "", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, c.url, http.NoBody)
		require.NoError(t, err, name)
		for header, value := range c.headers {
			r.Header.Set(header, value)
		}
		sum := sha256.Sum256([]byte(c.body))
		c.signer.sign(r, hex.EncodeToString(sum[:]), c.at)
		assert.Contains(t, r.Header.Get("Authorization"), "Signature="+c.want, name)
	}
}

func TestCredentialsAreNotShown(t *testing.T) {
	t.Parallel()
	c := Credentials{KeyID: "id", Secret: "hunter2", Token: "hunter2"}
	for _, form := range []string{"%v", "%+v", "%s", "%#v"} {
		assert.NotContains(t, fmt.Sprintf(form, c), "hunter2")
		assert.NotContains(t, fmt.Sprintf(form, Config{Place: "s3://a", Credentials: c}), "hunter2")
	}
}

// FuzzEscape checks that an escaped text has only characters that need no escaping, and differs for different texts.
func FuzzEscape(f *testing.F) {
	f.Add("a b/ä%2F", true)
	f.Fuzz(func(t *testing.T, text string, slashes bool) {
		for _, c := range escape(text, slashes) {
			require.True(t, c < 0x80 && c > ' ', "%q", text)
		}
		if escape(text+"x", slashes) == escape(text, slashes) {
			t.Fatal("two texts have the same form")
		}
	})
}

package netguard_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
)

func TestHeaders(t *testing.T) {
	t.Parallel()
	h, err := netguard.Headers(map[string]string{"x-a": " b\t", "Authorization": "Bearer a.b-c_d~e+f/g=", "X-Empty": ""})
	require.NoError(t, err)
	assert.Equal(t, http.Header{"X-A": {"b"}, "Authorization": {"Bearer a.b-c_d~e+f/g="}, "X-Empty": {""}}, h)
	_, err = netguard.Headers(nil)
	require.NoError(t, err)
}

// No header changes the request itself, however it is written, and no error repeats a value.
func TestBadHeaders(t *testing.T) {
	t.Parallel()
	many := map[string]string{}
	for i := range 65 {
		many["X-"+strconv.Itoa(i)] = "hunter2"
	}
	cases := []map[string]string{many, {"X-Long": strings.Repeat("hunter2", 5000)}, {"X-A": "hunter2", "x-a": "hunter2"}}
	for _, name := range []string{
		"Host", "host", "HOST", "Content-Length", "Transfer-Encoding", "transfer-encoding", "Connection", "Keep-Alive", "Upgrade", "TE", "Trailer", "Expect",
		"Proxy-Authorization", "Proxy-Connection", "HTTP2-Settings", "", " ", "Ho st", "Host ", " Host", "Host:", "X\r\nHost", "X\nHost", "X\x00", "X:Y", "Hóst", "X(Y)",
		"\"X\"", "X{", ":authority", strings.Repeat("x", 257),
	} {
		cases = append(cases, map[string]string{name: "hunter2"})
	}
	for _, value := range []string{"a\r\nHost: b", "a\nb", "a\rb", "a\x00b", "a\x7fb", "a\u560a\u560db", "ä", "a\u2028b", "a\vb"} {
		cases = append(cases, map[string]string{"X-A": "hunter2" + value})
	}
	for _, c := range cases {
		_, err := netguard.Headers(c)
		e := fault.From(err)
		require.NotNil(t, e, "%q", c)
		assert.Equal(t, fault.ValidationError, e.Code)
		assert.Contains(t, e.Field, "headers")
		assert.NotContains(t, e.Error()+e.Hint, "hunter2")
	}
	t.Logf("%d cases", len(cases))
}

func TestSecret(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"Authorization", "authorization", "Cookie", "Set-Cookie", "X-Api-Key", "X-Auth-Token", "X-Amz-Security-Token", "Private-Token", "X-Vault-Token",
		"X-Subscription-Token", "X-Session-Id", "X-Signature", "X-Password", "X-JWT",
	} {
		assert.True(t, netguard.Secret(name), name)
	}
	for _, name := range []string{"Accept", "Content-Type", "User-Agent", "Idempotency-Key", "X-Request-Id", "Location", "Etag", "Date"} {
		assert.False(t, netguard.Secret(name), name)
	}
}

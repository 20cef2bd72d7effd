package s3_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/objects/objectstest"
	"github.com/orch-dev/orch/objects/s3"
	"github.com/orch-dev/orch/objects/s3/s3test"
)

const hidden = "hunter2-hunter2"

func open(t *testing.T, server *s3test.Server, place string) *s3.Bucket {
	t.Helper()
	b, err := s3.Open(s3.Config{
		Place: place, URL: server.URL, Credentials: s3.Credentials{KeyID: "AKID", Secret: hidden}, Stall: 5 * time.Second, Pause: time.Millisecond,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

func TestBucket(t *testing.T) {
	t.Parallel()
	server := s3test.New(t, "records", "AKID")
	server.Page = 2
	objectstest.Test(t, open(t, server, "s3://records"))
	objectstest.Test(t, open(t, server, "s3://records/other/prefix/"))
}

// TestServer tests against a real server, such as one that ORCH_S3_URL names, with a bucket that is empty below a prefix.
func TestServer(t *testing.T) {
	t.Parallel()
	place := os.Getenv("ORCH_S3_PLACE")
	if place == "" {
		t.Skip("ORCH_S3_PLACE, ORCH_S3_URL and the keys of AWS name no server")
	}
	b, err := s3.Open(s3.Config{
		Place: place, URL: os.Getenv("ORCH_S3_URL"), Region: os.Getenv("AWS_REGION"),
		Credentials: s3.Credentials{KeyID: os.Getenv("AWS_ACCESS_KEY_ID"), Secret: os.Getenv("AWS_SECRET_ACCESS_KEY")},
	})
	require.NoError(t, err)
	objectstest.Test(t, b)
}

// What may succeed later is repeated, and the error of what does not is that of the server.
func TestFailures(t *testing.T) {
	t.Parallel()
	server := s3test.New(t, "records", "AKID")
	b := open(t, server, "s3://records")
	var left atomic.Int32
	fail := func(status int, code string, times int32) {
		left.Store(times)
		server.Fail(func(w http.ResponseWriter, _ *http.Request) bool {
			if left.Add(-1) < 0 {
				return false
			}
			s3test.Refuse(w, status, code)
			return true
		})
	}
	fail(http.StatusServiceUnavailable, "SlowDown", 4)
	require.NoError(t, objectstest.Put(t.Context(), b, "a", []byte("content")))
	got, err := objectstest.Get(t.Context(), b, "a", 0, -1)
	require.NoError(t, err)
	assert.Equal(t, "content", string(got), "the body is sent from its beginning each time")
	for _, c := range []struct {
		status int
		code   string
		want   fault.Code
		tries  int32
	}{
		{http.StatusServiceUnavailable, "SlowDown", fault.Unavailable, 6},
		{http.StatusTooManyRequests, "", fault.Unavailable, 6},
		{http.StatusInternalServerError, "InternalError", fault.Unavailable, 6},
		{http.StatusForbidden, "AccessDenied", fault.Forbidden, 1},
		{http.StatusMovedPermanently, "PermanentRedirect", fault.ValidationError, 1},
		{http.StatusNotFound, "NoSuchBucket", fault.NotFound, 1},
		{http.StatusBadRequest, "Weird", fault.ValidationError, 1},
	} {
		const many = 100
		fail(c.status, c.code, many)
		err := objectstest.Put(t.Context(), b, "b", []byte("x"))
		require.Error(t, err, c.code)
		assert.Equal(t, c.want, fault.CodeOf(err), c.code)
		assert.Equal(t, c.tries, many-left.Load(), c.code)
		assert.NotContains(t, err.Error(), hidden)
		assert.Contains(t, err.Error(), c.code)
	}
	server.Close()
	_, err = objectstest.Get(t.Context(), b, "a", 0, -1)
	require.Equal(t, fault.Unavailable, fault.CodeOf(err))
	assert.NotContains(t, err.Error(), hidden)
}

// A server that answers nothing, or stops in the middle of an answer, is given up.
func TestASilentServerIsGivenUp(t *testing.T) {
	t.Parallel()
	server := s3test.New(t, "records", "AKID")
	b, err := s3.Open(s3.Config{Place: "s3://records", URL: server.URL, Credentials: s3.Credentials{KeyID: "AKID", Secret: hidden}, Stall: 50 * time.Millisecond, Pause: time.Millisecond})
	require.NoError(t, err)
	server.Fail(func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	})
	_, err = objectstest.Get(t.Context(), b, "a", 0, -1)
	require.Equal(t, fault.Unavailable, fault.CodeOf(err))
	require.ErrorContains(t, err, "it makes no progress")
	server.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
		http.NewResponseController(w).Flush() //nolint:errcheck // the client reads it
		<-r.Context().Done()
		return true
	})
	got, err := objectstest.Get(t.Context(), b, "a", 0, -1)
	require.Error(t, err)
	assert.Equal(t, "half", string(got))
}

func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	server := s3test.New(t, "records", "AKID")
	b := open(t, server, "s3://records/mine")
	answer := func(text string) {
		server.Fail(func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = io.WriteString(w, text)
			return true
		})
	}
	const list = "<ListBucketResult>%s</ListBucketResult>"
	answer(strings.Replace(list, "%s", `<Contents><Key>mine/../../etc/passwd</Key></Contents><Contents><Key>yours/a</Key></Contents><Contents><Key>mine/good</Key><Size>5</Size></Contents>`, 1))
	keys, err := objectstest.List(t.Context(), b, "")
	require.NoError(t, err)
	assert.Equal(t, []string{"good"}, keys)
	answer(strings.Replace(list, "%s", `<IsTruncated>true</IsTruncated>`, 1))
	_, err = objectstest.List(t.Context(), b, "")
	require.ErrorContains(t, err, "does not go on")
	for _, text := range []string{"", "{}", "<a>", strings.Repeat("x", 9<<20)} {
		answer(text)
		_, err = objectstest.List(t.Context(), b, "")
		require.Equal(t, fault.Unavailable, fault.CodeOf(err))
	}
	answer("the whole object, although a part was asked for")
	_, err = b.Get(t.Context(), "a", 5, 5)
	require.ErrorContains(t, err, "does not send parts")
}

func TestOpenNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	good := s3.Credentials{KeyID: "a", Secret: "b"}
	for place, c := range map[string]struct {
		url   string
		creds s3.Credentials
		field string
	}{
		"s3://":              {"", good, ""},
		"s3://X":             {"", good, ""},
		"s3://ab":            {"", good, ""},
		"s3://a..b":          {"", good, ""},
		"s3://records/../a":  {"", good, ""},
		"s3://records/a b":   {"", good, ""},
		"s3://records/a":     {"", s3.Credentials{KeyID: "a"}, "s3_secret"},
		"s3://records/b":     {"ftp://x", good, "s3_url"},
		"s3://records/c":     {"https://user:hunter2@x", good, "s3_url"},
		"s3://records/d":     {"://", good, "s3_url"},
		"records/no-scheme":  {"", good, ""},
		"s3://records/./dot": {"", good, ""},
	} {
		_, err := s3.Open(s3.Config{Place: place, URL: c.url, Credentials: c.creds})
		require.Error(t, err, place)
		assert.Equal(t, c.field, fault.From(err).Field, place)
		assert.NotContains(t, err.Error(), "hunter2")
	}
}

func TestAnEndedContextEndsRepetitions(t *testing.T) {
	t.Parallel()
	server := s3test.New(t, "records", "AKID")
	b := open(t, server, "s3://records")
	ctx, cancel := context.WithCancel(t.Context())
	server.Fail(func(w http.ResponseWriter, _ *http.Request) bool {
		cancel()
		s3test.Refuse(w, http.StatusServiceUnavailable, "SlowDown")
		return true
	})
	require.Error(t, objectstest.Put(ctx, b, "a", nil))
	assert.Len(t, server.Requests(), 1)
}

// Package s3test is a server of S3 in memory, for tests: it puts, reads and lists objects, and can fail. It checks that a request is
// signed with a key, but not the signature: the vectors of AWS do that.
package s3test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is a server with one bucket.
type Server struct {
	*httptest.Server

	// Page is the number of objects on a page of a list.
	Page int

	keyID, bucket string
	mu            sync.Mutex
	objects       map[string][]byte
	// fail answers a request instead of the server, if it returns true.
	fail     func(w http.ResponseWriter, r *http.Request) bool
	requests []string
}

// New starts a server.
func New(tb testing.TB, bucket, keyID string) *Server {
	tb.Helper()
	s := &Server{Page: 1000, keyID: keyID, bucket: bucket, objects: map[string][]byte{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	tb.Cleanup(s.Close)
	return s
}

// Fail sets a function that answers requests instead of the server, if it returns true.
func (s *Server) Fail(fail func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

// Change changes the objects.
func (s *Server) Change(change func(objects map[string][]byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.objects)
}

// Requests returns the methods and paths of all requests.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Refuse answers as S3 does.
func Refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	_, _ = io.WriteString(w, xml.Header+"<Error><Code>"+code+"</Code><Message>as the test wants it</Message></Error>") // a client that has gone
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	fail := s.fail
	s.mu.Unlock()
	if fail != nil && fail(w, r) {
		return
	}
	sum := sha256.Sum256(body)
	key, inBucket := strings.CutPrefix(r.URL.Path, "/"+s.bucket+"/")
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	switch {
	case !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential="+s.keyID+"/"+at.Format("20060102")+"/us-east-1/s3/aws4_request, SignedHeaders=host;"):
		Refuse(w, http.StatusForbidden, "InvalidAccessKeyId")
	case err != nil || time.Since(at).Abs() > 15*time.Minute:
		Refuse(w, http.StatusForbidden, "RequestTimeTooSkewed")
	case r.ContentLength < 0:
		Refuse(w, http.StatusLengthRequired, "MissingContentLength")
	case r.Header.Get("X-Amz-Content-Sha256") != hex.EncodeToString(sum[:]):
		Refuse(w, http.StatusBadRequest, "XAmzContentSHA256Mismatch")
	case !inBucket:
		Refuse(w, http.StatusNotFound, "NoSuchBucket")
	case r.Method == http.MethodPut:
		s.Change(func(objects map[string][]byte) { objects[key] = body })
	case key == "":
		s.list(w, r)
	default:
		s.read(w, r, key)
	}
}

func (s *Server) read(w http.ResponseWriter, r *http.Request, key string) {
	s.mu.Lock()
	data, ok := s.objects[key]
	s.mu.Unlock()
	if !ok {
		Refuse(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(data)))
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	type object struct {
		Key  string `xml:"Key"`
		Size int    `xml:"Size"`
	}
	var answer struct {
		XMLName     xml.Name `xml:"ListBucketResult"`
		Contents    []object `xml:"Contents"`
		IsTruncated bool     `xml:"IsTruncated"`
		Next        string   `xml:"NextContinuationToken,omitempty"`
	}
	start, _ := strconv.Atoi(r.URL.Query().Get("continuation-token")) // 0 for the first page
	n := 0
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if !strings.HasPrefix(key, r.URL.Query().Get("prefix")) {
			continue
		}
		if n++; n <= start {
			continue
		}
		if len(answer.Contents) == s.Page {
			answer.IsTruncated, answer.Next = true, strconv.Itoa(n-1)
			break
		}
		answer.Contents = append(answer.Contents, object{key, len(s.objects[key])})
	}
	_ = xml.NewEncoder(w).Encode(answer) // a client that has gone
}

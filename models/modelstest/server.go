// Package modelstest has the tests that each provider with a protocol on the wire passes, and a server that speaks the
// protocols of OpenAI, Anthropic and Gemini, with faults on demand.
package modelstest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/orch-dev/orch/models"
)

// Key is the credential that the server wants.
const Key = "sk-test-9f86d081884c7d65"

// The names of the protocols.
const (
	OpenAI    = "openai"
	Anthropic = "anthropic"
	Gemini    = "gemini"
)

// Fault is what goes wrong in a stream.
type Fault string

// The faults. They happen in front of the event with the index Reply.At.
const (
	Cut             Fault = "cut"              // the connection breaks
	End             Fault = "end"              // the stream ends in order, too early
	Stall           Fault = "stall"            // nothing more arrives
	BadJSON         Fault = "bad json"         // an event is half an object
	BadSSE          Fault = "bad sse"          // lines that are no fields arrive, and then the rest
	LongLine        Fault = "long line"        // a line has 5 MiB
	Unknown         Fault = "unknown"          // events and fields arrive that no client knows, and then the rest
	Failure         Fault = "failure"          // an error arrives as an event
	Endless         Fault = "endless"          // the text of the answer never ends
	EndlessComments Fault = "endless comments" // comments arrive for ever
)

// Reply is how the server answers a request.
type Reply struct {
	// Answer is the answer, of which text, calls, opaque parts of the protocol, stop and usage are sent.
	Answer models.Answer
	// Piece is the size of the pieces of texts and arguments; 0 means 8 bytes.
	Piece int
	// Fault goes wrong in front of the event with the index At.
	Fault Fault
	At    int
	// Status fails the request, with Message and Headers.
	Status  int
	Message string
	Headers map[string]string
	// ContentType replaces the type of the answer.
	ContentType string
}

// Seen is a request that arrived.
type Seen struct {
	// N is its number, from 1.
	N int
	// Wire is its protocol.
	Wire    string
	Path    string
	Headers http.Header
	Body    json.RawMessage
}

// Server speaks the protocols.
type Server struct {
	// URL is its address. Those of the interfaces are below it, as BaseURL says.
	URL string

	reply func(Seen) Reply
	count atomic.Int64
}

// NewServer starts a server that answers each request with a reply, which is called concurrently. It stops at the end of
// the test.
func NewServer(tb testing.TB, reply func(Seen) Reply) *Server {
	tb.Helper()
	s := &Server{reply: reply}
	server := httptest.NewServer(s)
	tb.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// BaseURL returns the address of the interface for a protocol.
func (s *Server) BaseURL(wire string) string {
	if wire == Gemini {
		return s.URL + "/v1beta"
	}
	return s.URL + "/v1"
}

// frame is an event of a stream.
type frame struct {
	event string
	data  any
}

// dialect encodes the answers of a protocol.
type dialect struct {
	wire    string
	key     func(h http.Header) string
	frames  func(a models.Answer, piece int) []frame
	failure func(status int, message string) any
	// text is an event that continues the text.
	text func(text string) frame
}

// dialects returns the protocols by the end of the path of their requests.
func dialects() map[string]dialect {
	return map[string]dialect{
		"/chat/completions":      openAI(),
		"/messages":              anthropic(),
		":streamGenerateContent": gemini(),
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	for end, d := range dialects() {
		if strings.HasSuffix(r.URL.Path, end) {
			s.serve(w, r, d, body)
			return
		}
	}
	http.NotFound(w, r)
}

// serve answers a request of a protocol.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, d dialect, body []byte) {
	seen := Seen{N: int(s.count.Add(1)), Wire: d.wire, Path: r.URL.Path, Headers: r.Header, Body: body}
	reply := s.reply(seen)
	switch {
	case d.key(r.Header) != Key:
		reply = Reply{Status: http.StatusUnauthorized, Message: "no such credential"}
	case !json.Valid(body) || r.Method != http.MethodPost:
		reply = Reply{Status: http.StatusBadRequest, Message: "the body is no JSON"}
	case reply.Piece == 0:
		reply.Piece = 8
	}
	for name, value := range reply.Headers {
		w.Header().Set(name, value)
	}
	if reply.Status != 0 {
		refuse(w, d, reply)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	if reply.ContentType != "" {
		w.Header().Set("Content-Type", reply.ContentType)
	}
	w.WriteHeader(http.StatusOK)
	out := &stream{ResponseWriter: w, gone: r.Context().Done(), dialect: d, reply: reply}
	out.play(d.frames(own(reply.Answer, d.wire), reply.Piece))
}

// own returns an answer without the opaque parts of other protocols.
func own(a models.Answer, wire string) models.Answer {
	a.Message.Parts = slices.DeleteFunc(slices.Clone(a.Message.Parts), func(p models.Part) bool {
		return p.Opaque != nil && p.Opaque.Wire != wire
	})
	return a
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, d dialect, reply Reply) {
	w.Header().Set("Content-Type", "application/json")
	if reply.ContentType != "" {
		w.Header().Set("Content-Type", reply.ContentType)
	}
	w.WriteHeader(reply.Status)
	_ = json.NewEncoder(w).Encode(d.failure(reply.Status, reply.Message)) // the client may be gone
}

// stream writes the events of one answer.
type stream struct {
	http.ResponseWriter

	gone    <-chan struct{}
	dialect dialect
	reply   Reply
}

// play writes frames, with the fault in front of one of them.
func (s *stream) play(frames []frame) {
	for i, f := range frames {
		if i == s.reply.At && s.reply.Fault != "" && !s.fault() {
			return
		}
		if s.reply.Fault == Unknown {
			f.data = strange(f.data)
		}
		s.write(f)
	}
}

// fault does what goes wrong. It reports whether the answer goes on.
func (s *stream) fault() (goesOn bool) {
	switch s.reply.Fault {
	case Cut:
		panic(http.ErrAbortHandler)
	case Stall:
		<-s.gone
	case BadJSON:
		s.raw("data: {\"choices\": [\n\n")
	case BadSSE:
		s.raw("\x00\xff\xfe\nhello\n:\nid\nretry: soon\n\n\n")
		return true
	case LongLine:
		s.raw("data: " + strings.Repeat("x", 5<<20) + "\n\n")
	case Unknown:
		s.raw("event: from_the_future\nid: 7\nretry: 10\ndata: {\"type\": \"from_the_future\", \"future\": {\"x\": []}}\n\n")
		return true
	case Failure:
		s.write(frame{"error", s.dialect.failure(529, "overloaded, try later")})
	case Endless:
		f := s.dialect.text(strings.Repeat("ha ", 20_000))
		for s.write(f) {
		}
	case EndlessComments:
		for line := strings.Repeat(": "+strings.Repeat("still here ", 100)+"\n", 50); s.raw(line); {
		}
	case End:
	}
	return false
}

// write writes an event. It reports whether the client is still there.
func (s *stream) write(f frame) bool { return s.raw(f.text()) }

// text returns the lines of an event.
func (f frame) text() string {
	data, ok := f.data.(string)
	if !ok {
		text, err := json.Marshal(f.data)
		if err != nil {
			panic(err) // a mistake in this package
		}
		data = string(text)
	}
	if f.event != "" {
		return "event: " + f.event + "\ndata: " + data + "\n\n"
	}
	return "data: " + data + "\n\n"
}

func (s *stream) raw(text string) bool {
	if _, err := io.WriteString(s, text); err != nil {
		return false
	}
	return http.NewResponseController(s.ResponseWriter).Flush() == nil
}

// strange adds fields to an object that no client knows.
func strange(data any) any {
	object, ok := data.(map[string]any)
	if !ok {
		return data
	}
	object = maps.Clone(object)
	object["from_the_future"] = map[string]any{"list": []any{1, nil, "x"}}
	return object
}

// pieces divides a text into pieces of about n bytes, at the borders of characters.
func pieces(text string, n int) []string {
	var list []string
	for text != "" {
		end := min(n, len(text))
		for end < len(text) && text[end]&0xC0 == 0x80 {
			end++
		}
		list = append(list, text[:end])
		text = text[end:]
	}
	return list
}

// object is an object of JSON.
type object = map[string]any

// numbered returns the id of a call that has none.
func numbered(id string, n int) string {
	if id != "" {
		return id
	}
	return fmt.Sprintf("call_%04d", n)
}

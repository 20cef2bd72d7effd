package hooks

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
)

// Stream says which messages a hook of the provider nats takes.
type Stream struct {
	// Name is the name of the stream.
	Name string `json:"stream"`
	// Subject chooses messages by their subjects, with the wildcards of NATS; empty for all.
	Subject string `json:"subject,omitempty"`
	// From says where the hook begins in the stream. Default: FromNew.
	From From `json:"from,omitempty"`
}

// From says where a hook begins in a stream.
type From string

// The places to begin at.
const (
	// FromNew begins with the first message after the definition.
	FromNew From = "new"
	// FromAll begins with the first message that the stream has.
	FromAll From = "all"
)

// Froms returns all places to begin at.
func Froms() []From { return []From{FromNew, FromAll} }

// maxSubject bounds a subject with wildcards, in bytes.
const maxSubject = 256

var (
	streamForm  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	subjectForm = regexp.MustCompile(`^[!-~]+$`)
)

// checkStream checks the stream of a definition, which hooks of the provider nats alone have.
func (d *Definition) checkStream() error {
	s := d.NATS
	switch {
	case s == nil && d.Provider == NATS:
		return fault.New(fault.RequiredField, "is missing").WithField("nats.stream").WithHint("the name of a stream of the NATS server")
	case s == nil:
		return nil
	case d.Provider != NATS:
		return fault.New(fault.ValidationError, "only a hook of the provider nats has a stream").WithField("nats")
	case s.Name == "":
		return fault.New(fault.RequiredField, "is missing").WithField("nats.stream").WithHint("the name of a stream of the NATS server")
	case !streamForm.MatchString(s.Name):
		return fault.New(fault.InvalidFormat, "%q is not 1 to 64 letters, digits, '_' or '-'", clip(s.Name)).WithField("nats.stream")
	case isOwnStream(s.Name):
		return fault.New(fault.ValidationError, "%s is a stream of orch, or a bucket", s.Name).WithField("nats.stream").
			WithHint("a hook takes the messages of a stream of yours; buckets are not supported")
	case s.From != "" && s.From != FromNew && s.From != FromAll:
		return fault.New(fault.ValidationError, "%q is not a place to begin at", clip(string(s.From))).WithField("nats.from").WithHint("use %s or %s", FromNew, FromAll)
	default:
		return checkSubject(s.Subject)
	}
}

// isOwnStream reports whether a stream is one of orch, or the stream of a bucket.
func isOwnStream(name string) bool {
	for _, start := range []string{"ORCH_", "KV_", "OBJ_"} {
		if strings.HasPrefix(name, start) {
			return true
		}
	}
	return false
}

// IsOwnSubject reports whether a subject is one of orch or of the NATS server.
func IsOwnSubject(subject string) bool {
	first, _, _ := strings.Cut(subject, ".")
	return first == "orch" || strings.HasPrefix(first, "$") || strings.HasPrefix(first, "_INBOX")
}

// checkSubject checks a subject with wildcards; empty is for all subjects.
func checkSubject(subject string) error {
	if subject == "" {
		return nil
	}
	f := func(format string, args ...any) error {
		return fault.New(fault.InvalidFormat, format, args...).WithField("nats.subject").WithHint("such as orders.*.created, or orders.>")
	}
	switch {
	case len(subject) > maxSubject:
		return f("has %d bytes, the limit is %d", len(subject), maxSubject)
	case !subjectForm.MatchString(subject):
		return f("contains a space, or other characters than visible ASCII")
	case IsOwnSubject(subject):
		return fault.New(fault.ValidationError, "%q is a subject of orch or of the NATS server", clip(subject)).WithField("nats.subject")
	}
	tokens := strings.Split(subject, ".")
	for i, token := range tokens {
		switch {
		case token == "":
			return f("%q has an empty part", clip(subject))
		case len(token) > 1 && strings.ContainsAny(token, "*>"), token == ">" && i < len(tokens)-1:
			return f("%q has a wildcard in a wrong place", clip(subject))
		}
	}
	return nil
}

// Takes reports whether messages with a subject are chosen.
func (s *Stream) Takes(subject string) bool {
	if s.Subject == "" {
		return true
	}
	tokens := strings.Split(subject, ".")
	want := strings.Split(s.Subject, ".")
	for i, token := range want {
		switch {
		case i >= len(tokens):
			return false
		case token == ">":
			return true
		case token != "*" && token != tokens[i]:
			return false
		}
	}
	return len(tokens) == len(want)
}

// Literal returns the only subject that is chosen; empty if there may be others.
func (s *Stream) Literal() string {
	if strings.ContainsAny(s.Subject, "*>") {
		return ""
	}
	return s.Subject
}

// Message is a message of a stream.
type Message struct {
	Stream, Subject string
	// Position is its position in the stream, At the time at which the stream has stored it.
	Position uint64
	At       time.Time
	// Tries is how often it was handed out, this time included.
	Tries   uint64
	Headers Headers
	Body    []byte
}

// ID returns the id of the delivery of a message. The time is in it because a stream that is made again, or restored from a backup,
// gives positions a second time.
func (m *Message) ID() string {
	return m.Stream + ":" + strconv.FormatUint(m.Position, 10) + ":" + strconv.FormatInt(m.At.UnixNano(), 10)
}

// Consumer is the place of a hook in a stream, which the NATS server keeps.
type Consumer struct {
	Stream, Subject string
	// Name is the name of the durable consumer.
	Name string
	// Since is the time of the first message; the zero time for the first message that the stream has.
	Since time.Time
}

// Package wire has the messages of Firestore's protocol that its client needs, as google.firestore.v1 describes them.
//
// Values are those of JSON: nil, bool, float64, string, []any and map[string]any. What is read that JSON lacks becomes
// what its form in the REST protocol is: times and references are strings, bytes base64, a place its two numbers.
package wire

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// tag is the number of a field with the type of what follows.
type tag uint64

// The types of fields.
const (
	varint  tag = 0
	fixed64 tag = 1
	bytes   tag = 2
)

// message is a message that is being written.
type message []byte

func (m message) number(t tag, v uint64) message {
	return protowire.AppendVarint(protowire.AppendVarint(m, uint64(t)), v)
}

func (m message) truth(t tag, v bool) message { return m.number(t, protowire.EncodeBool(v)) }

func (m message) fixed(t tag, v uint64) message {
	return protowire.AppendFixed64(protowire.AppendVarint(m, uint64(t)), v)
}

func (m message) text(t tag, v string) message {
	return protowire.AppendString(protowire.AppendVarint(m, uint64(t)), v)
}

func (m message) bytes(t tag, v []byte) message {
	return protowire.AppendBytes(protowire.AppendVarint(m, uint64(t)), v)
}

// field is a field of a message that is being read.
type field struct {
	tag   tag
	bits  uint64
	bytes []byte
}

var errText = errors.New("a text of the protocol is no valid UTF-8")

// text returns the text of a field.
func (f field) text() (string, error) {
	if !utf8.Valid(f.bytes) {
		return "", errText
	}
	return string(f.bytes), nil
}

// numbers adds the numbers of a field, of which it may hold many.
func (f field) numbers(all []int32) ([]int32, error) {
	if f.tag&7 == varint {
		return append(all, int32(f.bits)), nil //nolint:gosec // the protocol cuts it off
	}
	for rest := f.bytes; len(rest) > 0; {
		v, n := protowire.ConsumeVarint(rest)
		if n < 0 {
			return nil, malformed(n)
		}
		all, rest = append(all, int32(v)), rest[n:] //nolint:gosec // the protocol cuts it off
	}
	return all, nil
}

func malformed(n int) error {
	return fmt.Errorf("a message of the protocol is malformed: %w", protowire.ParseError(n))
}

// read gives the fields of a message to use, in their order. Groups are passed over.
func read(m []byte, use func(field) error) error {
	for len(m) > 0 {
		number, kind, n := protowire.ConsumeTag(m)
		if n < 0 {
			return malformed(n)
		}
		m = m[n:]
		f := field{tag: tag(protowire.EncodeTag(number, kind))}
		switch kind {
		case protowire.VarintType:
			f.bits, n = protowire.ConsumeVarint(m)
		case protowire.Fixed64Type:
			f.bits, n = protowire.ConsumeFixed64(m)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(m)
		default:
			n = protowire.ConsumeFieldValue(number, kind, m)
		}
		if n < 0 {
			return malformed(n)
		}
		m = m[n:]
		if err := use(f); err != nil {
			return err
		}
	}
	return nil
}

// The fields of google.protobuf.Timestamp.
const (
	timeSeconds = 1<<3 | varint
	timeNanos   = 2<<3 | varint
)

func timestamp(at time.Time) message {
	return message(nil).number(timeSeconds, uint64(at.Unix())).number(timeNanos, uint64(at.Nanosecond())) //nolint:gosec // the protocol's form of a negative number
}

// The times that the protocol knows: the years 1 to 9999.
const (
	firstSecond = -62135596800
	lastSecond  = 253402300799
)

func readTime(m []byte) (time.Time, error) {
	var seconds, nanos int64
	err := read(m, func(f field) error {
		switch f.tag {
		case timeSeconds:
			seconds = int64(f.bits) //nolint:gosec // the protocol's form of a negative number
		case timeNanos:
			nanos = int64(int32(f.bits)) //nolint:gosec // the protocol cuts it off
		default:
		}
		return nil
	})
	if err == nil && (seconds < firstSecond || seconds > lastSecond || nanos < 0 || nanos >= int64(time.Second)) {
		err = fmt.Errorf("the protocol has no time of %d seconds and %d nanoseconds", seconds, nanos)
	}
	return time.Unix(seconds, nanos).UTC(), err
}

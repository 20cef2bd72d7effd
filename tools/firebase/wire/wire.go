// Package wire encodes and decodes the messages of the Firestore protocol (google.firestore.v1) that package docstore uses.
//
// Values are decoded JSON: nil, bool, float64, string, []any and map[string]any. Other types of values are decoded as in the
// REST API: timestamps and references as strings, bytes as base64, and a geo point as an object of its two numbers.
package wire

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// tag is the number of a field together with the type of its value, as in the encoding.
type tag uint64

// The types of field values.
const (
	varint  tag = 0
	fixed64 tag = 1
	bytes   tag = 2
)

// message is an encoded message. Its methods append a field.
type message []byte

func (m message) number(t tag, v uint64) message {
	return protowire.AppendVarint(protowire.AppendVarint(m, uint64(t)), v)
}

func (m message) boolean(t tag, v bool) message { return m.number(t, protowire.EncodeBool(v)) }

func (m message) fixed(t tag, v uint64) message {
	return protowire.AppendFixed64(protowire.AppendVarint(m, uint64(t)), v)
}

func (m message) text(t tag, v string) message {
	return protowire.AppendString(protowire.AppendVarint(m, uint64(t)), v)
}

func (m message) bytes(t tag, v []byte) message {
	return protowire.AppendBytes(protowire.AppendVarint(m, uint64(t)), v)
}

// field is a decoded field of a message.
type field struct {
	tag   tag
	bits  uint64
	bytes []byte
}

var errText = errors.New("a text of the protocol is no valid UTF-8")

// text returns the value of a string field. It returns an error if the value is not valid UTF-8.
func (f field) text() (string, error) {
	if !utf8.Valid(f.bytes) {
		return "", errText
	}
	return string(f.bytes), nil
}

// numbers appends the int32 values of a field, which may contain several, to all.
func (f field) numbers(all []int32) ([]int32, error) {
	if f.tag&7 == varint {
		return append(all, int32(f.bits)), nil //nolint:gosec // an int32 is encoded in 64 bits; the upper bits are dropped
	}
	for rest := f.bytes; len(rest) > 0; {
		v, n := protowire.ConsumeVarint(rest)
		if n < 0 {
			return nil, malformed(n)
		}
		all, rest = append(all, int32(v)), rest[n:] //nolint:gosec // an int32 is encoded in 64 bits; the upper bits are dropped
	}
	return all, nil
}

func malformed(n int) error {
	return fmt.Errorf("a message of the protocol is malformed: %w", protowire.ParseError(n))
}

// read calls use with each field of a message, in order. It decodes only values of the types varint, fixed64 and bytes.
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
	return message(nil).number(timeSeconds, uint64(at.Unix())).number(timeNanos, uint64(at.Nanosecond())) //nolint:gosec // negative numbers are encoded in two's complement
}

// The minimum and the maximum of a timestamp in seconds since 1970: the years 1 to 9999.
const (
	firstSecond = -62135596800
	lastSecond  = 253402300799
)

func readTime(m []byte) (time.Time, error) {
	var seconds, nanos int64
	err := read(m, func(f field) error {
		switch f.tag {
		case timeSeconds:
			seconds = int64(f.bits) //nolint:gosec // negative numbers are encoded in two's complement
		case timeNanos:
			nanos = int64(int32(f.bits)) //nolint:gosec // an int32 is encoded in 64 bits; the upper bits are dropped
		default:
		}
		return nil
	})
	if err == nil && (seconds < firstSecond || seconds > lastSecond || nanos < 0 || nanos >= int64(time.Second)) {
		err = fmt.Errorf("the protocol has no time of %d seconds and %d nanoseconds", seconds, nanos)
	}
	return time.Unix(seconds, nanos).UTC(), err
}

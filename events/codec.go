package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/orch-dev/orch/fault"
)

// Encode returns the wire form of a commit: compact JSON with a fixed order of fields. It returns VALIDATION_ERROR for
// a commit that is nested too deeply to be decoded again.
func Encode(c *Commit) ([]byte, error) {
	w := writers.Get().(*writer) //nolint:forcetypeassert // nothing else is put there
	defer w.release()
	w.b = append(w.b, '{')
	w.number("v", Version)
	w.text("task", string(c.Task))
	w.name("rev")
	w.b = strconv.AppendUint(w.b, c.Rev, 10)
	w.name("at")
	w.b = append(c.At.UTC().AppendFormat(append(w.b, '"'), time.RFC3339Nano), '"')
	w.text("actor", c.Actor)
	w.textIf("cause", c.Cause)
	w.textIf("prev", c.Prev)
	w.b = append(w.b, `,"events":[`...)
	for i, e := range c.Events {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = append(append(append(w.b, `{"kind":"`...), e.Kind...), `","data":`...)
		w.payload(e.Data)
		w.b = append(w.b, '}')
	}
	if w.b = append(w.b, `]}`...); w.err == nil && !readable(w.b) {
		w.err = fault.New(fault.ValidationError, "a commit is nested more than %d deep", maxNesting)
	}
	return bytes.Clone(w.b), w.err
}

// lenient accepts everything that encoding/json writes. Duplicate names and invalid UTF-8 may occur in the output of
// tools.
var lenient = jsonv2.JoinOptions(
	jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsonv1.FormatDurationAsNano(true),
)

// strict is lenient, except that it refuses fields that this program does not know. A newer program has written them, and they may change
// what the event means.
var strict = jsonv2.JoinOptions(lenient, jsonv2.RejectUnknownMembers(true))

// Upcaster converts the data of an event of an older version to the current shape. It returns its arguments when there
// is nothing to convert.
type Upcaster func(version int, kind Kind, data json.RawMessage) (Kind, json.RawMessage, error)

type wireCommit struct {
	V      int         `json:"v"`
	Task   TaskID      `json:"task"`
	Rev    uint64      `json:"rev"`
	At     time.Time   `json:"at"`
	Actor  string      `json:"actor"`
	Cause  string      `json:"cause"`
	Prev   string      `json:"prev"`
	Events []wireEvent `json:"events"`
}

type wireEvent struct {
	Kind Kind            `json:"kind"`
	Data json.RawMessage `json:"data"`
}

// Decode parses the wire form. It returns NEWER_STORE for a version, a kind or a field of an event that this program does not know, and
// DATA_LOSS for anything else that it cannot parse: an unreadable history is never skipped.
func Decode(data []byte, up ...Upcaster) (*Commit, error) {
	var w wireCommit
	if err := jsonv2.Unmarshal(data, &w, lenient); err != nil {
		if v := versionIn(data); v > Version { // a field may have another type there
			return nil, newerCommit(v)
		}
		return nil, fault.Wrap(fault.DataLoss, err, "a commit of the log is not valid JSON")
	}
	if w.V < 1 {
		return nil, fault.New(fault.DataLoss, "a commit of the log has no version")
	}
	if w.V > Version {
		return nil, newerCommit(w.V)
	}
	if err := w.check(); err != nil {
		return nil, err
	}
	c := &Commit{Task: w.Task, Rev: w.Rev, At: w.At, Actor: w.Actor, Cause: w.Cause, Prev: w.Prev, Events: make([]Event, len(w.Events))}
	for i, e := range w.Events {
		var err error
		if c.Events[i], err = decodeEvent(w.V, e, up, strict); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// versionIn returns the version of a commit of any form; 0 if it has none or is not valid JSON.
func versionIn(data []byte) int {
	var w struct {
		V int `json:"v"`
	}
	if err := jsonv2.Unmarshal(data, &w, lenient); err != nil {
		return 0
	}
	return w.V
}

func newerCommit(version int) error {
	return newer("a commit has version %d; this orch reads 1 to %d", version, Version)
}

// newer returns the error for data of a later version. The data is not damaged: that version can read it.
func newer(format string, args ...any) error {
	return fault.New(fault.NewerStore, format, args...).WithHint("use the newer orch that has written it")
}

// check validates the fields that Encode writes without escaping.
func (w *wireCommit) check() error {
	year := w.At.UTC().Year()
	switch {
	case len(w.Events) == 0 || w.Rev == 0:
		return fault.New(fault.DataLoss, "a commit of the log has no events or no revision")
	case year < 1 || year > 9999:
		return fault.New(fault.DataLoss, "a commit of the log has no usable time")
	case w.Prev != "" && !isHash(w.Prev):
		return fault.New(fault.DataLoss, "a commit of the log has a damaged link to the one before")
	}
	if _, err := ParseTaskID(string(w.Task)); err != nil {
		return fault.Wrap(fault.DataLoss, err, "a commit of the log belongs to no task")
	}
	return nil
}

func decodeEvent(version int, w wireEvent, up []Upcaster, opts jsonv2.Options) (Event, error) {
	for _, cast := range up {
		var err error
		if w.Kind, w.Data, err = cast(version, w.Kind, w.Data); err != nil {
			return Event{}, fault.Wrap(fault.DataLoss, err, "an old event cannot be read")
		}
	}
	p := newPayload(w.Kind)
	if p == nil {
		return Event{}, newer("the log holds an event of the unknown kind %q", w.Kind)
	}
	if len(w.Data) == 0 || w.Data[0] != '{' {
		return Event{}, fault.New(fault.DataLoss, "an event %s has no data", w.Kind)
	}
	switch err := jsonv2.Unmarshal(w.Data, p, opts); {
	case errors.Is(err, jsonv2.ErrUnknownName):
		return Event{}, newer("an event %s has a field that this orch does not know: %v", w.Kind, err)
	case err != nil:
		return Event{}, fault.Wrap(fault.DataLoss, err, "the data of an event "+string(w.Kind)+" is damaged")
	}
	return Event{Kind: w.Kind, Data: p}, nil
}

// MarshalJSON writes {"kind":…,"data":…}, the form of an event outside a commit.
func (e Event) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Kind Kind    `json:"kind"`
		Data Payload `json:"data"`
	}{e.Kind, e.Data})
}

// UnmarshalJSON is the inverse of MarshalJSON. It ignores fields that this program does not know, which a newer node may send.
func (e *Event) UnmarshalJSON(data []byte) error {
	var w wireEvent
	if err := jsonv2.Unmarshal(data, &w, lenient); err != nil {
		return fault.Wrap(fault.InvalidFormat, err, "an event is not valid JSON")
	}
	decoded, err := decodeEvent(Version, w, nil, lenient)
	if err != nil {
		return err
	}
	*e = decoded
	return nil
}

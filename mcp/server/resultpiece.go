package server

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// maxPiece is the most bytes of a result in one piece. A resultPiece with that much text is below maxResult, so that it is not
// shortened.
const maxPiece = 15 << 10

// resultPiece is a piece of a large result.
type resultPiece struct {
	TaskID events.TaskID `json:"task_id"`
	Field  string        `json:"field,omitempty"`
	Offset int           `json:"offset"`
	// Next is the offset of the next piece; nil after the last.
	Next *int   `json:"next_offset,omitempty"`
	Size int    `json:"size"`
	Text string `json:"text"`
}

// pieceOf returns the requested piece of a result: of the field in.Field, or of the whole JSON if that is empty.
func pieceOf(r api.ResultReply, in *ownInput) (resultPiece, error) {
	text, err := fieldText(callResult(r.Output), in.Field)
	if err != nil {
		return resultPiece{}, err
	}
	from := 0
	if in.Offset != nil {
		from = *in.Offset
	}
	if from < 0 || from > len(text) {
		return resultPiece{}, fault.New(fault.ValidationError, "must be between 0 and %d, the size in bytes", len(text)).WithField("offset")
	}
	for from > 0 && from < len(text) && !utf8.RuneStart(text[from]) {
		from--
	}
	piece := resultPiece{TaskID: r.ID, Field: in.Field, Offset: from, Size: len(text), Text: text[from:]}
	if len(piece.Text) > maxPiece {
		piece.Text = beginning(piece.Text, maxPiece)
		next := from + len(piece.Text)
		piece.Next = &next
	}
	return piece, nil
}

// callResult returns the result of a task's only call, or the outputs of a plan.
func callResult(output json.RawMessage) json.RawMessage {
	fields, err := fieldsInOrder(output)
	if err == nil && len(fields) == 1 && fields[0].name == "result" && fields[0].raw[0] == '{' {
		return fields[0].raw
	}
	return output
}

// fieldText returns the value of a field: a string as its text, any other value as JSON. Without a name it returns the whole
// output.
func fieldText(output json.RawMessage, name string) (string, error) {
	if name == "" {
		return string(output), nil
	}
	fields, err := fieldsInOrder(output)
	if err != nil {
		return "", fault.New(fault.ValidationError, "the result has no fields").WithField("field")
	}
	var names []string
	for _, f := range fields {
		switch names = append(names, f.name); {
		case f.name != name:
		case f.raw[0] == '"':
			return f.text, nil
		default:
			return string(f.raw), nil
		}
	}
	return "", fault.New(fault.ValidationError, "the result has no such field").WithField("field").WithHint("it has %s", strings.Join(names, ", "))
}

// flatten returns the result of a task as one object: the fields of r, followed by the fields of the output. If names collide,
// the output remains a nested object.
func flatten(r api.ResultReply) any {
	output := callResult(r.Output)
	r.Output = nil
	own := mustJSON(r)
	fields, err := fieldsInOrder(output)
	known, _ := fieldsInOrder(own)
	if err != nil || len(fields) == 0 || overlap(fields, known) {
		r.Output = output
		return r
	}
	return json.RawMessage(string(own[:len(own)-1]) + "," + string(output[1:]))
}

func overlap(a, b []shownField) bool {
	names := map[string]bool{}
	for _, f := range a {
		names[f.name] = true
	}
	for _, f := range b {
		if names[f.name] {
			return true
		}
	}
	return false
}

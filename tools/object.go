package tools

import "encoding/json"

// Object is a free JSON object in the input or output of a tool. It preserves the original text, so that large
// integers, the order of keys and nulls survive (S0-175). Only white space between tokens is lost when it is written.
type Object json.RawMessage

// MarshalJSON returns the original text, or {} for an empty Object.
func (o Object) MarshalJSON() ([]byte, error) {
	if len(o) == 0 {
		return []byte("{}"), nil
	}
	return o, nil
}

// UnmarshalJSON stores a copy of data.
func (o *Object) UnmarshalJSON(data []byte) error {
	*o = append((*o)[:0], data...)
	return nil
}

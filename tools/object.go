package tools

import "encoding/json"

// Object is a free JSON object in the input or output of a tool. It keeps the text as it came, so that
// large integers, the order of keys and nulls survive (S0-175); only white space between the parts is
// lost when it is written.
type Object json.RawMessage

// MarshalJSON writes the text as it is, {} for a nil Object.
func (o Object) MarshalJSON() ([]byte, error) {
	if len(o) == 0 {
		return []byte("{}"), nil
	}
	return o, nil
}

// UnmarshalJSON keeps a copy of data.
func (o *Object) UnmarshalJSON(data []byte) error {
	*o = append((*o)[:0], data...)
	return nil
}

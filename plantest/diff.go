package plantest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Difference is a value that differs from the expected one.
type Difference struct {
	At   string `json:"at"`
	Want any    `json:"want"`
	Got  any    `json:"got"`
	// Note explains what happened.
	Note string `json:"note,omitempty"`
}

// String formats the difference in one line.
func (d Difference) String() string {
	text := fmt.Sprintf("%s: expected %s, but it is %s", d.At, short(d.Want), short(d.Got))
	if d.Note != "" {
		text += " (" + d.Note + ")"
	}
	return text
}

func short(v any) string {
	const limit = 200
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if text := []rune(string(raw)); len(text) > limit {
		return string(text[:limit]) + "…"
	}
	return string(raw)
}

// differences compares a value with the expected one. In objects it compares only the expected keys. Any other value
// must be equal.
func differences(at string, want, got any) []Difference {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			break
		}
		var all []Difference
		for _, key := range slices.Sorted(maps.Keys(want)) {
			all = append(all, differences(at+"."+key, want[key], object[key])...)
		}
		return all
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			break
		}
		var all []Difference
		for i := range want {
			all = append(all, differences(fmt.Sprintf("%s[%d]", at, i), want[i], list[i])...)
		}
		return all
	}
	if reflect.DeepEqual(want, got) {
		return nil
	}
	return []Difference{{At: at, Want: want, Got: got}}
}

// plain returns v after encoding and decoding it as JSON.
func plain(v any) any {
	raw, err := rawOf(v)
	if err != nil {
		return v
	}
	var clean any
	if json.Unmarshal(raw, &clean) != nil {
		return v
	}
	return clean
}

package evals

import (
	"encoding/json"
	"strconv"
	"strings"
)

// valueAt returns the value at a path such as bugs[0].line in a JSON text; "" is the whole. ok is false if there is none.
func valueAt(raw json.RawMessage, at string) (v any, ok bool) {
	if len(raw) == 0 || json.Unmarshal(raw, &v) != nil {
		return nil, false
	}
	for _, step := range strings.FieldsFunc(at, func(c rune) bool { return c == '.' || c == '[' || c == ']' }) {
		switch inner := v.(type) {
		case map[string]any:
			v, ok = inner[step]
		case []any:
			i, err := strconv.Atoi(step)
			if ok = err == nil && i >= 0 && i < len(inner); ok {
				v = inner[i]
			}
		default:
			ok = false
		}
		if !ok {
			return nil, false
		}
	}
	return v, true
}

package refusal

import "fmt"

// KindOf returns a description of the type of a decoded JSON value, such as "a string", for error messages.
func KindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case float64:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	default:
		return fmt.Sprintf("value of the Go type %T", value)
	}
}

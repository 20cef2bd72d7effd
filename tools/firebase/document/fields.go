package document

import (
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// Fields is the content of a document. It must not be modified; Value returns a copy.
type Fields map[string]any

// New returns the content of a document from JSON data. Errors: INVALID_DATA_TYPE for data that is not an object and
// for nested arrays, VALIDATION_ERROR for an invalid field name, SIZE_LIMIT_EXCEEDED.
func New(data any) (Fields, error) {
	object, err := objectOf(data)
	if err != nil {
		return nil, err.WithField("data")
	}
	fields := make(Fields, len(object))
	for name, value := range object {
		if fields[name], err = field(name, value); err != nil {
			return nil, err.WithField("data")
		}
	}
	return fields, nil
}

func objectOf(data any) (map[string]any, *fault.Error) {
	object, ok := data.(map[string]any)
	if !ok {
		return nil, refusal.New(refusal.InvalidDataType, "a document is an object, this is %s", refusal.KindOf(data))
	}
	return object, nil
}

// field returns a validated copy of a field of a document.
func field(name string, value any) (any, *fault.Error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	return clone(value, 1)
}

func checkName(name string) *fault.Error {
	switch {
	case name == "":
		return refusal.New(refusal.ValidationError, "the name of a field is empty")
	case len(name) > MaxID:
		return refusal.New(refusal.ValidationError, "the name of a field has %d bytes, at most %d", len(name), MaxID)
	case !utf8.ValidString(name):
		return refusal.New(refusal.ValidationError, "the name of the field %q is not valid UTF-8", name)
	case reserved(name):
		return refusal.New(refusal.ValidationError, "the name of the field %q is reserved", name)
	default:
		return nil
	}
}

// clone returns a validated copy of a value. depth is its depth in the document; fields have depth 1.
func clone(value any, depth int) (any, *fault.Error) {
	switch v := value.(type) {
	case nil, bool, float64:
		return v, nil
	case string:
		if len(v) > MaxString {
			return nil, refusal.New(refusal.SizeLimitExceeded, "a string has %d bytes, at most %d", len(v), MaxString)
		}
		return v, nil
	case []any:
		return cloneArray(v, depth)
	case map[string]any:
		return cloneObject(v, depth)
	default:
		return nil, refusal.New(refusal.InvalidDataType, "the database stores no %s", refusal.KindOf(value))
	}
}

// checkDepth rejects an array or an object that is nested too deeply.
func checkDepth(depth int) *fault.Error {
	if depth > MaxDepth {
		return refusal.New(refusal.SizeLimitExceeded, "the data is more than %d levels deep", MaxDepth)
	}
	return nil
}

func cloneArray(values []any, depth int) (any, *fault.Error) {
	if err := checkDepth(depth); err != nil {
		return nil, err
	}
	copied := make([]any, len(values))
	for i, value := range values {
		if _, nested := value.([]any); nested {
			return nil, refusal.New(refusal.InvalidDataType, "an array cannot contain an array").
				WithHint("put an object between the two")
		}
		var err *fault.Error
		if copied[i], err = clone(value, depth+1); err != nil {
			return nil, err
		}
	}
	return copied, nil
}

func cloneObject(object map[string]any, depth int) (any, *fault.Error) {
	if err := checkDepth(depth); err != nil {
		return nil, err
	}
	copied := make(map[string]any, len(object))
	for name, value := range object {
		err := checkName(name)
		if err == nil {
			copied[name], err = clone(value, depth+1)
		}
		if err != nil {
			return nil, err
		}
	}
	return copied, nil
}

// Value returns a deep copy of the content as decoded JSON.
func (f Fields) Value() map[string]any { return copyObject(f) }

func copyObject(object map[string]any) map[string]any {
	copied := make(map[string]any, len(object))
	for name, value := range object {
		copied[name] = copyValue(value)
	}
	return copied
}

func copyValue(value any) any {
	switch v := value.(type) {
	case []any:
		copied := make([]any, len(v))
		for i, element := range v {
			copied[i] = copyValue(element)
		}
		return copied
	case map[string]any:
		return copyObject(v)
	default:
		return v
	}
}

// Equal reports whether two documents have the same content.
func (f Fields) Equal(other Fields) bool {
	return Compare(map[string]any(f), map[string]any(other)) == 0
}

// CheckSize returns SIZE_LIMIT_EXCEEDED if the document with its path is larger than MaxSize.
func (f Fields) CheckSize(path Path) error {
	if size := f.Size(path); size > MaxSize {
		return refusal.New(refusal.SizeLimitExceeded, "the document has %d bytes, at most %d", size, MaxSize).WithField("data")
	}
	return nil
}

// Size returns the size of a document in bytes, by the rules that Firestore publishes: the ids of the path plus 16, the
// names and values of the fields, and 32.
func (f Fields) Size(path Path) int {
	size := 16 + 32
	for _, id := range path {
		size += len(id) + 1
	}
	return size + sizeOf(map[string]any(f))
}

func sizeOf(value any) int {
	switch v := value.(type) {
	case string:
		return len(v) + 1
	case float64:
		return 8
	case []any:
		size := 0
		for _, element := range v {
			size += sizeOf(element)
		}
		return size
	case map[string]any:
		size := 0
		for name, element := range v {
			size += len(name) + 1 + sizeOf(element)
		}
		return size
	default:
		return 1 // null and booleans
	}
}

// names returns the names of the fields of an object in byte order.
func names(object map[string]any) []string { return slices.Sorted(maps.Keys(object)) }

package wire

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Reference is the full name of a document as a value.
type Reference string

// The fields of Value, ArrayValue, and of what lies in them.
const (
	valueBoolean   = 1<<3 | varint
	valueInteger   = 2<<3 | varint
	valueDouble    = 3<<3 | fixed64
	valueReference = 5<<3 | bytes
	valueMap       = 6<<3 | bytes
	valuePlace     = 8<<3 | bytes
	valueArray     = 9<<3 | bytes
	valueTime      = 10<<3 | bytes
	valueNull      = 11<<3 | varint
	valueText      = 17<<3 | bytes
	valueBytes     = 18<<3 | bytes

	arrayElement = 1<<3 | bytes
	mapEntry     = 1<<3 | bytes
	entryName    = 1<<3 | bytes
	entryValue   = 2<<3 | bytes

	placeLatitude  = 1<<3 | fixed64
	placeLongitude = 2<<3 | fixed64
)

const (
	// exact bounds the integers that a JSON number holds exactly: they are stored as integers.
	exact = 1 << 53
	// maxDepth is how deep the values may lie in one another that are read; the server has 20 levels.
	maxDepth = 100
	// kindName is the name of the field that makes a vector of a map, kindVector its value.
	kindName, kindVector, vectorName = "__type__", "__vector__", "value"
)

var (
	errKind  = errors.New("a value has a type that this client does not know")
	errDepth = fmt.Errorf("values lie more than %d levels deep in one another", maxDepth)
)

// stored returns a value as the protocol has it.
func stored(value any) message {
	var m message
	switch v := value.(type) {
	case bool:
		return m.truth(valueBoolean, v)
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < exact && !(v == 0 && math.Signbit(v)) {
			return m.number(valueInteger, uint64(int64(v))) //nolint:gosec // the protocol's form of a negative number
		}
		return m.fixed(valueDouble, math.Float64bits(v))
	case string:
		return m.text(valueText, v)
	case Reference:
		return m.text(valueReference, string(v))
	case []any:
		var array message
		for _, element := range v {
			array = array.bytes(arrayElement, stored(element))
		}
		return m.bytes(valueArray, array)
	case map[string]any:
		return m.bytes(valueMap, entries(nil, mapEntry, v))
	default:
		return m.number(valueNull, 0)
	}
}

// entries adds the fields of an object.
func entries(m message, t tag, object map[string]any) message {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		m = m.bytes(t, message(nil).text(entryName, name).bytes(entryValue, stored(object[name])))
	}
	return m
}

// value reads a value that lies at a depth.
func value(m []byte, depth int) (found any, err error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	known := false
	err = read(m, func(f field) (err error) {
		was := known
		known = true
		switch f.tag {
		case valueNull:
			found = nil
		case valueBoolean:
			found = f.bits != 0
		case valueInteger:
			found = float64(int64(f.bits)) //nolint:gosec // the protocol's form of a negative number
		case valueDouble:
			found = finite(math.Float64frombits(f.bits))
		case valueText, valueReference:
			found, err = f.text()
		case valueBytes:
			found = base64.StdEncoding.EncodeToString(f.bytes)
		case valueTime:
			var at time.Time
			at, err = readTime(f.bytes)
			found = at.Format(time.RFC3339Nano)
		case valuePlace:
			found, err = place(f.bytes)
		case valueArray:
			found, err = array(f.bytes, depth)
		case valueMap:
			found, err = object(f.bytes, depth)
		default:
			known = was
		}
		return err
	})
	if err == nil && !known {
		err = errKind
	}
	return found, err
}

// finite returns a number, or the name of one that JSON does not have.
func finite(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Sprint(v)
	}
	return v
}

func place(m []byte) (any, error) {
	at := map[string]any{"latitude": 0.0, "longitude": 0.0}
	err := read(m, func(f field) error {
		switch f.tag {
		case placeLatitude:
			at["latitude"] = finite(math.Float64frombits(f.bits))
		case placeLongitude:
			at["longitude"] = finite(math.Float64frombits(f.bits))
		default:
		}
		return nil
	})
	return at, err
}

func array(m []byte, depth int) (any, error) {
	all := []any{}
	err := read(m, func(f field) error {
		if f.tag != arrayElement {
			return nil
		}
		element, err := value(f.bytes, depth+1)
		all = append(all, element)
		return err
	})
	return all, err
}

// object reads a map. A vector is an array.
func object(m []byte, depth int) (any, error) {
	all := map[string]any{}
	err := read(m, func(f field) error {
		if f.tag != mapEntry {
			return nil
		}
		return entry(f.bytes, depth, all)
	})
	if vector, ok := all[vectorName].([]any); ok && all[kindName] == kindVector {
		return vector, err
	}
	return all, err
}

// entry adds a field of an object.
func entry(m []byte, depth int, to map[string]any) (err error) {
	var name string
	var of any
	found := false
	err = read(m, func(f field) (err error) {
		switch f.tag {
		case entryName:
			name, err = f.text()
		case entryValue:
			found = true
			of, err = value(f.bytes, depth+1)
		default:
		}
		return err
	})
	if err == nil && !found {
		err = errKind
	}
	to[name] = of
	return err
}

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

// Reference is a value that refers to a document, by the full name of the document.
type Reference string

// The fields of Value, ArrayValue, and the messages in them.
const (
	valueBoolean   = 1<<3 | varint
	valueInteger   = 2<<3 | varint
	valueDouble    = 3<<3 | fixed64
	valueReference = 5<<3 | bytes
	valueMap       = 6<<3 | bytes
	valueGeoPoint  = 8<<3 | bytes
	valueArray     = 9<<3 | bytes
	valueTime      = 10<<3 | bytes
	valueNull      = 11<<3 | varint
	valueText      = 17<<3 | bytes
	valueBytes     = 18<<3 | bytes

	arrayElement = 1<<3 | bytes
	mapEntry     = 1<<3 | bytes
	entryName    = 1<<3 | bytes
	entryValue   = 2<<3 | bytes

	geoPointLatitude  = 1<<3 | fixed64
	geoPointLongitude = 2<<3 | fixed64
)

const (
	// Integers with a magnitude below exactBelow are stored as integers, because a float64 represents them exactly.
	exactBelow = 1 << 53
	// maxDepth is the maximum nesting of decoded values. The server permits 20 levels.
	maxDepth = 100
	// A map is a vector if its field kindName has the value kindVector. Its elements are then in the field vectorName.
	kindName, kindVector, vectorName = "__type__", "__vector__", "value"
)

var (
	errKind  = errors.New("a value has a type that this client does not know")
	errDepth = fmt.Errorf("values lie more than %d levels deep in one another", maxDepth)
)

// encodeValue returns a value in the encoding of the protocol.
func encodeValue(value any) message {
	var m message
	switch v := value.(type) {
	case bool:
		return m.boolean(valueBoolean, v)
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < exactBelow && !(v == 0 && math.Signbit(v)) {
			return m.number(valueInteger, uint64(int64(v))) //nolint:gosec // negative numbers are encoded in two's complement
		}
		return m.fixed(valueDouble, math.Float64bits(v))
	case string:
		return m.text(valueText, v)
	case Reference:
		return m.text(valueReference, string(v))
	case []any:
		var array message
		for _, element := range v {
			array = array.bytes(arrayElement, encodeValue(element))
		}
		return m.bytes(valueArray, array)
	case map[string]any:
		return m.bytes(valueMap, entries(nil, mapEntry, v))
	default:
		return m.number(valueNull, 0)
	}
}

// entries appends the fields of an object to a message.
func entries(m message, t tag, object map[string]any) message {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		m = m.bytes(t, message(nil).text(entryName, name).bytes(entryValue, encodeValue(object[name])))
	}
	return m
}

// decodeValue decodes a value at a depth of nesting.
func decodeValue(m []byte, depth int) (found any, err error) {
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
			found = float64(int64(f.bits)) //nolint:gosec // negative numbers are encoded in two's complement
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
		case valueGeoPoint:
			found, err = geoPoint(f.bytes)
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

// finite returns a finite number as it is, and NaN and infinities, which JSON lacks, as strings.
func finite(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Sprint(v)
	}
	return v
}

// geoPoint decodes a geographical point.
func geoPoint(m []byte) (any, error) {
	at := map[string]any{"latitude": 0.0, "longitude": 0.0}
	err := read(m, func(f field) error {
		switch f.tag {
		case geoPointLatitude:
			at["latitude"] = finite(math.Float64frombits(f.bits))
		case geoPointLongitude:
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
		element, err := decodeValue(f.bytes, depth+1)
		all = append(all, element)
		return err
	})
	return all, err
}

// object decodes a map. It returns a vector as an array.
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

// entry decodes a field of an object and adds it to the map into.
func entry(m []byte, depth int, into map[string]any) (err error) {
	var name string
	var element any
	found := false
	err = read(m, func(f field) (err error) {
		switch f.tag {
		case entryName:
			name, err = f.text()
		case entryValue:
			found = true
			element, err = decodeValue(f.bytes, depth+1)
		default:
		}
		return err
	})
	if err == nil && !found {
		err = errKind
	}
	into[name] = element
	return err
}

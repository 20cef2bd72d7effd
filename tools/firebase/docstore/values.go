package docstore

import (
	"encoding/base64"
	"fmt"
	"math"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/genproto/googleapis/type/latlng"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/orch-dev/orch/tools/firebase/document"
)

// maxExact limits the integers that a JSON number represents exactly. They are stored as integers.
const maxExact = 1 << 53

// encodeValue encodes a validated JSON value for the protocol.
func encodeValue(value any) *firestorepb.Value {
	switch v := value.(type) {
	case bool:
		return &firestorepb.Value{ValueType: &firestorepb.Value_BooleanValue{BooleanValue: v}}
	case float64:
		return encodeNumber(v)
	case string:
		return &firestorepb.Value{ValueType: &firestorepb.Value_StringValue{StringValue: v}}
	case []any:
		array := &firestorepb.ArrayValue{}
		for _, element := range v {
			array.Values = append(array.Values, encodeValue(element))
		}
		return &firestorepb.Value{ValueType: &firestorepb.Value_ArrayValue{ArrayValue: array}}
	case map[string]any:
		return &firestorepb.Value{ValueType: &firestorepb.Value_MapValue{MapValue: &firestorepb.MapValue{Fields: encodeFields(v)}}}
	default:
		return &firestorepb.Value{ValueType: &firestorepb.Value_NullValue{NullValue: structpb.NullValue_NULL_VALUE}}
	}
}

func encodeNumber(v float64) *firestorepb.Value {
	if v == math.Trunc(v) && math.Abs(v) < maxExact && !(v == 0 && math.Signbit(v)) {
		return &firestorepb.Value{ValueType: &firestorepb.Value_IntegerValue{IntegerValue: int64(v)}}
	}
	return &firestorepb.Value{ValueType: &firestorepb.Value_DoubleValue{DoubleValue: v}}
}

func encodeFields(object map[string]any) map[string]*firestorepb.Value {
	all := make(map[string]*firestorepb.Value, len(object))
	for name, value := range object {
		all[name] = encodeValue(value)
	}
	return all
}

// fieldsOf returns the fields of a document, nil if it does not exist.
func fieldsOf(d *firestore.DocumentSnapshot) document.Fields {
	if d == nil || !d.Exists() {
		return nil
	}
	all := document.Fields{}
	for name, value := range d.Data() {
		all[name] = decodeValue(value)
	}
	return all
}

// dataOf returns fields as the data of a snapshot or an event.
func dataOf(f document.Fields) any {
	if f == nil {
		return nil
	}
	return f.Value()
}

// decodeValue converts a Firestore value to JSON. Types that JSON lacks are encoded as in the REST protocol: times
// and references as strings, bytes as base64, a geographic point as two numbers. Integers beyond 2^53 lose digits.
func decodeValue(value any) any {
	switch v := value.(type) {
	case nil, bool, string:
		return v
	case int64:
		return float64(v)
	case float64:
		return finite(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	case *latlng.LatLng:
		return map[string]any{"latitude": v.GetLatitude(), "longitude": v.GetLongitude()}
	case *firestore.DocumentRef:
		return v.Path
	case []any:
		all := make([]any, len(v))
		for i, element := range v {
			all[i] = decodeValue(element)
		}
		return all
	case map[string]any:
		all := make(map[string]any, len(v))
		for name, element := range v {
			all[name] = decodeValue(element)
		}
		return all
	case firestore.Vector64:
		all := make([]any, len(v))
		for i, element := range v {
			all[i] = finite(element)
		}
		return all
	default:
		return fmt.Sprint(v)
	}
}

// finite returns a number, or its name if JSON cannot represent it.
func finite(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Sprint(v)
	}
	return v
}

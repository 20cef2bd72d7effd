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

// exact bounds the integers that a JSON number holds exactly: they are stored as integers.
const exact = 1 << 53

// stored returns a value of JSON, checked before, as the protocol has it.
func stored(value any) *firestorepb.Value {
	switch v := value.(type) {
	case bool:
		return &firestorepb.Value{ValueType: &firestorepb.Value_BooleanValue{BooleanValue: v}}
	case float64:
		return number(v)
	case string:
		return &firestorepb.Value{ValueType: &firestorepb.Value_StringValue{StringValue: v}}
	case []any:
		array := &firestorepb.ArrayValue{}
		for _, element := range v {
			array.Values = append(array.Values, stored(element))
		}
		return &firestorepb.Value{ValueType: &firestorepb.Value_ArrayValue{ArrayValue: array}}
	case map[string]any:
		return &firestorepb.Value{ValueType: &firestorepb.Value_MapValue{MapValue: &firestorepb.MapValue{Fields: fields(v)}}}
	default:
		return &firestorepb.Value{ValueType: &firestorepb.Value_NullValue{NullValue: structpb.NullValue_NULL_VALUE}}
	}
}

func number(v float64) *firestorepb.Value {
	if v == math.Trunc(v) && math.Abs(v) < exact && !(v == 0 && math.Signbit(v)) {
		return &firestorepb.Value{ValueType: &firestorepb.Value_IntegerValue{IntegerValue: int64(v)}}
	}
	return &firestorepb.Value{ValueType: &firestorepb.Value_DoubleValue{DoubleValue: v}}
}

func fields(object map[string]any) map[string]*firestorepb.Value {
	all := make(map[string]*firestorepb.Value, len(object))
	for name, value := range object {
		all[name] = stored(value)
	}
	return all
}

// contents returns the fields of a document, nil if there is none.
func contents(d *firestore.DocumentSnapshot) document.Fields {
	if d == nil || !d.Exists() {
		return nil
	}
	all := document.Fields{}
	for name, value := range d.Data() {
		all[name] = plainValue(value)
	}
	return all
}

// value returns fields as data of a snapshot or an event.
func value(f document.Fields) any {
	if f == nil {
		return nil
	}
	return f.Value()
}

// plainValue returns a value of Firestore as JSON. What JSON lacks becomes what its form in the REST protocol is:
// times and references are strings, bytes base64, a place its two numbers. Integers beyond 2^53 lose digits.
func plainValue(value any) any {
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
			all[i] = plainValue(element)
		}
		return all
	case map[string]any:
		all := make(map[string]any, len(v))
		for name, element := range v {
			all[name] = plainValue(element)
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

// finite returns a number, or the name of one that JSON does not have.
func finite(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Sprint(v)
	}
	return v
}

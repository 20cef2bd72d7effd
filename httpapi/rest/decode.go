package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
)

// nodeFields lists the fields of request structs that only the node sets: a client that names one is refused.
var nodeFields = map[reflect.Type][]string{ //nolint:gochecknoglobals // a constant table
	reflect.TypeFor[api.SubmitRequest](): {
		"keys_of", "client", "session", "shares", "writes", "for", "tools", "within", "no_secrets", "root", "cause", "via", "undoes",
	},
}

// fieldsOf returns the fields of a struct by their JSON names.
func fieldsOf(t reflect.Type) map[string]reflect.StructField {
	fields := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && !f.Anonymous && name != "-" && name != "" {
			fields[name] = f
		}
	}
	return fields
}

// actorField is the JSON name of the fields that api.ActorFields lists.
const actorField = "actor"

// settable returns the fields of a struct in a body that a client may set.
func settable(t reflect.Type) map[string]reflect.StructField {
	fields := fieldsOf(t)
	if _, acts := reflect.TypeAssert[acting](reflect.New(t)); acts {
		delete(fields, actorField)
	}
	for _, name := range nodeFields[t] {
		delete(fields, name)
	}
	return fields
}

// acting is a request that names who acts.
type acting interface{ ActorFields() []*string }

// bodyFields returns the fields of the request struct that the body may set.
func (r *route) bodyFields() map[string]reflect.StructField {
	fields := settable(r.in)
	for _, p := range r.params {
		if p.in == inPath {
			delete(fields, p.field)
		}
	}
	for _, name := range r.hidden {
		delete(fields, name)
	}
	return fields
}

// readBody reads the body of a request; nil for none.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > MaxBody {
		return nil, errTooLarge()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, errTooLarge()
	}
	if err != nil {
		return nil, fault.Wrap(fault.ParseError, err, "the body cannot be read")
	}
	if len(body) == 0 {
		return nil, nil
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, errMediaType("application/json")
	}
	return body, nil
}

// decodeBody decodes a body into a request struct. It refuses fields that the route does not have.
func (r *route) decodeBody(body []byte, into any) error {
	if len(body) == 0 {
		return nil
	}
	if !json.Valid(body) {
		return fault.New(fault.ParseError, "the body is not valid JSON")
	}
	if err := checkObject(body, r.bodyFields(), ""); err != nil {
		return err
	}
	err := json.Unmarshal(body, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fault.New(fault.ValidationError, "must not be a %s", wrong.Value).WithField(jsonPath(wrong.Field))
	}
	if err != nil {
		if coded, ok := errors.AsType[*fault.Error](err); ok {
			return coded
		}
		return fault.Wrap(fault.ValidationError, err, "is not of the right form").WithField(r.wrongField(body))
	}
	return nil
}

// jsonPath removes the names of embedded structs from the path of a field. They alone begin with a capital letter.
func jsonPath(field string) string {
	parts := strings.Split(field, ".")
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part != "" && part[0] >= 'A' && part[0] <= 'Z' }), ".")
}

// wrongField returns the first field of an object that its type cannot hold.
func (r *route) wrongField(body []byte) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil {
		return ""
	}
	fields := r.bodyFields()
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if f, ok := fields[name]; ok && json.Unmarshal(object[name], reflect.New(f.Type).Interface()) != nil {
			return name
		}
	}
	return ""
}

// checkObject refuses an object with unknown fields. The names of fields are compared exactly, unlike by the decoder.
func checkObject(data []byte, fields map[string]reflect.StructField, at string) error {
	object, err := membersOf(data, at)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		f, known := fields[name]
		if !known {
			return fault.New(fault.ValidationError, "is not known").WithField(at+clip(name)).
				WithHint("the fields are %s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		if err := checkNested(object[name], f.Type, at+name); err != nil {
			return err
		}
	}
	return nil
}

// membersOf returns the members of an object. It refuses an object with two members of a name: the decoder would merge them, and what
// was checked would not be what is done.
func membersOf(data []byte, at string) (map[string]json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') {
		return nil, fault.New(fault.ValidationError, "must be an object").WithField(strings.TrimSuffix(at, "."))
	}
	object := map[string]json.RawMessage{}
	for decoder.More() {
		token, err := decoder.Token()
		var value json.RawMessage
		if err == nil {
			err = decoder.Decode(&value)
		}
		if err != nil {
			return nil, fault.New(fault.ParseError, "the body is not valid JSON")
		}
		name, _ := token.(string) // a key
		if _, twice := object[name]; twice {
			return nil, fault.New(fault.ValidationError, "is given twice").WithField(at + clip(name))
		}
		object[name] = value
	}
	return object, nil
}

// maxList limits the requests in one body.
const maxList = 10_000

// checkNested checks the objects in an object: that of a struct, and those in a list of structs. Types that decode themselves refuse what they
// do not know.
func checkNested(data []byte, t reflect.Type, at string) error {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if isPlainStruct(t) && string(data) != "null" {
		return checkObject(data, settable(t), at+".")
	}
	if t.Kind() != reflect.Slice || !isPlainStruct(t.Elem()) {
		return nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return fault.New(fault.ValidationError, "must be a list").WithField(at)
	}
	if len(list) > maxList {
		return fault.New(fault.ValidationError, "%d are too many, the limit is %d", len(list), maxList).WithField(at)
	}
	fields := settable(t.Elem())
	for i, item := range list {
		if err := checkObject(item, fields, at+"."+strconv.Itoa(i)+"."); err != nil {
			return err
		}
	}
	return nil
}

// isPlainStruct reports whether a type is a struct that the decoder decodes field by field.
func isPlainStruct(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

// decodeQuery sets the fields of a request struct that the query names. It refuses parameters that the route does not have.
func (r *route) decodeQuery(q map[string][]string, into reflect.Value) error {
	known := map[string]param{}
	for _, p := range r.params {
		if p.in == inQuery {
			known[p.name] = p
		}
	}
	fields := fieldsOf(r.in)
	for _, name := range slices.Sorted(maps.Keys(q)) {
		p, ok := known[name]
		if !ok {
			e := fault.New(fault.ValidationError, "is not a parameter of this path").WithField(clip(name))
			if len(known) > 0 {
				e = e.WithHint("the parameters are %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
			}
			return e
		}
		if err := setField(into.FieldByIndex(fields[p.field].Index), q[name]); err != nil {
			return fault.From(err).WithField(name)
		}
	}
	return nil
}

// setField sets a field to the values of a parameter.
func setField(field reflect.Value, values []string) error {
	switch field.Kind() {
	case reflect.Slice:
		list := reflect.MakeSlice(field.Type(), len(values), len(values))
		for i, v := range values {
			list.Index(i).SetString(v)
		}
		field.Set(list)
		return nil
	case reflect.Map:
		return setMap(field, values)
	default:
	}
	if len(values) != 1 {
		return fault.New(fault.ValidationError, "must be given once")
	}
	return setValue(field, values[0])
}

// setMap sets a map to values of the form KEY=VALUE.
func setMap(field reflect.Value, values []string) error {
	all := reflect.MakeMapWithSize(field.Type(), len(values))
	for _, v := range values {
		key, value, found := strings.Cut(v, "=")
		if !found || key == "" {
			return fault.New(fault.InvalidFormat, "must have the form KEY=VALUE")
		}
		all.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(value))
	}
	field.Set(all)
	return nil
}

// setValue sets a field of a simple type.
func setValue(field reflect.Value, text string) error {
	if set, special := specialValues[field.Type()]; special {
		return set(field, text)
	}
	var err error
	switch field.Kind() {
	case reflect.String:
		field.SetString(text)
	case reflect.Bool:
		var v bool
		if v, err = strconv.ParseBool(text); err != nil {
			return fault.New(fault.InvalidFormat, "must be true or false")
		}
		field.SetBool(v)
	case reflect.Int:
		var v int64
		if v, err = strconv.ParseInt(text, 10, 0); err != nil {
			return fault.New(fault.InvalidFormat, "must be a whole number")
		}
		field.SetInt(v)
	case reflect.Uint64:
		var v uint64
		if v, err = strconv.ParseUint(text, 10, 64); err != nil {
			return fault.New(fault.InvalidFormat, "must be a whole number of at least 0")
		}
		field.SetUint(v)
	default:
		return fault.New(fault.Internal, "a parameter has no type")
	}
	return nil
}

// specialValues sets fields of types that have a form of their own.
var specialValues = map[reflect.Type]func(field reflect.Value, text string) error{ //nolint:gochecknoglobals // a constant table
	reflect.TypeFor[time.Duration](): func(field reflect.Value, text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return fault.New(fault.InvalidFormat, "must be a duration such as 30s")
		}
		field.SetInt(int64(d))
		return nil
	},
	reflect.TypeFor[time.Time](): func(field reflect.Value, text string) error {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return fault.New(fault.InvalidFormat, "must be a time such as 2026-01-31T12:00:00Z")
		}
		field.Set(reflect.ValueOf(at))
		return nil
	},
}

// waitOf returns the field with the time to wait; false for a request without one.
func waitOf(in reflect.Value) (time.Duration, bool) {
	f := in.FieldByName("Wait")
	if !f.IsValid() {
		return 0, false
	}
	return reflect.TypeAssert[time.Duration](f)
}

// checkWait refuses a wait beyond MaxWait.
func checkWait(in reflect.Value) error {
	if d, ok := waitOf(in); ok && (d < 0 || d > MaxWait) {
		return fault.New(fault.ValidationError, "must be at most %s", MaxWait).WithField("wait")
	}
	return nil
}

// clearNodeFields empties the fields of a request that only the node sets.
func clearNodeFields(in any) {
	v := reflect.ValueOf(in).Elem()
	fields := fieldsOf(v.Type())
	for _, name := range nodeFields[v.Type()] {
		v.FieldByIndex(fields[name].Index).SetZero()
	}
}

package rest

import (
	"encoding/json"
	"maps"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/schedules"
	"github.com/orch-dev/orch/statemachine"
)

// object is a JSON object of the OpenAPI document.
type object = map[string]any

// OpenAPI returns the OpenAPI 3.1 document of the API as JSON.
func OpenAPI() ([]byte, error) {
	b := schemaBuilder{components: object{}, types: map[string]reflect.Type{}}
	paths := object{}
	for _, rt := range routes() {
		operation, err := b.operation(rt)
		if err != nil {
			return nil, err
		}
		at := Prefix + strings.ReplaceAll(rt.path, "...}", "}") // OpenAPI has no parameters of several names
		operations, _ := paths[at].(object)
		if operations == nil {
			operations = object{}
			paths[at] = operations
		}
		operations[strings.ToLower(rt.verb)] = operation
	}
	failure, err := b.schema(reflect.TypeFor[errorBody]())
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "orch", "version": "1", "description": "The HTTP API of a node. Durations in bodies and answers are nanoseconds.",
			"license": object{"name": "Apache 2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []object{{"url": "http://127.0.0.1:7424", "description": "The default address of a node."}},
		"tags":     tags(),
		"paths":    paths,
		"security": []object{{"bearer": []string{}}, {"cookie": []string{}}},
		"components": object{
			"schemas":   b.components,
			"responses": object{"Error": object{"description": "An error. The status follows from its code.", "content": content("application/json", failure)}},
			"securitySchemes": object{
				"bearer": object{"type": "http", "scheme": "bearer"},
				"cookie": object{"type": "apiKey", "in": "cookie", "name": cookieName},
			},
		},
	}, "", "  ")
}

// tags describes the groups of operations: the words with which their paths begin, and one group for all other paths.
func tags() []object {
	return []object{
		{"name": "approvals", "description": "Calls that wait for the decision of a person."},
		{"name": nodeTag, "description": "The node as a whole."},
		{"name": "questions", "description": "What running calls ask."},
		{"name": "tasks", "description": "Tasks and their histories."},
	}
}

// nodeTag is the tag of the operations whose paths begin with no other tag.
const nodeTag = "node"

// tag returns the tag of a route.
func (r *route) tag() string {
	word := strings.FieldsFunc(r.path, func(c rune) bool { return c == '/' || c == ':' })[0]
	for _, t := range tags() {
		if t["name"] == word {
			return word
		}
	}
	return nodeTag
}

// writeOpenAPI answers GET /openapi.json.
func (*Server) writeOpenAPI(x *exchange, _ any) error {
	data, err := OpenAPI()
	if err != nil {
		return err
	}
	x.w.Header().Set("Content-Type", "application/json")
	_, _ = x.w.Write(append(data, '\n')) // the client may be gone
	return nil
}

func content(media string, schema any) object {
	return object{media: object{"schema": schema}}
}

// schemaBuilder collects the schemas of named types.
type schemaBuilder struct {
	components object
	// types are the structs of the components, by name.
	types map[string]reflect.Type
}

// operation describes a route.
func (b *schemaBuilder) operation(rt route) (object, error) {
	operation := object{
		"operationId": rt.name, "tags": []string{rt.tag()}, "summary": rt.summary, "x-roles": rt.access.roles(),
		"parameters": b.parameters(rt),
	}
	if rt.body {
		body, err := b.body(rt)
		if err != nil {
			return nil, err
		}
		operation["requestBody"] = object{"required": len(rt.required()) > 0, "content": content("application/json", body)}
	}
	if rt.upload != "" {
		operation["requestBody"] = object{"required": true, "content": content(rt.upload, object{"type": "string", "format": "binary"})}
	}
	answer, err := b.answer(rt)
	if err != nil {
		return nil, err
	}
	failure := object{"$ref": "#/components/responses/Error"}
	responses := object{"200": answer, "4XX": failure, "5XX": failure}
	if rt.created {
		responses["201"] = answer
	}
	operation["responses"] = responses
	return operation, nil
}

// answer describes the answer of a route that succeeds.
func (b *schemaBuilder) answer(rt route) (object, error) {
	switch {
	case len(rt.sends) > 0:
		data, err := b.anyOf(rt.sends)
		return object{"description": "Server-sent events. The schema is that of the data of an event.", "content": content(rt.media, data)}, err
	case rt.media != "":
		return object{"description": "A file.", "content": content(rt.media, object{"type": "string", "format": "binary"})}, nil
	default:
		schema, err := b.schema(rt.out)
		return object{"description": "The answer.", "content": content("application/json", schema)}, err
	}
}

// anyOf returns the schema of a value of one of several types, which is not null.
func (b *schemaBuilder) anyOf(types []reflect.Type) (object, error) {
	var schemas []object
	for _, t := range types {
		schema, err := b.schema(t)
		if err != nil {
			return nil, err
		}
		schemas = append(schemas, notNull(schema))
	}
	return object{"anyOf": schemas}, nil
}

// notNull removes null from the types of a schema.
func notNull(schema object) object {
	if types, ok := schema["type"].([]string); ok {
		schema["type"] = types[0]
	}
	return schema
}

// roles returns the roles that may use a route.
func (a access) roles() []Role {
	return slices.DeleteFunc(Roles(), func(r Role) bool { return !a.permits(r) })
}

// parameters describes the parameters of a route.
func (b *schemaBuilder) parameters(rt route) []object {
	fields := fieldsOf(rt.in)
	list := []object{}
	for _, p := range rt.params {
		schema := object{"type": "string"}
		if f, ok := fields[p.field]; ok {
			schema = parameterSchema(f.Type)
		}
		list = append(list, object{"name": p.name, "in": string(p.in), "required": p.in == inPath, "schema": schema})
	}
	return list
}

// parameterSchema returns the schema of a parameter whose field has a type.
func parameterSchema(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return object{"type": "string", "examples": []string{"30s"}}
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[statemachine.State]():
		return object{"type": "string", "enum": statemachine.States()}
	}
	switch t.Kind() {
	case reflect.Slice:
		return object{"type": "array", "items": parameterSchema(t.Elem())}
	case reflect.Map:
		return object{"type": "array", "items": object{"type": "string", "pattern": "="}}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Uint64:
		return object{"type": "integer", "format": "int64"}
	default:
		return object{"type": "string"}
	}
}

// required returns the fields of the body that a request cannot leave out: those without omitempty.
func (r *route) required() []string {
	var names []string
	for name, f := range r.bodyFields() {
		if !omits(f) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// omits reports whether a field is left out when it is empty.
func omits(f reflect.StructField) bool { return strings.Contains(f.Tag.Get("json"), ",omit") }

// body returns the schema of the body of a route.
func (b *schemaBuilder) body(rt route) (object, error) {
	return b.structOf(rt.bodyFields(), rt.required(), false)
}

// structOf returns the schema of an object with some fields. An open object is an answer: it may get further fields in later versions, and
// its empty lists and maps may be null, unless they are left out.
func (b *schemaBuilder) structOf(fields map[string]reflect.StructField, required []string, open bool) (object, error) {
	properties := object{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		schema, err := b.schema(fields[name].Type)
		if err != nil {
			return nil, err
		}
		if !open || omits(fields[name]) {
			schema = notNull(schema)
		}
		properties[name] = schema
	}
	out := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		out["required"] = required
	}
	if !open {
		out["additionalProperties"] = false
	}
	return out, nil
}

// schema returns the schema of a type: a reference for a struct of this module, else a schema in place.
func (b *schemaBuilder) schema(t reflect.Type) (object, error) {
	if s := simpleSchema(t); s != nil {
		return s, nil
	}
	if name, s := ownSchema(t); s != nil {
		b.components[name] = s
		return reference(name), nil
	}
	if t.Kind() == reflect.Struct && t.Name() == "" {
		return object{"type": "object"}, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return b.schema(t.Elem())
	case reflect.Slice, reflect.Array:
		items, err := b.schema(t.Elem())
		return object{"type": []string{"array", "null"}, "items": items}, err
	case reflect.Map:
		values, err := b.schema(t.Elem())
		return object{"type": []string{"object", "null"}, "additionalProperties": values}, err
	case reflect.Struct:
		return b.named(t)
	default:
		return reflected(t)
	}
}

// simpleSchema returns the schemas of types with a form of their own, nil for all other types.
func simpleSchema(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[json.RawMessage](), reflect.TypeFor[events.Value]():
		return object{}
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[time.Duration]():
		return object{"type": "integer", "format": "int64", "description": "nanoseconds"}
	case reflect.TypeFor[schedules.Duration]():
		return object{"type": "string", "description": "a duration such as 90s or 1d12h"}
	case reflect.TypeFor[statemachine.Task]():
		return object{"type": "object", "description": "The state of a task, as replay computes it."}
	default:
		return nil
	}
}

// ownSchema returns the schemas of structs that encode themselves, with their names; nil for all other types.
func ownSchema(t reflect.Type) (name string, schema object) {
	text := object{"type": "string"}
	switch t {
	case reflect.TypeFor[events.Event]():
		return "Event", object{"type": "object", "properties": object{
			"kind": text, "data": object{"type": "object", "description": "What happened. Its fields follow from the kind."},
		}, "required": []string{"data", "kind"}}
	case reflect.TypeFor[fault.Error]():
		return "Fault", object{"type": "object", "properties": object{
			"name": text, "message": text, "reason": text, "field": text, "hint": text, "retry_at": object{"type": "string", "format": "date-time"},
		}, "required": []string{"message", "name"}}
	default:
		return "", nil
	}
}

// reference returns a reference to a named schema.
func reference(name string) object { return object{"$ref": "#/components/schemas/" + name} }

// named returns a reference to the schema of a struct. Of several structs with one name, all but the first have the name of their package
// before it.
func (b *schemaBuilder) named(t reflect.Type) (object, error) {
	name := exported(t.Name())
	if first := b.types[name]; first != nil && first != t {
		name = exported(strings.TrimSuffix(path.Base(t.PkgPath()), "s")) + name
	}
	if b.types[name] == t {
		return reference(name), nil
	}
	b.types[name] = t // before the fields, as they may refer to it
	schema, err := b.structOf(settable(t), requiredOf(t), true)
	b.components[name] = schema
	return reference(name), err
}

func exported(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// requiredOf returns the fields of a struct that are always present.
func requiredOf(t reflect.Type) []string {
	r := route{action: action{in: t}}
	return r.required()
}

// reflected returns the schema of a simple type.
func reflected(t reflect.Type) (object, error) {
	schema, err := jsonschema.ForType(t, &jsonschema.ForOptions{})
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the type "+strconv.Quote(t.String())+" has no schema")
	}
	data, err := json.Marshal(schema)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "a schema cannot be encoded")
	}
	out := object{}
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "a schema cannot be decoded")
	}
	if out["type"] == "integer" {
		out["format"] = "int64" // without it, some generators use 32 bits
	}
	return out, nil
}

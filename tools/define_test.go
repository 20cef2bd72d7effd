package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/toolstest"
)

type allIn struct {
	Name   string            `json:"name" jsonschema:"Name of the thing" minLength:"1" maxLength:"5"`
	Count  int               `json:"count,omitempty" jsonschema:"How many" minimum:"1" maximum:"9" default:"3"`
	Rate   float64           `json:"rate,omitempty" jsonschema:"A number"`
	Flag   bool              `json:"flag,omitempty" jsonschema:"A switch" default:"true"`
	Mode   string            `json:"mode,omitempty" jsonschema:"One of two" enum:"fast,slow" default:"fast"`
	Slug   string            `json:"slug,omitempty" jsonschema:"A form" pattern:"^[a-z]+$"`
	Tags   []string          `json:"tags,omitempty" jsonschema:"A list" minItems:"1" maxItems:"2" enum:"a,b,c"`
	Data   tools.Object      `json:"data,omitempty" jsonschema:"A free object"`
	Any    []json.RawMessage `json:"any,omitempty" jsonschema:"A free list"`
	Header map[string]string `json:"header,omitempty" jsonschema:"A map"`
	Nested *nested           `json:"nested,omitempty" jsonschema:"An object"`
	Few    []nested          `json:"few,omitempty" jsonschema:"Objects"`
	Max    *int64            `json:"max,omitempty" jsonschema:"May be absent"`
	Names  []string          `json:"names,omitempty" jsonschema:"Short ones" minLength:"1" maxLength:"3"`
}

type nested struct {
	Depth int `json:"depth" jsonschema:"A number" minimum:"0"`
}

type allOut struct {
	Given allIn     `json:"given" jsonschema:"What came in"`
	At    time.Time `json:"at" jsonschema:"A time"`
	List  []string  `json:"list" jsonschema:"A list"`
	Maybe *int      `json:"maybe" jsonschema:"A number or null"`
}

func newAll() tools.Tool {
	return tools.Define(tools.Spec{Name: "ALL", Purpose: "Use all types"}, func(_ context.Context, _ *tools.Env, in allIn) (allOut, error) {
		switch in.Name {
		case "fail":
			return allOut{}, errors.New("secret detail")
		case "lost":
			return allOut{}, fmt.Errorf("wrapped: %w", fault.New(fault.NotFound, "nothing here"))
		}
		return allOut{Given: in, List: []string{}}, nil
	})
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	tool := newAll()
	assert.JSONEq(t, `{"type":"object","additionalProperties":false,"required":["name"],"properties":{
		"name":{"type":"string","description":"Name of the thing","minLength":1,"maxLength":5},
		"count":{"type":"integer","description":"How many","minimum":1,"maximum":9,"default":3},
		"rate":{"type":"number","description":"A number"},
		"flag":{"type":"boolean","description":"A switch","default":true},
		"mode":{"type":"string","description":"One of two","enum":["fast","slow"],"default":"fast"},
		"slug":{"type":"string","description":"A form","pattern":"^[a-z]+$"},
		"tags":{"type":"array","description":"A list","minItems":1,"maxItems":2,"items":{"type":"string","enum":["a","b","c"]}},
		"data":{"type":"object","description":"A free object"},
		"any":{"type":"array","description":"A free list","items":{"description":"Any JSON value"}},
		"header":{"type":"object","description":"A map","additionalProperties":{"type":"string"}},
		"nested":{"type":"object","description":"An object","additionalProperties":false,"required":["depth"],
			"properties":{"depth":{"type":"integer","description":"A number","minimum":0}}},
		"few":{"type":"array","description":"Objects","items":{"type":"object","additionalProperties":false,"required":["depth"],
			"properties":{"depth":{"type":"integer","description":"A number","minimum":0}}}},
		"max":{"type":"integer","description":"May be absent"},
		"names":{"type":"array","description":"Short ones","items":{"type":"string","minLength":1,"maxLength":3}}
	}}`, string(tool.InputSchema()))
	var out struct {
		Properties map[string]struct{ Type, Format any }
	}
	require.NoError(t, json.Unmarshal(tool.OutputSchema(), &out))
	assert.Equal(t, "date-time", out.Properties["at"].Format)
	assert.Equal(t, "array", out.Properties["list"].Type)
	assert.Equal(t, []any{"null", "integer"}, out.Properties["maybe"].Type)
}

// S0-005, S0-006.
func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100)
	for _, tc := range []struct {
		args  string
		code  fault.Code
		field string
	}{
		{``, fault.RequiredField, "name"},
		{`null`, fault.RequiredField, "name"},
		{`{}`, fault.RequiredField, "name"},
		{`{"name":null}`, fault.RequiredField, "name"},
		{`{"name":"x"`, fault.InvalidFormat, ""},
		{`{"name":"x"} x`, fault.InvalidFormat, ""},
		{"{\"name\":\"\xff\"}", fault.InvalidFormat, ""},
		{`[]`, fault.ValidationError, ""},
		{`"name"`, fault.ValidationError, ""},
		{`{"name":1}`, fault.ValidationError, "name"},
		{`{"name":["x"]}`, fault.ValidationError, "name"},
		{`{"name":""}`, fault.ValidationError, "name"},
		{`{"name":"xxxxxx"}`, fault.ValidationError, "name"},
		{`{"name":"x","NAME":"y"}`, fault.ValidationError, "NAME"},
		{`{"name":"x","":1}`, fault.ValidationError, ""},
		{`{"name":"x","cuont":1}`, fault.ValidationError, "cuont"},
		{`{"name":"x","count":1.5}`, fault.ValidationError, "count"},
		{`{"name":"x","count":"1"}`, fault.ValidationError, "count"},
		{`{"name":"x","count":1e400}`, fault.ValidationError, "count"},
		{`{"name":"x","count":99999999999999999999}`, fault.ValidationError, "count"},
		{`{"name":"x","count":true}`, fault.ValidationError, "count"},
		{`{"name":"x","count":0}`, fault.ValidationError, "count"},
		{`{"name":"x","count":10}`, fault.ValidationError, "count"},
		{`{"name":"x","rate":"1"}`, fault.ValidationError, "rate"},
		{`{"name":"x","rate":-1e999}`, fault.ValidationError, "rate"},
		{`{"name":"x","flag":"true"}`, fault.ValidationError, "flag"},
		{`{"name":"x","flag":1}`, fault.ValidationError, "flag"},
		{`{"name":"x","mode":"FAST"}`, fault.ValidationError, "mode"},
		{`{"name":"x","slug":"A b"}`, fault.InvalidFormat, "slug"},
		{`{"name":"x","tags":"a"}`, fault.ValidationError, "tags"},
		{`{"name":"x","tags":["a",1]}`, fault.ValidationError, "tags[1]"},
		{`{"name":"x","tags":["a",null]}`, fault.ValidationError, "tags[1]"},
		{`{"name":"x","tags":["d"]}`, fault.ValidationError, "tags[0]"},
		{`{"name":"x","tags":[]}`, fault.ValidationError, "tags"},
		{`{"name":"x","tags":["a","a","a"]}`, fault.ValidationError, "tags"},
		{`{"name":"x","names":["abc",""]}`, fault.ValidationError, "names[1]"},
		{`{"name":"x","names":["abc","abcd"]}`, fault.ValidationError, "names[1]"},
		{`{"name":"x","data":[]}`, fault.ValidationError, "data"},
		{`{"name":"x","data":"{}"}`, fault.ValidationError, "data"},
		{`{"name":"x","any":{}}`, fault.ValidationError, "any"},
		{`{"name":"x","header":{"a":"b","c":1}}`, fault.ValidationError, "header.c"},
		{`{"name":"x","nested":{}}`, fault.RequiredField, "nested.depth"},
		{`{"name":"x","nested":{"depth":-1}}`, fault.ValidationError, "nested.depth"},
		{`{"name":"x","nested":{"depth":1,"x":1}}`, fault.ValidationError, "nested.x"},
		{`{"name":"x","few":[{"depth":1},{}]}`, fault.RequiredField, "few[1].depth"},
		{`{"name":"x","mode":"` + long + `"}`, fault.ValidationError, "mode"},
		{`{"name":"x","count":1.` + strings.Repeat("1", 99) + `}`, fault.ValidationError, "count"},
	} {
		_, err := newAll().Check(json.RawMessage(tc.args))
		var e *fault.Error
		require.ErrorAs(t, err, &e, tc.args)
		assert.Equal(t, tc.code, e.Code, tc.args)
		assert.Equal(t, tc.field, e.Field, tc.args)
		assert.NotContains(t, e.Message, long[:50], "a long value is repeated")
		assert.NotContains(t, e.Message, strings.Repeat("1", 50), "a long value is repeated")
	}
}

func TestCheckGuessesFields(t *testing.T) {
	t.Parallel()
	_, err := newAll().Check(json.RawMessage(`{"name":"x","cuont":1}`))
	assert.Equal(t, "did you mean count?", fault.From(err).Hint)
	_, err = newAll().Check(json.RawMessage(`{"name":"x","zzzzzzzz":1}`))
	assert.Contains(t, fault.From(err).Hint, "the fields are name, count,")
}

// The canonical form: fields in the order of the schema, with defaults, each once; free values unchanged.
func TestCheckReturnsCanonicalArguments(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"name":"x"}`: `{"name":"x","count":3,"flag":true,"mode":"fast"}`,
		` { "flag" : false , "name":"x","count":null,"mode":"slow","count":9 } `: `{"name":"x","count":9,"flag":false,"mode":"slow"}`,
		`{"name":"x","count":4.0}`:                                                    `{"name":"x","count":4,"flag":true,"mode":"fast"}`,
		`{"name":"x","count":0.4e1,"max":-0}`:                                         `{"name":"x","count":4,"flag":true,"mode":"fast","max":0}`,
		`{"name":"x","max":9223372036854775807}`:                                      `{"name":"x","count":3,"flag":true,"mode":"fast","max":9223372036854775807}`,
		`{"name":"é𝄞","tags":[ "a" , "b" ],"slug":""}`:                                "",
		`{"name":"x","data":{"n":123456789012345678901234567890, "z":null,"a":1.0}}`:  `{"name":"x","count":3,"flag":true,"mode":"fast","data":{"n":123456789012345678901234567890, "z":null,"a":1.0}}`,
		`{"name":"x","header":{"b":"1","a":"2","b":"<3>"}}`:                           `{"name":"x","count":3,"flag":true,"mode":"fast","header":{"a":"2","b":"<3>"}}`,
		`{"name":"x","any":[1,"a",null,{"b":1e400}],"few":[{"depth":1e0}],"tags":[]}`: "",
		`{"name":"x","any":[1,"a",null,{"b":1e400}],"few":[{"depth":1e0}]}`:           `{"name":"x","count":3,"flag":true,"mode":"fast","any":[1,"a",null,{"b":1e400}],"few":[{"depth":1}]}`,
	} {
		got, err := newAll().Check(json.RawMessage(in))
		if want == "" {
			require.Error(t, err, in)
			continue
		}
		require.NoError(t, err, in)
		assert.Equal(t, want, string(got))
		again, err := newAll().Check(got)
		require.NoError(t, err)
		assert.Equal(t, want, string(again), "the canonical form is final")
	}
}

// A required pointer may be null if the schema permits it, but otherwise has its type. A required input that is not a
// pointer is never null.
func TestCheckPointers(t *testing.T) {
	t.Parallel()
	type in struct {
		Must *int   `json:"must" jsonschema:"A number"`
		List []*int `json:"list,omitempty" jsonschema:"Numbers and nulls"`
	}
	tool := tools.Define(tools.Spec{Name: "P"}, func(context.Context, *tools.Env, in) (struct{}, error) { return struct{}{}, nil })
	for args, code := range map[string]fault.Code{
		`{"must":1,"list":[1,null]}`: "",
		`{"must":null}`:              fault.RequiredField,
		`{"must":"1"}`:               fault.ValidationError,
		`{"must":1.5}`:               fault.ValidationError,
		`{"must":1,"list":[1,"1"]}`:  fault.ValidationError,
	} {
		_, err := tool.Check(json.RawMessage(args))
		assert.Equal(t, code, fault.CodeOf(err), args)
	}
}

// A value of a field with several types must have one of them.
func TestCheckTypes(t *testing.T) {
	t.Parallel()
	type in struct {
		ID json.RawMessage `json:"id,omitempty" jsonschema:"A name or a number" types:"string,integer"`
	}
	tool := tools.Define(tools.Spec{Name: "T"}, func(context.Context, *tools.Env, in) (struct{}, error) { return struct{}{}, nil })
	assert.Contains(t, string(tool.InputSchema()), `"type":["string","integer"],"description":"A name or a number"`)
	for given, want := range map[string]string{
		`"a"`: `{"id":"a"}`, `7`: `{"id":7}`, `7.0`: `{"id":7}`, `null`: `{}`, `9007199254740993`: `{"id":9007199254740993}`,
	} {
		got, err := tool.Check(json.RawMessage(`{"id":` + given + `}`))
		require.NoError(t, err, given)
		assert.Equal(t, want, string(got))
	}
	for given, message := range map[string]string{
		`true`: "must be a string or a number, not a boolean", `["a"]`: "must be a string or a number, not a list", `1.5`: "must be an integer, not 1.5",
	} {
		_, err := tool.Check(json.RawMessage(`{"id":` + given + `}`))
		e := fault.From(err)
		require.NotNil(t, e, given)
		assert.Equal(t, []string{"VALIDATION_ERROR", "id", message}, []string{string(e.Code), e.Field, e.Message})
	}
}

func TestCallKeepsBytesOfFreeObjects(t *testing.T) {
	t.Parallel()
	data := `{"big":123456789012345678901234567890,"html":"<a&b>","é":null}`
	out, err := newAll().Call(t.Context(), nil, json.RawMessage(`{"name":"x","data":`+data+`}`))
	require.NoError(t, err)
	assert.Contains(t, string(out), `"data":`+data)
}

func TestCallReturnsCodedErrors(t *testing.T) {
	t.Parallel()
	_, err := newAll().Call(t.Context(), nil, json.RawMessage(`{"name":"fail"}`))
	assert.Equal(t, fault.Internal, fault.CodeOf(err))
	assert.NotContains(t, err.Error(), "secret detail")
	_, err = newAll().Call(t.Context(), nil, json.RawMessage(`{"name":"lost"}`))
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
	_, err = newAll().Call(t.Context(), nil, json.RawMessage(`{"name":7}`))
	assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
}

// FuzzCheck checks that accepted arguments can be decoded, match the published schema according to another validator,
// and are canonical.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		`{"name":"x"}`, `{"name":"x","count":4.0,"tags":["a"]}`, `{"name":"x","data":{"a":[1]},"any":[null]}`,
		`{"name":"x","header":{"a":"b"},"nested":{"depth":1e2},"max":1e15,"rate":1e-400}`, `[]`, `{"name":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	tool := newAll()
	schema := toolstest.Compile(f, tool.InputSchema())
	f.Fuzz(func(t *testing.T, args []byte) {
		checked, err := tool.Check(args)
		if err != nil {
			assert.NotEqual(t, fault.Internal, fault.CodeOf(err))
			return
		}
		require.True(t, json.Valid(checked), "%s", checked)
		var in allIn
		require.NoError(t, json.Unmarshal(checked, &in), "%s", checked)
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(checked))
		require.NoError(t, err)
		require.NoError(t, schema.Validate(value), "%s", checked)
		again, err := tool.Check(checked)
		require.NoError(t, err)
		assert.Equal(t, string(checked), string(again))
	})
}

func BenchmarkCheckAndCall(b *testing.B) {
	tool := tools.Define(tools.Spec{Name: "SMALL"}, func(_ context.Context, _ *tools.Env, in nested) (nested, error) { return in, nil })
	for b.Loop() {
		args, err := tool.Check(json.RawMessage(`{"depth":7}`))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := tool.Call(b.Context(), nil, args); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheckAllTypes(b *testing.B) {
	tool, args := newAll(), json.RawMessage(`{"name":"x","count":4,"mode":"slow","tags":["a","b"],"data":{"a":1}}`)
	for b.Loop() {
		if _, err := tool.Check(args); err != nil {
			b.Fatal(err)
		}
	}
}

type freeIn struct {
	Data json.RawMessage `json:"data" jsonschema:"anything" types:"object,array,string,number,boolean,null"`
}

// A field of any type accepts null as a value, and lists with items of any type.
func TestCheckAnyType(t *testing.T) {
	t.Parallel()
	tool := tools.Define(tools.Spec{Name: "free"}, func(_ context.Context, _ *tools.Env, in freeIn) (freeIn, error) { return in, nil })
	for _, data := range []string{`null`, `[1,"two",[null]]`, `{"a":[{}]}`, `"text"`, `1.5`, `false`} {
		checked, err := tool.Check(json.RawMessage(`{"data":` + data + `}`))
		require.NoError(t, err, data)
		assert.JSONEq(t, `{"data":`+data+`}`, string(checked))
	}
	_, err := tool.Check(json.RawMessage(`{}`))
	assert.Equal(t, fault.RequiredField, fault.CodeOf(err))
}

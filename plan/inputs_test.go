package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
)

const inputSchema = `orch: v1
inputs:
  type: object
  required: [repo]
  properties:
    repo: {type: string, minLength: 1}
    depth: {type: integer, default: 3}
    at: {type: string, format: date-time}
    pair: {type: object, required: [a, b]}
    opt:
      type: object
      properties:
        deep: {type: boolean, default: true}
        more: {type: object, default: {}, properties: {x: {default: 1}}}
    all:
      type: array
      items: {$ref: '#/$defs/one'}
  $defs:
    one: {type: object, properties: {n: {default: 9}}}
steps: [{id: a, set: {x: 1}}]
`

func TestCheckInputs(t *testing.T) {
	t.Parallel()
	pr := compile(t, inputSchema)
	for given, want := range map[string]string{
		`{"repo":"r"}`:                                 `{"depth":3,"repo":"r"}`,
		`{"repo":"r","depth":5}`:                       `{"depth":5,"repo":"r"}`,
		`{"repo":"r","opt":{}}`:                        `{"depth":3,"opt":{"deep":true,"more":{"x":1}},"repo":"r"}`,
		`{"repo":"r","all":[{}]}`:                      `{"all":[{"n":9}],"depth":3,"repo":"r"}`,
		`{"repo":"r","depth":12345678901234567890123}`: `{"depth":12345678901234567890123,"repo":"r"}`,
	} {
		got, err := pr.CheckInputs(json.RawMessage(given))
		require.NoError(t, err, given)
		assert.Equal(t, want, string(got))
	}
}

func TestCheckInputsErrors(t *testing.T) {
	t.Parallel()
	pr := compile(t, inputSchema)
	for _, tc := range []struct {
		given string
		code  fault.Code
		field string
		hint  string
	}{
		{``, fault.RequiredField, "inputs.repo", ""},
		{`{}`, fault.RequiredField, "inputs.repo", ""},
		{`{"repo":"r","pair":{}}`, fault.RequiredField, "inputs.pair.a", "so is b"},
		{`[]`, fault.ValidationError, "inputs", ""},
		{`{`, fault.ValidationError, "inputs", ""},
		{`{"repo":""}`, fault.ValidationError, "inputs.repo", ""},
		{`{"repo":5}`, fault.ValidationError, "inputs.repo", ""},
		{`{"repo":"r","dpeth":1}`, fault.ValidationError, "inputs.dpeth", "did you mean depth?"},
		{`{"repo":"r","xyz":1}`, fault.ValidationError, "inputs.xyz", "its inputs are all, at, depth, opt, pair, repo"},
		{`{"repo":"r","opt":{"deep":1}}`, fault.ValidationError, "inputs.opt.deep", ""},
		{`{"repo":"r","at":"today"}`, fault.ValidationError, "inputs.at", ""},
	} {
		_, err := pr.CheckInputs(json.RawMessage(tc.given))
		require.Error(t, err, tc.given)
		e := fault.From(err)
		assert.Equal(t, tc.code, e.Code, tc.given)
		assert.Equal(t, tc.field, e.Field, tc.given)
		assert.Equal(t, tc.hint, e.Hint, tc.given)
	}
}

func TestInputsWithoutASchema(t *testing.T) {
	t.Parallel()
	pr := compile(t, steps("id: a", "set: {x: 1}"))
	got, err := pr.CheckInputs(nil)
	require.NoError(t, err)
	assert.JSONEq(t, "{}", string(got))
	_, err = pr.CheckInputs(json.RawMessage(`{"x":1}`))
	assert.Equal(t, "it takes none", fault.From(err).Hint)
	open := compile(t, "orch: v1\ninputs: {additionalProperties: {type: string}}\n"+"steps: [{id: a, set: {x: '${{ inputs.any }}'}}]\n")
	_, err = open.CheckInputs(json.RawMessage(`{"x":"y"}`))
	require.NoError(t, err)
	_, err = open.CheckInputs(json.RawMessage(`{"x":1}`))
	require.True(t, fault.Has(err, fault.ValidationError))
}

// A schema that refers to itself ends.
func TestRecursiveSchema(t *testing.T) {
	t.Parallel()
	pr := compile(t, "orch: v1\ninputs: {properties: {n: {allOf: [{$ref: '#'}, {$ref: '#'}]}}}\nsteps: [{id: a, set: {x: 1}}]\n")
	_, err := pr.CheckInputs(json.RawMessage(`{"n":{"n":{}}}`))
	require.NoError(t, err)
}

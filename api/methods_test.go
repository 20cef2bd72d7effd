package api_test

import (
	"context"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
)

var capital = regexp.MustCompile(`(.)([A-Z])`)

// The table has a row for each method of the interface, in the same order and with its name.
func TestTableIsWhole(t *testing.T) {
	t.Parallel()
	wanted := map[string]bool{}
	for m := range reflect.TypeFor[api.API]().Methods() {
		wanted[strings.ToLower(capital.ReplaceAllString(m.Name, "${1}_$2"))] = true
	}
	for _, m := range api.Methods() {
		assert.True(t, wanted[m.Name], m.Name)
		delete(wanted, m.Name)
	}
	assert.Empty(t, wanted)
}

// recorder answers every request with an empty reply, and records its method.
type recorder struct{ asked []string }

func (r *recorder) transport(_ context.Context, c api.Call) error {
	r.asked = append(r.asked, c.Name)
	return nil
}

// Each method of a client sends the request of its own row, with its own types, over the wire and in the process.
func TestClientAsksEachMethod(t *testing.T) {
	t.Parallel()
	var r recorder
	client := api.NewClient(r.transport)
	for _, h := range api.Handlers(client) {
		_, err := h.Handle(t.Context(), func(in any) error { return json.Unmarshal([]byte(`{}`), in) })
		require.NoError(t, err)
	}
	var names []string
	for _, m := range api.Methods() {
		names = append(names, m.Name)
	}
	assert.Equal(t, names, r.asked)
	var inside recorder
	second := api.NewClient(func(ctx context.Context, c api.Call) error { return c.Make(ctx, api.NewClient(inside.transport)) })
	for _, h := range api.Handlers(second) {
		_, err := h.Handle(t.Context(), func(any) error { return nil })
		require.NoError(t, err)
	}
	assert.Equal(t, names, inside.asked)
}

// A request that cannot be decoded is not passed to the API.
func TestUnreadableRequestIsNotMade(t *testing.T) {
	t.Parallel()
	var r recorder
	for _, h := range api.Handlers(api.NewClient(r.transport)) {
		_, err := h.Handle(t.Context(), func(any) error { return assert.AnError })
		require.ErrorIs(t, err, assert.AnError)
	}
	assert.Empty(t, r.asked)
}

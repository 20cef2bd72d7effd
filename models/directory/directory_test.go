package directory_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/directory"
	"github.com/orch-dev/orch/models/script"
)

// newDirectory returns a directory with the providers a and broken, and counts how often a is opened.
func newDirectory(t *testing.T) (d *directory.Directory, opened *int) {
	t.Helper()
	opened = new(int)
	open := func() (models.Provider, error) {
		*opened++
		return script.New(strings.NewReader("turns: [{text: hi}]"))
	}
	return directory.New(directory.Config{
		Open: map[string]func() (models.Provider, error){
			"a": open, "broken": func() (models.Provider, error) { return nil, errors.New("no key") },
		},
		Script: func(name string) (models.Provider, error) {
			if name == "none" {
				return nil, fault.New(fault.NotFound, "there is no script")
			}
			return open()
		},
		Prices: map[string]directory.Price{"a/x": {Input: 1}, "a/x*": {Input: 2}, "a/*": {Input: 3}},
	}), opened
}

func TestProvider(t *testing.T) {
	t.Parallel()
	d, opened := newDirectory(t)
	for model, want := range map[string]string{"a/x": "x", "a/org/y": "org/y", "script:demo": "demo"} {
		p, id, err := d.Provider(model)
		require.NoError(t, err, model)
		assert.NotNil(t, p)
		assert.Equal(t, want, id)
	}
	assert.Equal(t, 2, *opened, "a provider is opened once, a script each time")
	assert.Equal(t, []string{"a", "broken"}, d.Providers())
	for model, want := range map[string]fault.Code{"x": fault.ValidationError, "a/": fault.ValidationError, "b/x": fault.NotFound, "script:none": fault.NotFound} {
		_, _, err := d.Provider(model)
		assert.Equal(t, want, fault.CodeOf(err), model)
	}
	_, _, err := d.Provider("broken/x")
	assert.ErrorContains(t, err, "no key")
}

func TestPrice(t *testing.T) {
	t.Parallel()
	d, _ := newDirectory(t)
	for model, want := range map[string]int64{"a/x": 1, "a/x2": 2, "a/y": 3} {
		price, known, err := d.Price(model)
		require.NoError(t, err)
		assert.True(t, known)
		assert.Equal(t, want, price.Input, model)
	}
	for model, want := range map[string]bool{"broken/x": false, "script:demo": true} {
		_, known, err := d.Price(model)
		require.NoError(t, err)
		assert.Equal(t, want, known, model)
	}
	_, _, err := d.Price("b/x")
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
}

// The model of an MCP client has no provider here, and a price only by the name that the agent gives it.
func TestClientModels(t *testing.T) {
	t.Parallel()
	d := directory.New(directory.Config{})
	_, _, err := d.Provider("sampling:claude")
	require.ErrorContains(t, err, "only the MCP client that starts an agent can ask sampling:claude")
	_, known, err := d.Price("sampling:")
	require.NoError(t, err)
	assert.False(t, known)
	priced := directory.New(directory.Config{Prices: map[string]directory.Price{"sampling:": {Input: 1}, "sampling:c*": {Input: 2}, "sampling:*": {Input: 3}}})
	for model, want := range map[string]int64{"sampling:": 1, "sampling:claude": 2, "sampling:gpt/5": 3} {
		price, known, err := priced.Price(model)
		require.NoError(t, err)
		assert.True(t, known)
		assert.Equal(t, want, price.Input, model)
	}
	_, _, err = d.Price("sampling:no hint")
	require.ErrorContains(t, err, "is no hint for a model")
}

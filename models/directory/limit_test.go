package directory_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/directory"
)

// holding is a provider that says when a request has arrived, and answers when it may.
type holding struct {
	arrived, answer chan struct{}
}

func (h holding) Stream(context.Context, models.Request, func(models.Delta)) (models.Answer, error) {
	h.arrived <- struct{}{}
	<-h.answer
	return models.Answer{}, nil
}

// A provider never gets more requests at the same time than its slots. One that is cancelled while it waits is not sent.
func TestSlots(t *testing.T) {
	t.Parallel()
	h := holding{make(chan struct{}), make(chan struct{})}
	d := directory.New(directory.Config{
		Open: map[string]func() (models.Provider, error){"a": func() (models.Provider, error) { return h, nil }}, Slots: map[string]int{"a": 2},
	})
	assert.Equal(t, 2, d.Slots("a"))
	p, _, err := d.Provider("a/x")
	require.NoError(t, err)
	var requests sync.WaitGroup
	ask := func() {
		_, err := p.Stream(context.WithoutCancel(t.Context()), models.Request{}, nil)
		assert.NoError(t, err)
	}
	requests.Go(ask)
	requests.Go(ask)
	<-h.arrived
	<-h.arrived
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err = p.Stream(ctx, models.Request{}, nil)
	require.ErrorIs(t, err, context.Canceled)

	requests.Go(ask)
	h.answer <- struct{}{}
	<-h.arrived
	h.answer <- struct{}{}
	h.answer <- struct{}{}
	requests.Wait()
}

package breaker_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/breaker"
)

// provider answers each request with the next of its errors; nil is an answer.
type provider struct {
	errs   []error
	asked  int
	onPart func()
}

func (p *provider) Stream(_ context.Context, _ models.Request, hear func(models.Delta)) (models.Answer, error) {
	err := p.errs[p.asked]
	p.asked++
	if p.onPart != nil {
		hear(models.Delta{Text: "a"})
		p.onPart()
	}
	return models.Answer{}, err
}

func failure(kind models.Kind) error {
	return &models.Error{Kind: kind, Message: "it is " + string(kind)}
}

// times returns n times the same error.
func times(n int, err error) (all []error) {
	for range n {
		all = append(all, err)
	}
	return all
}

func TestBreaker(t *testing.T) {
	t.Parallel()
	down := failure(models.Overloaded)
	type request struct {
		after time.Duration // since the request before
		err   error         // what the provider would return
	}
	soon := func(errs ...error) (all []request) {
		for _, err := range errs {
			all = append(all, request{time.Second, err})
		}
		return all
	}
	for name, tc := range map[string]struct {
		requests []request
		asked    int
		state    breaker.State
	}{
		"it works":                       {soon(nil, nil), 2, breaker.Closed},
		"four failures":                  {soon(times(4, down)...), 4, breaker.Closed},
		"five failures":                  {soon(times(5, down)...), 5, breaker.Open},
		"further requests are refused":   {soon(times(9, down)...), 5, breaker.Open},
		"unreachable":                    {soon(times(6, failure(models.Unreachable))...), 5, breaker.Open},
		"cut answers":                    {soon(times(6, failure(models.Transport))...), 5, breaker.Open},
		"rate limits":                    {soon(times(9, failure(models.RateLimited))...), 9, breaker.Closed},
		"rate limits do not count":       {soon(append(times(4, down), failure(models.RateLimited), down)...), 6, breaker.Open},
		"refused requests":               {soon(times(9, failure(models.Invalid))...), 9, breaker.Closed},
		"a refusal shows that it works":  {soon(append(times(4, down), failure(models.Unauthorized), down)...), 6, breaker.Closed},
		"too long shows that it works":   {soon(append(times(4, down), failure(models.TooLong), down)...), 6, breaker.Closed},
		"an answer in between":           {soon(append(times(4, down), nil, down)...), 6, breaker.Closed},
		"failures far from each other":   {[]request{{0, down}, {time.Minute, down}, {time.Minute, down}, {time.Minute, down}, {time.Minute, down}}, 5, breaker.Closed},
		"the probe fails":                {append(soon(times(5, down)...), request{15 * time.Second, down}, request{14 * time.Second, nil}), 6, breaker.Open},
		"the probe succeeds":             {append(soon(times(5, down)...), request{15 * time.Second, nil}, request{0, nil}), 7, breaker.Closed},
		"the probe is refused":           {append(soon(times(5, down)...), request{15 * time.Second, failure(models.Invalid)}, request{0, nil}), 7, breaker.Closed},
		"the probe meets a rate limit":   {append(soon(times(5, down)...), request{15 * time.Second, failure(models.RateLimited)}, request{time.Second, nil}), 6, breaker.HalfOpen},
		"the second probe succeeds":      {append(soon(times(5, down)...), request{15 * time.Second, down}, request{15 * time.Second, nil}), 7, breaker.Closed},
		"errors of another kind":         {soon(times(9, assert.AnError)...), 9, breaker.Closed},
		"a closed breaker counts afresh": {append(soon(times(5, down)...), append([]request{{15 * time.Second, nil}}, soon(times(4, down)...)...)...), 10, breaker.Closed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
			behind := &provider{}
			b := breaker.New(behind, func() time.Time { return now })
			for _, r := range tc.requests {
				now = now.Add(r.after)
				behind.errs = append(behind.errs[:behind.asked], r.err)
				_, _ = b.Stream(t.Context(), models.Request{}, nil)
			}
			assert.Equal(t, tc.asked, behind.asked)
			assert.Equal(t, tc.state, b.Status().State)
		})
	}
}

func TestRefusalSaysWhenToAskAgain(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	b := breaker.New(&provider{errs: times(5, failure(models.Overloaded))}, func() time.Time { return now })
	for range 5 {
		_, err := b.Stream(t.Context(), models.Request{}, nil)
		require.EqualError(t, err, "it is overloaded")
	}
	now = now.Add(5 * time.Second)
	_, err := b.Stream(t.Context(), models.Request{}, nil)
	assert.Equal(t, &models.Error{
		Kind: models.Overloaded, After: 10 * time.Second,
		Message: "its provider has failed 5 times in a row and is not asked until 09:00:15Z; the last time: it is overloaded",
	}, err)
	assert.Equal(t, breaker.Status{State: breaker.Open, Failures: 5, Error: "it is overloaded", Until: now.Add(10 * time.Second)}, b.Status())
}

func TestGivenUpRequestsDoNotCount(t *testing.T) {
	t.Parallel()
	b := breaker.New(&provider{errs: times(9, failure(models.Transport))}, time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 9 {
		_, _ = b.Stream(ctx, models.Request{}, nil)
	}
	assert.Equal(t, breaker.Status{State: breaker.Closed}, b.Status())
}

func TestProbeThatBeginsToAnswerClosesTheBreaker(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	behind := &provider{errs: append(times(5, failure(models.Overloaded)), nil)}
	b := breaker.New(behind, func() time.Time { return now })
	for range 5 {
		_, _ = b.Stream(t.Context(), models.Request{}, nil)
	}
	now = now.Add(time.Minute)
	seen, heard := breaker.Open, ""
	behind.onPart = func() { seen = b.Status().State }
	_, err := b.Stream(t.Context(), models.Request{}, func(d models.Delta) { heard += d.Text })
	require.NoError(t, err)
	assert.Equal(t, breaker.Closed, seen)
	assert.Equal(t, "a", heard)
}

package main

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/orch-dev/orch/fault"
)

const (
	// capability is the one that the calls require.
	capability = "conform"
	// usualLease is the lease of calls whose lease does not matter, shortLease that of others.
	usualLease = 90 * time.Second
	shortLease = time.Second
)

// rule is something that a worker must do.
type rule struct {
	name string
	try  func(context.Context, *standIn) error
}

// rules returns the rules in the order in which a worker is tried. The last one is that it leaves.
func rules() []rule {
	return []rule{
		{"takes-and-reports", takesAndReports},
		{"takes-what-it-asked-for", takesSeveral},
		{"repeats-a-report-without-answer", repeatsReport},
		{"loses-no-call-without-answer", losesNoCall},
		{"reports-again-later", reportsAgain},
		{"forgets-after-a-conflict", forgets},
		{"reports-an-error-instead", reportsError},
		{"waits-when-told", waitsWhenTold},
		{"keeps-leases", keepsLeases},
		{"stops-when-told", stopsWhenTold},
	}
}

// result waits for the report of a call, and compares the result with its data.
func (s *standIn) result(ctx context.Context, g *given) error {
	if err := s.await(ctx, "report its call", func() bool { return g.accepted }); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var have map[string]any
	last := g.reports[len(g.reports)-1]
	err := json.Unmarshal(last.Result, &have)
	want := map[string]any{"n": float64(g.data["n"].(int)), "seconds": g.data["seconds"]} //nolint:forcetypeassert // offer sets it
	if err != nil || !reflect.DeepEqual(have, want) {
		return fault.New(fault.ToolFailed, "the result is %s instead of the data of the call (error %q)", last.Result, last.Error)
	}
	return nil
}

func takesAndReports(ctx context.Context, s *standIn) error {
	return s.result(ctx, s.offer(0, usualLease))
}

func takesSeveral(ctx context.Context, s *standIn) error {
	var all []*given
	for range 20 {
		all = append(all, s.offer(0, usualLease))
	}
	for _, g := range all {
		if err := s.result(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

func repeatsReport(ctx context.Context, s *standIn) error {
	g := s.offer(0, usualLease)
	s.set(func() {
		s.lose = func(_ *request, out *answer) bool {
			return slices.ContainsFunc(out.Done, func(r receipt) bool { return r.ref == g.ref })
		}
	})
	if err := s.await(ctx, "repeat the report whose answer was lost", func() bool { return len(g.reports) > 1 }); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !same(g.reports[0], g.reports[1]) {
		return fault.New(fault.ToolFailed, "the report whose answer was lost has changed: %v", g.reports)
	}
	return nil
}

func losesNoCall(ctx context.Context, s *standIn) error {
	s.set(func() { s.lose = func(_ *request, out *answer) bool { return len(out.Calls) > 0 } })
	return s.result(ctx, s.offer(0, usualLease))
}

func reportsAgain(ctx context.Context, s *standIn) error {
	return s.result(ctx, s.offer(0, usualLease, refusal{Name: "UNAVAILABLE", Message: "the log cannot be written now"}))
}

func forgets(ctx context.Context, s *standIn) error {
	g := s.offer(0, usualLease, refusal{Name: "CONFLICT", Message: "the call has ended otherwise"})
	if err := s.await(ctx, "report its call", func() bool { return len(g.reports) > 0 }); err != nil {
		return err
	}
	return s.later(ctx)
}

// later lets the worker send requests for longer than grace, so that it is seen whether it has forgotten what is over.
func (s *standIn) later(ctx context.Context) error {
	return s.result(ctx, s.offer((grace+time.Second).Seconds(), shortLease))
}

func reportsError(ctx context.Context, s *standIn) error {
	g := s.offer(0, usualLease, refusal{Name: "VALIDATION_ERROR", Message: "the result is wrong", Field: "done.0.result"})
	if err := s.await(ctx, "report something else", func() bool { return g.accepted }); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := g.reports[len(g.reports)-1]; last.Error == "" && !last.Release {
		return fault.New(fault.ToolFailed, "it sent a result again that was refused for good")
	}
	return nil
}

func waitsWhenTold(ctx context.Context, s *standIn) error {
	s.set(func() { s.refuse = http.StatusServiceUnavailable })
	if err := s.await(ctx, "come back after 503", func() bool { return !s.again.IsZero() }); err != nil {
		return err
	}
	s.mu.Lock()
	waited := s.again.Sub(s.refused)
	s.refused = time.Time{}
	s.mu.Unlock()
	if waited < retryAfter {
		return fault.New(fault.ToolFailed, "Retry-After was %s, but it came back after %s", retryAfter, waited.Round(time.Millisecond))
	}
	return takesAndReports(ctx, s)
}

func keepsLeases(ctx context.Context, s *standIn) error {
	const leases = 3
	g := s.offer((leases * shortLease).Seconds(), shortLease)
	if err := s.result(ctx, g); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last := g.sent
	for _, at := range g.named {
		if at.Sub(last) > shortLease {
			return fault.New(fault.ToolFailed, "it was silent for %s about a call with a lease of %s", at.Sub(last).Round(time.Millisecond), shortLease)
		}
		last = at
	}
	if least := 3*leases - 2; len(g.named) < least {
		return fault.New(fault.ToolFailed, "it named the call %d times in %d leases: three times in each are due", len(g.named), leases)
	}
	return nil
}

func stopsWhenTold(ctx context.Context, s *standIn) error {
	g := s.offer(time.Hour.Seconds(), shortLease)
	if err := s.await(ctx, "name the call that runs", func() bool { return len(g.named) > 0 }); err != nil {
		return err
	}
	s.stop(g)
	if err := s.await(ctx, "ask again", func() bool { return !g.over.IsZero() }); err != nil {
		return err
	}
	if err := s.later(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(g.reports) > 0 {
		return fault.New(fault.ToolFailed, "it reported a call that it was told to end")
	}
	return nil
}

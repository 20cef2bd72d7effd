package bus

import (
	"context"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/messages"
)

const (
	// patientFor is how long an office is asked again that does not answer, as while its node restarts.
	patientFor = time.Minute
	// patientEvery is how long it is left alone in between.
	patientEvery = 250 * time.Millisecond
)

// Patient asks an office again that cannot be reached. Only requests that may be repeated are made through it: drafts
// have keys.
func Patient[Who any](o messages.Office[Who]) messages.Office[Who] { return patient[Who]{o} }

type patient[Who any] struct{ messages.Office[Who] }

// Send implements messages.Office.
func (p patient[Who]) Send(ctx context.Context, who Who, d messages.Draft) (messages.Receipt, error) {
	if d.Key == "" {
		return p.Office.Send(ctx, who, d)
	}
	return patiently(ctx, func() (messages.Receipt, error) { return p.Office.Send(ctx, who, d) })
}

// Inbox implements messages.Office.
func (p patient[Who]) Inbox(ctx context.Context, who Who, q messages.Query) (messages.Page, error) {
	return patiently(ctx, func() (messages.Page, error) { return p.Office.Inbox(ctx, who, q) })
}

// Ack implements messages.Office.
func (p patient[Who]) Ack(ctx context.Context, who Who, ids []string) (messages.Acked, error) {
	return patiently(ctx, func() (messages.Acked, error) { return p.Office.Ack(ctx, who, ids) })
}

// Group implements messages.Office.
func (p patient[Who]) Group(ctx context.Context, who Who, change messages.GroupChange) (messages.Groups, error) {
	return patiently(ctx, func() (messages.Groups, error) { return p.Office.Group(ctx, who, change) })
}

// patiently makes a request until it is answered, ctx ends or the patience does.
func patiently[Out any](ctx context.Context, request func() (Out, error)) (Out, error) {
	end := time.NewTimer(patientFor)
	defer end.Stop()
	tick := time.NewTicker(patientEvery)
	defer tick.Stop()
	for {
		out, err := request()
		if !fault.Has(err, fault.Unavailable) {
			return out, err
		}
		select {
		case <-tick.C:
		case <-end.C:
			return out, err
		case <-ctx.Done():
			return out, err
		}
	}
}

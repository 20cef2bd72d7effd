package node

import (
	"context"
	"time"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
)

const (
	// databaseWithin is how long a worker waits for the databases of its node. It is shorter than the time limit of a tool call,
	// so that the call can end with IN_DOUBT before it is aborted. databaseEvery is the pause between attempts while no node
	// answers.
	databaseWithin = 45 * time.Second
	databaseEvery  = 100 * time.Millisecond
)

// untilServed repeats a request while no node accepts it, such as during a restart. If idempotent is set, it also repeats a
// request after its answer was lost.
func untilServed(ctx context.Context, idempotent bool, request func(context.Context) error) error {
	ctx, stop := context.WithTimeout(ctx, databaseWithin)
	defer stop()
	tick := time.NewTicker(databaseEvery)
	defer tick.Stop()
	for {
		err := request(ctx)
		if !fault.Has(err, fault.Unavailable) || outcomeUnknown(err) && !idempotent {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

func outcomeUnknown(err error) bool {
	e := fault.From(err)
	return e != nil && e.Reason == bus.OutcomeUnknown
}

// inDoubt returns IN_DOUBT if err means that the answer to a write was lost. The write may have happened, so it must not be
// repeated automatically.
func inDoubt(err error) error {
	if !outcomeUnknown(err) {
		return err
	}
	return fault.Wrap(fault.InDoubt, err, "the node was lost and may have written it: "+fault.From(err).Message).
		WithHint("read what is at the path, and then: orch resolve")
}

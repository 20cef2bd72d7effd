package node

import (
	"context"
	"time"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
)

const (
	// databaseWithin is how long a worker waits for the databases of its node: less than the call of a tool may take, which
	// is in doubt then and has not failed. databaseEvery is the pause while there is no node.
	databaseWithin = 45 * time.Second
	databaseEvery  = 100 * time.Millisecond
)

// untilServed makes a request until a node takes it: while a node restarts there is none, and nothing was done. One that
// may be repeated is made again when its answer was lost, too.
func untilServed(ctx context.Context, again bool, request func(context.Context) error) error {
	ctx, stop := context.WithTimeout(ctx, databaseWithin)
	defer stop()
	tick := time.NewTicker(databaseEvery)
	defer tick.Stop()
	for {
		err := request(ctx)
		if !fault.Has(err, fault.Unavailable) || outcomeUnknown(err) && !again {
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

// doubted makes a lost answer to a write IN_DOUBT: it may be in the database, so that nobody may repeat it unasked.
func doubted(err error) error {
	if !outcomeUnknown(err) {
		return err
	}
	return fault.Wrap(fault.InDoubt, err, "the node was lost and may have written it: "+fault.From(err).Message).
		WithHint("read what is at the path, and then: orch resolve")
}

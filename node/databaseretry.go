package node

import (
	"context"
	"time"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
)

const (
	// databaseWithin is how long a worker waits for the databases of its node. It is shorter than the time limit of a tool
	// call, so that the call ends in doubt instead of being cut off. databaseEvery is the pause between attempts while there is
	// no node.
	databaseWithin = 45 * time.Second
	databaseEvery  = 100 * time.Millisecond
)

// untilServed repeats a request until a node accepts it: while a node restarts there is none, and nothing was done. If again is
// set, it also repeats a request whose answer was lost.
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

// inDoubt turns a lost answer to a write into IN_DOUBT: the write may have happened, so nobody may repeat it without being told
// to.
func inDoubt(err error) error {
	if !outcomeUnknown(err) {
		return err
	}
	return fault.Wrap(fault.InDoubt, err, "the node was lost and may have written it: "+fault.From(err).Message).
		WithHint("read what is at the path, and then: orch resolve")
}

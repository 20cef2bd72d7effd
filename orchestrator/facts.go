package orchestrator

import (
	"context"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/work"
)

// receive brings an outcome to the form of the log and stores its large values.
func (ws *workSource) receive(ctx context.Context, r *work.Outcome) (in decide.Received, err error) {
	if err = ws.serving(); err != nil {
		return in, err
	}
	if err = ws.clean.clean(r); err != nil {
		return in, err
	}
	if in.Spawned, err = ws.acceptSpawn(ctx, r); err != nil {
		return in, err
	}
	if in.Output, err = ws.blobs.keep(ctx, r.Output); err != nil {
		return in, err
	}
	return in, ws.blobs.keepFacts(ctx, r.Facts)
}

// maxNamed bounds how many targets and paths a request for approval names.
const maxNamed = 1000

// keepFacts stores the large values of facts that are clean.
func (bs *blobStore) keepFacts(ctx context.Context, facts []events.Event) error {
	for _, f := range facts {
		c, ok := f.Data.(*events.Checkpointed)
		if !ok {
			continue
		}
		var err error
		if c.State, err = bs.keep(ctx, c.State.Raw); err != nil {
			return err
		}
	}
	return nil
}

// showProgress keeps what a heartbeat says of a running call. The lock is held.
func (ws *workSource) showProgress(e *entry, p work.CallHeartbeat) {
	if p.Progress == nil {
		return
	}
	shown := *p.Progress
	shown.Message = ws.rules.CleanText(shown.Message)
	if e.progress[p.Step] != shown {
		e.note(p.Step, shown)
		e.notify()
	}
}

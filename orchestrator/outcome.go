package orchestrator

import (
	"context"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/work"
)

// normalize normalizes an outcome and stores its large values.
func (ws *workSource) normalize(ctx context.Context, r *work.Outcome) (in decide.Received, err error) {
	if err = ws.serving(); err != nil {
		return in, err
	}
	if err = ws.clean.cleanOutcome(r); err != nil {
		return in, err
	}
	if in.Spawned, err = ws.acceptSpawn(ctx, r); err != nil {
		return in, err
	}
	if in.Output, err = ws.blobs.offload(ctx, r.Output); err != nil {
		return in, err
	}
	return in, ws.blobs.storeFacts(ctx, r.Facts)
}

// maxNamed limits the targets and paths in a request for approval.
const maxNamed = 1000

// storeFacts stores the large values of normalized facts.
func (bs *blobStore) storeFacts(ctx context.Context, facts []events.Event) error {
	for _, f := range facts {
		c, ok := f.Data.(*events.Checkpointed)
		if !ok {
			continue
		}
		var err error
		if c.State, err = bs.offload(ctx, c.State.Raw); err != nil {
			return err
		}
	}
	return nil
}

// showProgress stores the progress in a heartbeat of a running call. mu must be held.
func (ws *workSource) showProgress(e *entry, p work.CallHeartbeat) {
	if p.Progress == nil {
		return
	}
	shown := *p.Progress
	shown.Message = ws.rules.CleanText(shown.Message)
	if e.progress[p.Step] != shown {
		e.setProgress(p.Step, shown)
		e.notify()
	}
}

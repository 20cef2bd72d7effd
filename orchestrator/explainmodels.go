package orchestrator

import (
	"fmt"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// becauseModel fills in c for a request to a model that waits to be sent.
func (t *explanation) becauseModel(s *statemachine.Step, c *api.Cause) {
	d, provider := t.rd.engine.queue.dispatcher, decide.ProviderOf(t.Task, s)
	running, waiting := d.Asked(provider)
	switch {
	case !d.Served(work.ModelsQueue, ""):
		c.Kind, c.Sentence, c.Next = "no_worker", fmt.Sprintf("Step %s waits for a node that asks models.", s.Key), "orch serve"
	case d.Full(provider):
		c.Kind, c.Next = "queued", "orch models list"
		c.Sentence = fmt.Sprintf("Step %s waits for a slot of the provider %s, which gets %d requests at the same time (concurrency); %d wait.",
			s.Key, provider, running, waiting)
	default:
		c.Kind, c.Sentence = "queued", fmt.Sprintf("Step %s waits for one of the slots of the node for requests to models, with %d others in the queue.",
			s.Key, max(d.QueuedIn(work.ModelsQueue)-1, 0))
	}
}

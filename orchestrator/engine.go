package orchestrator

import (
	"context"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
)

// engine keeps tasks in memory, takes decisions about them one after the other, writes those to the log, and draws their
// consequences once they are durable.
type engine struct {
	*core

	blobs    *blobStore
	compiler *compiler
	queue    *callQueue
	keyring  *keyring
	links    *links

	tasks  map[events.TaskID]*entry
	listed listing
	last   latest
	// asleep holds the open tasks that were not read since the start, because nobody needed more than this of them.
	asleep map[events.TaskID]*sleeper
	// loads bounds the histories that are read at the same time.
	loads chan struct{}
	// submitChild is Submit for a task that another one starts.
	submitChild func(context.Context, api.SubmitRequest, submitExtra) (api.SubmitReply, error)
}

func newEngine(c *core, blobs *blobStore, compile *compiler, queue *callQueue) *engine {
	en := &engine{
		core: c, blobs: blobs, compiler: compile, queue: queue, links: newLinks(c),
		tasks: map[events.TaskID]*entry{}, asleep: map[events.TaskID]*sleeper{}, loads: make(chan struct{}, maxLoads),
	}
	en.listed.keep, en.listed.keepWhole = c.cfg.Limits.KeepListed, c.cfg.Limits.KeepOpen
	en.keyring = newKeyring(c, func(id events.TaskID) *entry { return en.tasks[id] }, en.wake)
	return en
}

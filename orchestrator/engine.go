package orchestrator

import (
	"context"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
)

// engine holds tasks in memory and makes decisions about them, one at a time for each task. It writes the decisions to the log,
// and applies their consequences once they are durable.
type engine struct {
	*core

	blobs           *blobStore
	compiler        *compiler
	queue           *callQueue
	concurrencyKeys *concurrencyKeys
	links           *links
	ledgers         *ledgers

	tasks    map[events.TaskID]*entry
	listed   listing
	people   *people
	finished finishedTasks
	last     latest
	// asleep holds the open tasks that have not been loaded since the start.
	asleep map[events.TaskID]*sleeper
	// loads limits how many histories are read concurrently.
	loads chan struct{}
	// submitChild submits a child task. createPart creates the task of a part of a for_each.
	submitChild func(context.Context, api.SubmitRequest, *submitExtra) (api.SubmitReply, error)
	createPart  func(*submission, string, *submitExtra, func(api.SubmitReply, error))
}

func newEngine(c *core, blobs *blobStore, compile *compiler, queue *callQueue) *engine {
	en := &engine{
		core: c, blobs: blobs, compiler: compile, queue: queue, links: newLinks(c),
		tasks: map[events.TaskID]*entry{}, asleep: map[events.TaskID]*sleeper{}, people: newPeople(), loads: make(chan struct{}, maxLoads),
	}
	en.ledgers = newLedgers(c, en.wake)
	en.listed.index = c.cfg.Lists
	en.listed.keep = c.cfg.Limits.KeepListed
	en.finished = finishedTasks{most: c.cfg.Limits.KeepOpen, mostSteps: c.cfg.Limits.KeepOpenSteps}
	en.concurrencyKeys = newConcurrencyKeys(c, func(id events.TaskID) *entry { return en.tasks[id] }, en.wake)
	return en
}

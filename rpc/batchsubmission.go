package rpc

import (
	"context"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
)

// batchSubmission is a batch of tasks that is being submitted to the nodes of a cluster.
type batchSubmission struct {
	conn  *bus.Conn
	tasks []api.SubmitRequest
	// open are the indices of the tasks that are still to be submitted.
	open []int
	// answers contains the latest answer for each task; nil before the first request.
	answers []api.SubmitBatchItem
}

// run submits the open tasks until each has an answer. While an overloaded node accepts some of them, run does not give up.
func (b *batchSubmission) run(ctx context.Context) error {
	for {
		before := len(b.open)
		err := untilAccepted(ctx, func() error {
			return untilAnswered(ctx, b.conn, submitBatch, func() error { return b.submit(ctx) })
		})
		if !fault.IsOverloaded(err) || len(b.open) == before || ctx.Err() != nil {
			return err
		}
	}
}

// submit submits the open tasks once. Tasks that failed but may be submitted again remain open; submit then returns the error of
// the first of these.
func (b *batchSubmission) submit(ctx context.Context) error {
	var in api.SubmitBatchRequest
	for _, i := range b.open {
		in.Tasks = append(in.Tasks, b.tasks[i])
	}
	var reply api.SubmitBatchReply
	if err := submitOnce(ctx, b.conn, in, &reply); err != nil {
		return err
	}
	if b.answers == nil {
		b.answers = make([]api.SubmitBatchItem, len(b.tasks))
	}
	return b.storeAnswers(reply.Tasks)
}

// submitOnce sends one request for a batch, and checks that the reply contains an answer for each task.
func submitOnce(ctx context.Context, c *bus.Conn, in api.SubmitBatchRequest, reply *api.SubmitBatchReply) error {
	body, err := encodeRequest(in)
	if err != nil {
		return err
	}
	if err := callOnce(ctx, c, submitBatch, body, reply); err != nil {
		return err
	}
	if len(reply.Tasks) != len(in.Tasks) {
		return fault.New(fault.Internal, "the node answered %d of %d submissions", len(reply.Tasks), len(in.Tasks))
	}
	return nil
}

// storeAnswers stores the answers for the open tasks.
func (b *batchSubmission) storeAnswers(answers []api.SubmitBatchItem) error {
	var again []int
	for n, i := range b.open {
		b.answers[i] = answers[n]
		if e := answers[n].Error; e != nil && (fault.IsOverloaded(e) || noNode(b.conn, submitBatch, e)) {
			again = append(again, i)
		}
	}
	if b.open = again; len(again) > 0 {
		return b.answers[again[0]].Error
	}
	return nil
}

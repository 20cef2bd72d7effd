package rpc

import (
	"context"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
)

// batchSubmission is a batch of tasks on its way to the nodes of a cluster.
type batchSubmission struct {
	conn  *bus.Conn
	tasks []api.SubmitRequest
	// open are the indices of the tasks that are still to be submitted.
	open []int
	// answers are the last ones of all tasks; nil before there are any.
	answers []api.SubmitBatchItem
}

// submit asks for the open tasks. Those that may be submitted again stay open, and the error is that of the first of them.
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
	return b.take(reply.Tasks)
}

// submitOnce makes one request for a batch, and wants an answer for each task.
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

// take notes the answers for the open tasks.
func (b *batchSubmission) take(answers []api.SubmitBatchItem) error {
	var again []int
	for n, i := range b.open {
		b.answers[i] = answers[n]
		if e := answers[n].Error; e != nil && betweenNodes(b.conn, submitBatch, e) {
			again = append(again, i)
		}
	}
	if b.open = again; len(again) > 0 {
		return b.answers[again[0]].Error
	}
	return nil
}

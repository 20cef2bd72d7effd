package bus

import (
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/failpoint"
)

// The rules of group commit. A single conditional append costs one disk write, a batch about two and
// a temporary store, whatever its size.
const (
	// maxSingles is the number of single appends in flight from which on the others wait for a batch.
	maxSingles = 4
	// minBatch is the number of waiting appends that is worth a batch.
	minBatch = 8
	// maxBatch is the server's limit.
	maxBatch = 1000
	// maxBatchBytes bounds the data of one batch.
	maxBatchBytes = 8 << 20
	// maxBatches in flight: one is written while the next is sent.
	maxBatches = 2
)

// The headers of an atomic batch. The server has them, the client library has no function for them.
const (
	batchHeader       = "Nats-Batch-Id"
	batchSeqHeader    = "Nats-Batch-Sequence"
	batchCommitHeader = "Nats-Batch-Commit"
)

// write sends what waits in the queue whenever there is room, until the appender stops.
func (a *appender) write() {
	for {
		select {
		case <-a.stop:
			return
		case <-a.wake:
		}
		for {
			id, f := a.board()
			if f == nil {
				break
			}
			a.publish(id, f)
		}
	}
}

// board takes the next flight from the queue, or nil when it is empty or has to wait.
func (a *appender) board() (uint64, *flight) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch waiting := len(a.queue); {
	case waiting == 0:
		return 0, nil
	case waiting >= minBatch && a.batches < maxBatches:
		f := a.fill()
		return a.launch(f), f
	case a.batches == 0 && a.singles < maxSingles:
		f := &flight{members: a.queue[:1:1]}
		a.queue = a.queue[1:]
		return a.launch(f), f
	default:
		return 0, nil
	}
}

// fill takes members for a batch from the queue: different tasks, within the bounds. Commits that have
// to wait stay in their order. a.mu is held.
func (a *appender) fill() *flight {
	f := &flight{batch: batchID(), members: make([]*pending, 0, min(len(a.queue), maxBatch))}
	tasks := make(map[events.TaskID]struct{}, cap(f.members))
	var rest []*pending
	size := 0
	for _, p := range a.queue {
		_, twice := tasks[p.record.Task]
		if twice || len(f.members) == maxBatch || size+len(p.record.Data) > maxBatchBytes && size > 0 {
			rest = append(rest, p)
			continue
		}
		tasks[p.record.Task] = struct{}{}
		size += len(p.record.Data)
		f.members = append(f.members, p)
	}
	a.queue = rest
	if len(f.members) == 1 {
		f.batch = ""
	}
	return f
}

func (a *appender) publish(id uint64, f *flight) {
	if f.batch == "" {
		a.publishSingle(id, f.members[0])
		return
	}
	for i, p := range f.members {
		if err := a.conn.nc.PublishMsg(a.batchMessage(id, f, i, p)); err != nil {
			a.unsent(id, err)
			return
		}
		failpoint.Pass(failpoint.InBatch)
	}
}

// batchMessage is member i of a batch. Only the last one, which commits, asks for an answer.
func (a *appender) batchMessage(id uint64, f *flight, i int, p *pending) *nats.Msg {
	m := &nats.Msg{
		Subject: liveSubject(p.record.Task), Data: p.record.Data,
		Header: nats.Header{
			expectHeader:   {strconv.FormatUint(p.record.After, 10)},
			headHeader:     {encodeHead(&p.record.Head)},
			batchHeader:    {f.batch},
			batchSeqHeader: {strconv.Itoa(i + 1)},
		},
	}
	if i == len(f.members)-1 {
		m.Reply = a.reply(id)
		m.Header[batchCommitHeader] = []string{"1"}
	}
	return m
}

// scatter sends the members of a refused batch one by one: one of them was refused, and the server
// does not say which.
func (a *appender) scatter(members []*pending) {
	for _, p := range members {
		a.mu.Lock()
		p.tries-- // the batch wrote nothing
		id := a.launch(&flight{members: []*pending{p}})
		a.mu.Unlock()
		a.publishSingle(id, p)
	}
}

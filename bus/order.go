package bus

import "github.com/orch-dev/orch/events"

// Two headers make an append conditional: on the position of the newest commit of its task, or on that of the newest message of
// the log. The server must find and copy the newest commit for the former, but only compares a number for the latter.
const (
	taskHeader = "Nats-Expected-Last-Subject-Sequence"
	logHeader  = "Nats-Expected-Last-Sequence"
)

// order predicts the positions of the messages of an appender that is the only one that writes to the log, so that most of them can
// be conditional on the whole log. After a message that was refused or lost, and if somebody else writes too, the prediction is
// wrong. Then the server refuses the messages that are conditional on it; they are sent again, conditional on their tasks.
//
// That the log is as predicted does not say that an append is right about its task. So its record must also follow the newest commit of
// the task, which the appender has written since the prediction holds.
type order struct {
	// kept is set if the appender is the only writer.
	kept bool
	// newest is the predicted position of the newest message; 0 if there is no prediction.
	newest uint64
	// unsure is the number of the last message that was sent with a prediction that was wrong.
	unsure uint64
	// tips are the positions of the newest commits of tasks; 0 while a message of the task is in flight. When tips is full, it
	// becomes older, and the tasks that were there are forgotten.
	tips, older map[events.TaskID]uint64
}

func newOrder(kept bool) order {
	return order{kept: kept, tips: map[events.TaskID]uint64{}, older: map[events.TaskID]uint64{}}
}

// maxTips limits the tasks in each of the maps of an order.
const maxTips = 32 << 10

// expectation is what an order expects of a message.
type expectation struct {
	// position is where the message will be; 0 if that is not predicted.
	position uint64
	// onLog is set if the message is conditional on the log, not on its task.
	onLog bool
}

// predicts reports whether there is a prediction.
func (o *order) predicts() bool { return o.newest > 0 }

// sent returns what to expect of a message that is about to be sent.
func (o *order) sent(r *events.Record) expectation {
	if !o.predicts() {
		return expectation{}
	}
	o.newest++
	follows := r.After > 0 && (o.tips[r.Task] == r.After || o.older[r.Task] == r.After)
	if len(o.tips) >= maxTips {
		o.tips, o.older = o.older, o.tips
		clear(o.tips)
	}
	delete(o.older, r.Task)
	o.tips[r.Task] = 0
	return expectation{o.newest, follows}
}

// stored records that the message with number id of last has the position seq.
func (o *order) stored(p *pending, seq, id, last uint64) {
	switch {
	case !o.kept:
	case o.newest == 0 && id > o.unsure:
		o.newest = seq + last - id
	case p.expected.position == 0: // it was sent before the prediction
	case p.expected.position != seq:
		o.wrong(last)
	default:
		for _, tips := range []map[events.TaskID]uint64{o.tips, o.older} {
			if _, awaited := tips[p.record.Task]; awaited {
				tips[p.record.Task] = seq
			}
		}
	}
}

// forget makes the next message for a task conditional on it. It must be called before commits of the task are removed from the log.
func (o *order) forget(task events.TaskID) {
	delete(o.tips, task)
	delete(o.older, task)
}

// wrong ends the prediction after message number last was sent.
func (o *order) wrong(last uint64) {
	o.newest, o.unsure = 0, last
	if len(o.tips) > 0 { // not again for each of the messages that are refused
		o.tips, o.older = map[events.TaskID]uint64{}, map[events.TaskID]uint64{}
	}
}

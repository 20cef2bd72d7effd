package bus

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
)

// The server's codes that an append has to tell apart.
const (
	codeWrongLast   jetstream.ErrorCode = 10071 // another commit was first
	codeConcurrent  jetstream.ErrorCode = 10164 // … and is still on its way (clusters)
	codeStoreFailed jetstream.ErrorCode = 10077 // MaxBytes reached, with DiscardNew
	codeNoStorage   jetstream.ErrorCode = 10047 // more than MaxStore reserved
	codeResources   jetstream.ErrorCode = 10023 // MaxStore reached
	codeAccount     jetstream.ErrorCode = 10002 // the account's limit reached
)

func isConflictCode(c jetstream.ErrorCode) bool { return c == codeWrongLast || c == codeConcurrent }

func isFullCode(c jetstream.ErrorCode) bool {
	return c == codeStoreFailed || c == codeNoStorage || c == codeResources || c == codeAccount
}

// pubAck is the server's answer to an append.
type pubAck struct {
	Seq   uint64              `json:"seq"`
	Count uint64              `json:"count"`
	Error *jetstream.APIError `json:"error"`
}

// acknowledged takes one answer. Answers to flights that have landed otherwise are ignored: their
// members are settled by reading the log.
func (a *appender) acknowledged(m *nats.Msg) {
	id, err := strconv.ParseUint(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], 36, 64)
	if err != nil {
		return
	}
	f := a.land(id)
	if f == nil {
		return
	}
	var ack pubAck
	if err := json.Unmarshal(m.Data, &ack); err != nil { // no stream listens, or it is a mirror
		a.settleLater(f.members...)
		return
	}
	if ack.Error == nil {
		a.noteNewest(ack.Seq, f)
	}
	if a.grouping {
		signal(a.wake)
	}
	failpoint.Pass(failpoint.Appended)
	a.conclude(f, &ack)
}

func (a *appender) conclude(f *flight, ack *pubAck) {
	switch {
	case ack.Error == nil && f.batch != "" && ack.Count != uint64(len(f.members)):
		a.settleLater(f.members...)
	case ack.Error == nil: // the members of a batch are contiguous
		first := ack.Seq - uint64(len(f.members)) + 1
		for i, p := range f.members {
			a.finish(p, first+uint64(i), nil)
		}
	case f.batch != "":
		a.scatter(f.members)
	case f.members[0].tries > 1: // an earlier message may have been the one that was taken
		a.settleLater(f.members[0])
	default:
		a.finish(f.members[0], 0, appendFault(f.members[0], ack.Error))
	}
}

func appendFault(p *pending, api *jetstream.APIError) error {
	switch {
	case isConflictCode(api.ErrorCode):
		return conflict(p)
	case isFullCode(api.ErrorCode):
		return fault.Wrap(fault.DiskFull, api, "the log has reached its configured size").
			WithHint("archive finished tasks, or raise the limit")
	default:
		return fault.Wrap(fault.Unavailable, api, "the log refuses the commit").
			WithHint("the log of the node names the cause")
	}
}

func conflict(p *pending) error {
	return fault.New(fault.Conflict, "task %s has changed: another commit was first", p.record.Task).
		WithField("task").WithHint("read the task and decide again")
}

// noteNewest remembers the newest commit for the high-water mark.
func (a *appender) noteNewest(seq uint64, f *flight) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if seq > a.newest.seq {
		p := f.members[len(f.members)-1]
		a.newest = head{seq: seq, task: p.record.Task, data: p.record.Data, at: time.Now()}
	}
}

// head is the newest commit that the appender knows.
type head struct {
	seq  uint64
	task events.TaskID
	data []byte
	at   time.Time // of the acknowledgement
}

package bus

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
)

// The error codes of the server that are handled specially.
const (
	codeWrongLast   jetstream.ErrorCode = 10071 // another commit was first
	codeConcurrent  jetstream.ErrorCode = 10164 // another commit was first and is still being replicated (clusters)
	codeStoreFailed jetstream.ErrorCode = 10077 // MaxBytes reached, with DiscardNew
	codeNoStorage   jetstream.ErrorCode = 10047 // more than MaxStore reserved
	codeResources   jetstream.ErrorCode = 10023 // MaxStore reached
	codeAccount     jetstream.ErrorCode = 10002 // the account's limit reached
)

func isConflictCode(c jetstream.ErrorCode) bool { return c == codeWrongLast || c == codeConcurrent }

func isFullCode(c jetstream.ErrorCode) bool {
	return c == codeStoreFailed || c == codeNoStorage || c == codeResources || c == codeAccount
}

// serverLimits is the hint for an append that exceeds a limit of the server. Only external servers have such limits.
const serverLimits = "raise the JetStream limits of the NATS server or of its account"

// pubAck is the server's answer to an append.
type pubAck struct {
	Seq   uint64              `json:"seq"`
	Error *jetstream.APIError `json:"error"`
}

// readAck decodes an answer. Nearly all answers are {"stream":"…","seq":n}, for which it does not need the JSON decoder.
func readAck(data []byte) (pubAck, error) {
	if before, rest, _ := bytes.Cut(data, []byte(`,"seq":`)); bytes.Equal(before, []byte(plainAck)) {
		if seq, err := strconv.ParseUint(string(bytes.TrimSuffix(rest, []byte("}"))), 10, 64); err == nil {
			return pubAck{Seq: seq}, nil
		}
	}
	var ack pubAck
	err := json.Unmarshal(data, &ack)
	return ack, err
}

// plainAck is the beginning of an answer that contains only the position.
const plainAck = `{"stream":"` + liveStream + `"`

// onAck handles one acknowledgement. It ignores the acknowledgement of a message that is no longer tracked: the append is
// then resolved by reading the log.
func (a *appender) onAck(m *nats.Msg) {
	id, err := strconv.ParseUint(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], 36, 64)
	if err != nil {
		return
	}
	ack, err := readAck(m.Data)
	if err != nil || ack.Error != nil {
		ack.Seq = 0
	}
	p, stored := a.acknowledged(id, ack.Seq, time.Now())
	switch {
	case len(stored) > 0:
		failpoint.Pass(failpoint.Written)
		a.enqueueVerdicts(stored...)
	case p == nil:
	case ack.Error == nil: // the answer is not from a stream that stores the message
		a.resolveLater(p)
	case p.expected.onLog && isConflictCode(ack.Error.ErrorCode): // the log has another message; the task may be unchanged
		p.tries-- // it is certainly not in the log, and the server is not stuck
		a.transmit(p)
	case p.tries > 1: // an earlier message may have been stored
		p.stale = isConflictCode(ack.Error.ErrorCode)
		a.resolveLater(p)
	default:
		a.enqueueVerdicts(verdict{p: p, err: appendFault(p, ack.Error)})
	}
}

// enqueueVerdicts queues verdicts to be reported after the next sync. If the log is not synced (no barrier), it reports them at once.
// A conflict waits for the sync too: the commit that was first may not be durable yet.
func (a *appender) enqueueVerdicts(all ...verdict) {
	if a.barrier == nil {
		a.report(all, nil)
		return
	}
	a.mu.Lock()
	ended := a.terminated
	if !ended {
		a.verdicts = append(a.verdicts, all...)
	}
	a.mu.Unlock()
	if !ended {
		signal(a.syncSignal)
		return
	}
	for _, v := range all {
		a.finish(v.p, 0, unknownOutcome(v.p))
	}
}

// syncLoop syncs the log whenever verdicts wait, until the appender stops. While it runs a sync, reportLoop reports the
// verdicts of the previous sync.
func (a *appender) syncLoop() {
	defer close(a.groups)
	for {
		select {
		case <-a.stop:
			return
		case <-a.syncSignal:
		}
		a.mu.Lock()
		g := group{verdicts: a.verdicts}
		a.verdicts = nil
		a.mu.Unlock()
		g.err = a.barrier.wait(liveStream)
		a.groups <- g
	}
}

// group contains the verdicts that waited for the same sync.
type group struct {
	verdicts []verdict
	err      error // the error of the sync
}

// reportLoop reports each group of verdicts.
func (a *appender) reportLoop() {
	for g := range a.groups {
		a.report(g.verdicts, g.err)
	}
}

// report finishes the appends of verdicts. If err, the error of the sync, is not nil, it replaces every outcome.
func (a *appender) report(verdicts []verdict, err error) {
	for _, v := range verdicts {
		if err != nil {
			v.seq, v.err = 0, err
		}
		a.recordVerdict(v)
		failpoint.Pass(failpoint.Appended)
		a.finish(v.p, v.seq, v.err)
	}
}

func appendFault(p *pending, apiErr *jetstream.APIError) error {
	switch {
	case isConflictCode(apiErr.ErrorCode):
		return conflict(p)
	case isFullCode(apiErr.ErrorCode):
		return fault.Wrap(fault.DiskFull, apiErr, "the NATS server has reached its limits").WithHint(serverLimits)
	default:
		return fault.Wrap(fault.Unavailable, apiErr, "the log refuses the commit").
			WithHint("the log of the node names the cause")
	}
}

func conflict(p *pending) error {
	return fault.New(fault.Conflict, "task %s has changed: another commit was first", p.record.Task).
		WithField("task").WithHint("read the task and decide again")
}

// recordVerdict records the newest commit for the high-water mark, and whether the server accepts appends.
func (a *appender) recordVerdict(v verdict) {
	switch full, ok := errors.AsType[*fault.Error](v.err); {
	case v.err == nil:
		a.serverRefusal.Store(nil)
	case ok && full.Code == fault.DiskFull:
		a.serverRefusal.CompareAndSwap(nil, &refusal{err: full, since: events.Time(time.Now())})
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if v.seq > a.newest.seq {
		a.newest = head{seq: v.seq, task: v.p.record.Task, data: v.p.record.Data, at: time.Now()}
	}
}

// head is the newest acknowledged commit, for the high-water mark.
type head struct {
	seq  uint64
	task events.TaskID
	data []byte
	at   time.Time // of the acknowledgement
}

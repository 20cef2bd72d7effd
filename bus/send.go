package bus

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/orch-dev/orch/events"
)

// transmit queues an append for sendLoop.
func (a *appender) transmit(p *pending) {
	a.keep(&a.waiting, p)
	signal(a.sendSignal)
}

// sendLoop sends the appends that wait, until the appender stops. As long as the positions of messages are predicted, it sends them in
// groups. Only the last message of a group asks for an acknowledgement, and the next group is sent after it: if that message is
// where it was predicted, all those before it are too (see acknowledged).
func (a *appender) sendLoop() {
	m := newMessage(a.epoch)
	var group []*pending
	for {
		select {
		case <-a.stop:
			return
		case <-a.sendSignal:
		}
		group = a.nextGroup(group)
		for i, p := range group {
			a.sendMessage(m, p, i == len(group)-1)
		}
		clear(group)
	}
}

// nextGroup returns the appends to send now. It reuses the memory of the group that was sent before.
func (a *appender) nextGroup(sent []*pending) []*pending {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.order.predicts() && a.inFlight[a.asked] != nil {
		return sent[:0]
	}
	group := a.waiting
	a.waiting = sent[:0]
	return group
}

// sendMessage sends a message for an append.
func (a *appender) sendMessage(m *message, p *pending, last bool) {
	m.Data, m.before = p.record.Data, 0
	if a.compact.Load() {
		m.Data, m.before = packCommit(m.packed, p.record.Data), p.record.After
	}
	a.mu.Lock()
	id := a.track(p, last)
	a.mu.Unlock()
	err := a.publish(m, id, p)
	m.Data = nil
	if err != nil {
		a.sendFailed(id, err)
	}
}

// track registers a message that is about to be sent, the last one of its group or not. a.mu must be held.
func (a *appender) track(p *pending, last bool) uint64 {
	a.lastID++
	a.inFlight[a.lastID] = p
	p.tries++
	p.sent = time.Now()
	p.incarnation = a.conn.incarnation()
	p.expected, p.stale = a.order.sent(&p.record), false
	p.silent = !last && p.expected.position > 0
	if !p.silent {
		a.asked = a.lastID
	}
	return a.lastID
}

// acknowledged unregisters a message that was stored at seq, or not stored if seq is 0, and the silent messages before it. It returns the
// verdicts of those that are stored. Positions are predicted one after the other, and only the appender writes: if the message is where
// it was predicted, the silent messages are too. Otherwise reading the log shows where they are.
func (a *appender) acknowledged(id, seq uint64, now time.Time) (p *pending, stored []verdict) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p = a.inFlight[id]
	delete(a.inFlight, id)
	predicted := p != nil && seq > 0 && p.expected.position == seq
	for earlier := a.acked + 1; earlier < id; earlier++ {
		q := a.inFlight[earlier]
		switch {
		case q == nil || !q.silent:
			continue
		case predicted && q.expected.position == seq-(id-earlier):
			a.order.stored(q, q.expected.position, earlier, a.lastID)
			stored = append(stored, verdict{p: q, seq: q.expected.position})
		default:
			q.tries-- // the server has handled it, and is not stuck
			a.lost = append(a.lost, q)
			signal(a.lostSignal)
		}
		delete(a.inFlight, earlier)
	}
	a.acked, a.ackedAt = max(a.acked, id), now
	if p == nil || seq == 0 {
		a.order.wrong(a.lastID)
	} else {
		a.order.stored(p, seq, id, a.lastID)
		stored = append(stored, verdict{p: p, seq: seq})
	}
	signal(a.sendSignal)
	return p, stored
}

// publish sends an append. If the lease is not held, it does not send the append but parks it.
func (a *appender) publish(m *message, id uint64, p *pending) error {
	if a.lease != nil && !a.lease.Held() {
		if p = a.untrack(id); p != nil {
			a.park(p)
		}
		return nil
	}
	m.Subject, m.Reply = a.subject(p.record.Task), ""
	if !p.silent {
		m.Reply = a.reply(id)
	}
	m.setHeader(p)
	return a.conn.nc.PublishMsg(&m.Msg)
}

// message is a message for one append after the other: PublishMsg has encoded it when it returns.
type message struct {
	nats.Msg

	ofTask, ofLog nats.Header // conditional on the task, on the log
	expect, head  []string    // the values in both
	packed        []byte      // room for a commit
	before        uint64      // where the task's commit before this one is; 0 to leave it out
}

func newMessage(epoch string) *message {
	m := &message{expect: make([]string, 1), head: make([]string, 1), packed: make([]byte, 0, packedRoom)}
	m.ofTask = nats.Header{taskHeader: m.expect, headHeader: m.head}
	m.ofLog = nats.Header{logHeader: m.expect, headHeader: m.head}
	if epoch != "" {
		m.ofTask[epochHeader] = []string{epoch}
	}
	return m
}

func (m *message) setHeader(p *pending) {
	m.head[0] = encodeHead(&p.record.Head, m.before)
	m.Header, m.expect[0] = m.ofTask, strconv.FormatUint(p.record.After, 10)
	if p.expected.onLog {
		m.Header, m.expect[0] = m.ofLog, strconv.FormatUint(p.expected.position-1, 10)
	}
}

// subject returns the subject to which commits of a task are published.
func (a *appender) subject(task events.TaskID) string {
	stored := liveSubject(task)
	if a.root == "" {
		return stored
	}
	return a.root + strings.TrimPrefix(stored, liveRoot)
}

// sendFailed handles an error of publishing a message. If the client was not connected, the message is certainly not in
// the log; after any other error the log must be read.
func (a *appender) sendFailed(id uint64, err error) {
	p := a.untrack(id)
	if p == nil {
		return
	}
	refused := errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionClosed)
	if refused && p.tries == 1 {
		a.finish(p, 0, readFault(err))
	} else {
		a.resolveLater(p)
	}
}

func (a *appender) reply(id uint64) string {
	const base, size = 36, 64
	return string(strconv.AppendUint(append(make([]byte, 0, size), a.inbox...), id, base))
}

package bus

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/orch-dev/orch/fault"
)

const (
	// failoverWithin is how long a request waits for a node of a cluster to become active.
	failoverWithin = 10 * time.Second
	// askAgainAfter is the time between two tries.
	askAgainAfter = 50 * time.Millisecond
	// nodeStopping is the reason of the UNAVAILABLE of a request that the end of its node has cut short.
	nodeStopping = "NODE_STOPPING"
)

// repeatable are the commands that may be asked twice: they only read, or name what they make. Those that are false are decided
// by one commit, and may be asked again when the log did not take it. A tunnel that nobody uses ends by itself.
var repeatable = map[string]bool{ //nolint:gochecknoglobals // a constant table
	TunnelSubject: true, "submit_batch": true, "find": true, "get": true, "result": true, "list": true, "watch": true, "queue": true, "history": true,
	"replay": true, "explain": true, "approvals": true, "questions": true, "status": true, "verify": true,
	"cancel": false, "pause": false, "resume": false, "decide": false, "answer": false, "signal": false, "resolve": false, "checkpoint": false,
}

// parked are the methods that only wait for something to happen. They may be asked again at any time, so a node that stops ends them at once.
var parked = map[string]bool{"poll": true, "watch": true, "result": true} //nolint:gochecknoglobals // a constant table

// mayRepeat reports whether the request at a subject may be asked twice. What is no command may: workers and agents name what they say.
func mayRepeat(subject string) bool {
	command := strings.HasPrefix(subject, CommandPrefix+".") || strings.HasPrefix(subject, IdentitySubjects+".")
	return !command || repeatable[subject[strings.LastIndexByte(subject, '.')+1:]]
}

// untilAnswered makes a request by try, and again while no node of a cluster is active. One that has reached a node which then ended is made
// again if that is harmless. It returns the last error.
func (c *Conn) untilAnswered(ctx context.Context, method string, try func() error) error {
	var since time.Time
	for {
		err := try()
		if err == nil || !c.betweenNodes(method, err) {
			return err
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) > failoverWithin {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(askAgainAfter):
		}
	}
}

// askPatiently sends a request and returns the answer, see untilAnswered.
func (c *Conn) askPatiently(ctx context.Context, method string, body []byte) (data []byte, err error) {
	err = c.untilAnswered(ctx, method, func() (err error) {
		data, err = c.askOnce(ctx, method, body)
		return err
	})
	return data, err
}

func (c *Conn) askOnce(ctx context.Context, method string, body []byte) ([]byte, error) {
	subject, err := c.subject(method)
	if err != nil {
		return nil, err
	}
	reply, err := c.request(ctx, subject, body)
	switch {
	case err != nil:
		return nil, callFault(method, err)
	case reply.Header.Get(errorHeader) != "":
		return nil, remoteFault(reply.Data)
	default:
		return reply.Data, nil
	}
}

// betweenNodes reports whether a request failed because no node was there for it, and may be asked again.
func (c *Conn) betweenNodes(method string, err error) bool {
	if !c.external() {
		return false
	}
	if errors.Is(err, nats.ErrNoResponders) {
		return true
	}
	f := fault.From(err)
	name, _ := strings.CutPrefix(method, CommandPrefix+".")
	always, known := repeatable[name]
	switch {
	case f.Code != fault.Unavailable || !known:
		return false
	case f.Reason == Fenced:
		return true
	default:
		return always && (f.Reason == OutcomeUnknown || f.Reason == nodeStopping)
	}
}

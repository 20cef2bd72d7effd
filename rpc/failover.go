package rpc

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
)

const (
	// failoverWithin is how long a request waits for a node of a cluster to become active.
	failoverWithin = 10 * time.Second
	// retryPause is the pause between two attempts.
	retryPause = 50 * time.Millisecond
	// nodeStopping is the reason of UNAVAILABLE for a request that was interrupted by the end of its node.
	nodeStopping = "NODE_STOPPING"
)

// commands describes the methods for clients, by name: the API, the operations on the store, and the tunnel.
var commands = commandTable() //nolint:gochecknoglobals // a constant table

func commandTable() map[string]api.Method {
	all := map[string]api.Method{"verify": {Repeat: api.Always}, bus.TunnelSubject: {Repeat: api.Always}}
	for _, m := range api.Methods() {
		all[m.Name] = m
	}
	return all
}

// isParked reports whether a method only waits for a change. A stopping node ends such requests at once, because they can be
// repeated at any time.
func isParked(name string) bool { return name == "poll" || commands[name].Parked }

// mayRepeat reports whether a request may be sent twice. All requests of workers and agents may, because their reports identify
// the call.
func mayRepeat(subject string) bool {
	command := strings.HasPrefix(subject, bus.CommandPrefix+".") || strings.HasPrefix(subject, bus.IdentitySubjects+".")
	return !command || commands[subject[strings.LastIndexByte(subject, '.')+1:]].Repeat == api.Always
}

// untilAnswered sends a request with try, and repeats it while no node of a cluster is active. If the node that received the
// request has stopped, untilAnswered repeats it only if that is harmless. It returns the last error.
func untilAnswered(ctx context.Context, c *bus.Conn, method string, try func() error) error {
	var since time.Time
	for {
		err := try()
		if err == nil || !noNode(c, method, err) {
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
		case <-time.After(retryPause):
		}
	}
}

// requestWithFailover sends a request and returns the answer, see untilAnswered.
func requestWithFailover(ctx context.Context, c *bus.Conn, method string, body []byte) (data []byte, err error) {
	err = untilAnswered(ctx, c, method, func() (err error) {
		data, err = askOnce(ctx, c, method, body)
		return err
	})
	return data, err
}

func askOnce(ctx context.Context, c *bus.Conn, method string, body []byte) ([]byte, error) {
	subject, err := subjectOf(c, method)
	if err != nil {
		return nil, err
	}
	reply, err := request(ctx, c, subject, body)
	switch {
	case err != nil:
		return nil, callFault(method, err)
	case reply.Header.Get(errorHeader) != "":
		return nil, remoteFault(reply.Data)
	default:
		return reply.Data, nil
	}
}

// noNode reports whether a request failed because no node answered it, and may be repeated.
func noNode(c *bus.Conn, method string, err error) bool {
	if !c.External() {
		return false
	}
	if errors.Is(err, nats.ErrNoResponders) {
		return true
	}
	f := fault.From(err)
	name, _ := strings.CutPrefix(method, bus.CommandPrefix+".")
	repeat := commands[name].Repeat
	switch {
	case f.Code != fault.Unavailable || repeat == api.Never:
		return false
	case f.Reason == bus.Fenced:
		return true
	default:
		return repeat == api.Always && (f.Reason == bus.OutcomeUnknown || f.Reason == nodeStopping)
	}
}

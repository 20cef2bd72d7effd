package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
)

const (
	// errorHeader marks a reply whose body is a fault.Error; its value is the code.
	errorHeader = "Orch-Error"
	// timeoutHeader contains the time in milliseconds that the caller waits for the answer.
	timeoutHeader = "Orch-Timeout"
	// untilHeader contains the time, in milliseconds of the Unix epoch, until which the caller waits. Only a caller on the machine of
	// the node sends it, because other clocks may differ.
	untilHeader = "Orch-Until"
	// statusHeader is set by the NATS server. Its value is nobodyThere if a subject has no subscriber.
	statusHeader = "Status"
	nobodyThere  = "503"
	// CallWithin limits a call whose context has no deadline.
	CallWithin = time.Minute
)

// Call sends a request to a method, such as "orch.cmd.submit", and decodes the answer into out, which may be nil. It returns the
// error of the method without its cause, or one of these errors: UNAVAILABLE if no node serves the method or the connection is
// lost, TIMEOUT, or VALIDATION_ERROR if the request is larger than the NATS server allows. If the request may have been executed
// nevertheless, the error has the reason OutcomeUnknown.
func Call(ctx context.Context, c *bus.Conn, method string, in, out any) error {
	body, err := encodeRequest(in)
	if err != nil {
		return err
	}
	return callEncoded(ctx, c, method, body, out)
}

func encodeRequest(in any) ([]byte, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the request cannot be encoded")
	}
	return body, nil
}

// callEncoded is Call for an encoded request.
func callEncoded(ctx context.Context, c *bus.Conn, method string, body []byte, out any) error {
	return untilAnswered(ctx, c, method, func() error { return callOnce(ctx, c, method, body, out) })
}

// callOnce is callEncoded without repetition.
func callOnce(ctx context.Context, c *bus.Conn, method string, body []byte, out any) error {
	if limit := c.NATS().MaxPayload(); int64(len(body)) > limit {
		return tooLarge("request", len(body), limit)
	}
	data, err := askOnce(ctx, c, method, body)
	if err != nil || out == nil {
		return err
	}
	if err := jsonv2.Unmarshal(data, out, lenient); err != nil {
		return fault.Wrap(fault.Internal, err, "the answer of the node cannot be read").
			WithHint("use the same version of orch on both sides")
	}
	return nil
}

// request sends a request and waits for the reply until ctx ends or the connection is lost. After that no reply can arrive.
func request(ctx context.Context, c *bus.Conn, method string, body []byte) (*nats.Msg, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, CallWithin)
		defer cancel()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := c.OnLoss(func() { cancel(nats.ErrDisconnected) })
	defer stop()
	m := &nats.Msg{Subject: method, Data: body, Header: nats.Header{protocolHeader: {strconv.Itoa(ProtocolVersion)}}}
	if deadline, ok := ctx.Deadline(); ok {
		m.Header[timeoutHeader] = []string{strconv.FormatInt(time.Until(deadline).Milliseconds(), 10)}
		if !c.External() {
			m.Header[untilHeader] = []string{strconv.FormatInt(deadline.UnixMilli(), 10)}
		}
	}
	reply, err := c.NATS().RequestMsgWithContext(ctx, m)
	if err != nil && errors.Is(context.Cause(ctx), nats.ErrDisconnected) {
		return nil, nats.ErrDisconnected
	}
	return reply, err
}

func callFault(method string, err error) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return fault.Wrap(fault.Unavailable, err, "no node serves "+method).
			WithHint("start one with: orch serve")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return fault.Wrap(fault.Timeout, err, "the node did not answer "+method+" in time").WithReason(bus.OutcomeUnknown).
			WithHint("the request may have been executed; check before you repeat it")
	case errors.Is(err, context.Canceled):
		return fault.From(err)
	case errors.Is(err, nats.ErrDisconnected):
		return fault.Wrap(fault.Unavailable, err, "the connection to the node was lost during "+method).WithReason(bus.OutcomeUnknown).
			WithHint("the request may have been executed; check before you repeat it")
	default:
		return fault.Wrap(fault.Unavailable, err, "the node cannot be reached for "+method).
			WithHint("check that it runs: orch doctor")
	}
}

func remoteFault(body []byte) error {
	var e fault.Error
	if err := json.Unmarshal(body, &e); err != nil || e.Code == "" {
		return fault.Wrap(fault.Internal, err, "the node answered with an error that cannot be read")
	}
	return &e
}

func tooLarge(what string, size int, limit int64) *fault.Error {
	return fault.New(fault.ValidationError, "the %s has %d bytes, the limit is %d", what, size, limit).
		WithHint("ask for less at once, or put large values into files")
}

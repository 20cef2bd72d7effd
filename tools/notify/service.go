package notify

import (
	"context"
	"errors"
	"net"
	"syscall"

	"github.com/nicholas-fedor/shoutrrr/pkg/router"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// maxPending limits the concurrent deliveries to one service. Some services support no deadline, so an abandoned
// delivery continues until its connection ends.
const maxPending = 4

// service is a service of shoutrrr. Its address is not checked, because the operator configured the URL.
type service struct {
	url   string
	slots chan struct{}
}

func newService(raw string) *service {
	return &service{url: raw, slots: make(chan struct{}, maxPending)}
}

// send delivers a notice. It returns TIMEOUT when ctx ends before the service has answered, and UNAVAILABLE when
// maxPending deliveries are still running.
func (s *service) send(ctx context.Context, _ *tools.Env, n Notice) error {
	select {
	case s.slots <- struct{}{}:
	default:
		return fault.New(fault.Unavailable, "earlier notifications to the service are still pending")
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-s.slots }()
		done <- s.call(n)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fault.Wrap(fault.Timeout, ctx.Err(), "the service did not answer in time")
	}
}

// call delivers without a deadline. The errors of shoutrrr may contain URLs with credentials, so their text is
// dropped.
func (s *service) call(n Notice) (err error) {
	defer func() {
		if recover() != nil { // nothing else recovers in this goroutine
			err = fault.New(fault.Internal, "the library of the service failed")
		}
	}()
	var services router.ServiceRouter
	to, err := services.Locate(s.url)
	if err != nil {
		return fault.New(fault.InvalidFormat, "shoutrrr does not support the configured URL")
	}
	params := types.Params{}
	params.SetTitle(n.Subject)
	if err := to.Send(text(n), &params); err != nil {
		return fault.New(fault.NetworkError, "the service %s", failureText(err))
	}
	return nil
}

// text returns the message with the information that a person needs to find the task.
func text(n Notice) string {
	return n.Message + "\n\nPriority: " + n.Priority + "\nTask: " + string(n.Task)
}

func failureText(err error) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return "has a name that cannot be resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused the connection"
	case errors.Is(err, context.DeadlineExceeded):
		return "did not answer in time"
	default:
		return "did not accept it"
	}
}

package node

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// phase determines when a part of a node is stopped.
type phase int

const (
	// untilHandover is for parts that stop before another node opens the data directory.
	untilHandover phase = iota
	// untilStop is for parts that run calls. They continue after a handover, until Node.Stop.
	untilStop
)

// cleanup undoes c step of the start.
type cleanup struct {
	phase phase
	fn    func(context.Context) error
}

// cleanups holds the undo functions of completed steps. Each runs once, in reverse order.
type cleanups struct {
	mu   sync.Mutex // held while the functions run
	list []cleanup
}

func (e *cleanups) add(p phase, fn func(context.Context) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, cleanup{p, fn})
}

// runFor runs the undo functions of the parts that must stop in phase p or earlier.
func (e *cleanups) runFor(ctx context.Context, p phase) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, c := range slices.Backward(e.list) {
		if c.phase <= p {
			errs = append(errs, c.fn(ctx))
		}
	}
	e.list = slices.DeleteFunc(e.list, func(c cleanup) bool { return c.phase <= p })
	return errors.Join(errs...)
}

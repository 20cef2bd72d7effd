package node

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// phase is the lifetime of a part of a node.
type phase int

const (
	// untilHandover is for parts that end before another node starts on the data directory.
	untilHandover phase = iota
	// untilStop is for parts that live until the process no longer needs the node: those that run calls.
	untilStop
)

// cleanup undoes one step of the start.
type cleanup struct {
	phase phase
	fn    func(context.Context) error
}

// cleanups holds the undo functions of completed steps. Each runs once, the last one first.
type cleanups struct {
	mu   sync.Mutex // held while they run
	list []cleanup
}

func (e *cleanups) add(p phase, fn func(context.Context) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, cleanup{p, fn})
}

// runFor runs the undo functions of parts that live no longer than a phase.
func (e *cleanups) runFor(ctx context.Context, p phase) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, one := range slices.Backward(e.list) {
		if one.phase <= p {
			errs = append(errs, one.fn(ctx))
		}
	}
	e.list = slices.DeleteFunc(e.list, func(one cleanup) bool { return one.phase <= p })
	return errors.Join(errs...)
}

package node

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// phase is how long a part of a node lives.
type phase int

const (
	// untilHandover is a part that ends before another node starts on the data directory.
	untilHandover phase = iota
	// untilStop is a part that lives until the process has no more use for the node: what runs calls.
	untilStop
)

// end undoes one step of the start.
type end struct {
	phase phase
	fn    func(context.Context) error
}

// ends are those of the steps that were done. Each is run once, the last first.
type ends struct {
	mu   sync.Mutex // held while they run
	list []end
}

func (e *ends) add(p phase, fn func(context.Context) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, end{p, fn})
}

// runFor runs those of the parts that live no longer than a phase.
func (e *ends) runFor(ctx context.Context, p phase) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, one := range slices.Backward(e.list) {
		if one.phase <= p {
			errs = append(errs, one.fn(ctx))
		}
	}
	e.list = slices.DeleteFunc(e.list, func(one end) bool { return one.phase <= p })
	return errors.Join(errs...)
}

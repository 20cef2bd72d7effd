package sim_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing/synctest"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator"
)

// call is a request of a client or worker to an owner.
type call struct {
	n      int
	label  string
	owner  *owner
	cancel context.CancelFunc
	then   func(err error)

	mu   sync.Mutex
	over bool
	err  error
}

// call sends a request. When it ends, then is called by the driver.
func (w *world) call(o *owner, label string, do func(ctx context.Context, o *orchestrator.Orchestrator) error, then func(err error)) *call {
	w.callNo++
	c := &call{n: w.callNo, label: label, owner: o, then: then}
	if o == nil {
		c.cancel = func() {}
		then(unavailable())
		return c
	}
	var ctx context.Context
	ctx, c.cancel = context.WithCancel(context.WithValue(context.Background(), ofClient{}, true))
	w.calls = append(w.calls, c)
	go func() {
		err := do(ctx, o.Orchestrator)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.over, c.err = true, err
	}()
	synctest.Wait() // before the next request is sent
	return c
}

// answered reports whether the answer has arrived, and its error.
func (c *call) answered() (over bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over, c.err
}

// receiveAnswers processes the answers that have arrived, and reports whether there were any.
func (w *world) receiveAnswers() bool {
	heard := false
	for _, c := range slices.Clone(w.calls) {
		over, err := c.answered()
		if !over {
			continue
		}
		heard = true
		w.calls = slices.DeleteFunc(w.calls, func(x *call) bool { return x == c })
		c.cancel()
		switch {
		case !c.owner.alive:
			err = unavailable() // whether it was answered before the owner died is a matter of luck
		case w.disarm("lose_reply"):
			w.logf("the answer to %s is lost", c.label)
			err = unavailable()
		}
		if w.tape != nil && (err != nil || !c.quiet()) {
			w.logf("%s: %s", c.label, answerText(err))
		}
		c.then(err)
	}
	return heard
}

// quiet reports whether the call is logged only when it fails.
func (c *call) quiet() bool {
	return strings.HasPrefix(c.label, "list") || strings.HasPrefix(c.label, "explain") || strings.HasPrefix(c.label, "poll")
}

func answerText(err error) string {
	if err == nil {
		return "ok"
	}
	return string(fault.CodeOf(err))
}

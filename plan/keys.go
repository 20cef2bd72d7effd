package plan

import (
	"fmt"

	"github.com/orch-dev/orch/fault"
)

// This file evaluates the keys of a plan, once for each task.

// IdempotencyKey evaluates the idempotency key; "" means none.
func (pr *Program) IdempotencyKey(sc Scope) (string, error) { return key(pr.idempotencyKey, sc) }

// ConcurrencyKey evaluates the key of Plan.Concurrency; "" means none.
func (pr *Program) ConcurrencyKey(sc Scope) (string, error) { return key(pr.concurrencyKey, sc) }

// LimitKey evaluates Limits.Key; "" means none.
func (pr *Program) LimitKey(sc Scope) (string, error) { return key(pr.limitKey, sc) }

// maxKey bounds an evaluated key, in bytes.
const maxKey = 512

func key(f *field, sc Scope) (string, error) {
	if f == nil {
		return "", nil
	}
	v, err := f.value(sc, nil)
	if err != nil {
		return "", err
	}
	s, err := toText(v)
	if err == nil && (s == "" || len(s) > maxKey) {
		err = fmt.Errorf("it has %d bytes, not 1 to %d", len(s), maxKey)
	}
	if err != nil {
		return "", fault.Wrap(fault.ValidationError, err, "the key of the plan cannot be used: "+err.Error())
	}
	return s, nil
}

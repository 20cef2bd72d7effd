package worker_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/worker"
)

type gatePolicy struct{}

func newPolicy(_ testing.TB, _ *pathguard.Root) worker.Policy { return gatePolicy{} }

func (gatePolicy) Decide(r worker.Request) error {
	if !slices.Contains(r.Spec.Gate.States(), r.State) {
		return fault.New(fault.StateNotAllowed, "%s is not allowed in state %s", r.Spec.Name, r.State)
	}
	return nil
}

func (gatePolicy) Redact(data []byte) ([]byte, bool) {
	clean := bytes.ReplaceAll(data, []byte(secret), []byte("[REDACTED]"))
	return clean, len(clean) != len(data)
}

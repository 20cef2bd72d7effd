package rpc

import (
	"time"

	"github.com/orch-dev/orch/agents"
)

// AnswersKept returns the numbers of the answers with calls that are remembered after answers at the given times.
func AnswersKept(at []time.Time) (numbers []uint64) {
	s := &agentServer{deliveries: map[uint64]pendingDelivery{}, first: 1}
	for _, t := range at {
		s.clock = func() time.Time { return t }
		s.storeDelivery(agents.Delivery{})
	}
	for no := range s.deliveries {
		numbers = append(numbers, no)
	}
	return numbers
}

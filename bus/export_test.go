package bus

import (
	"time"

	"github.com/orch-dev/orch/agents"
)

// Restart starts the server anew in its place, as a full disk makes it do.
func (s *Server) Restart() error { return s.restart() }

// PretendReplicas makes a connection read as if the streams were on several servers.
func (c *Conn) PretendReplicas() { c.replicated.Store(true) }

// AnswersKept returns the numbers of the answers with calls that are remembered after some at these times.
func AnswersKept(at []time.Time) (numbers []uint64) {
	s := &counter{handed: map[uint64]handed{}, first: 1}
	for _, t := range at {
		s.clock = func() time.Time { return t }
		s.keep(agents.Handed{})
	}
	for no := range s.handed {
		numbers = append(numbers, no)
	}
	return numbers
}

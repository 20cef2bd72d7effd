package bus

import (
	"bytes"
	"context"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
)

// Restart starts the server anew in its place, as a full disk makes it do.
func (s *Server) Restart() error { return s.restart() }

// PretendReplicas makes a connection read as if the streams were on several servers.
func (c *Conn) PretendReplicas() { c.replicated.Store(true) }

// AnswersKept returns the numbers of the answers with calls that are remembered after some at these times.
func AnswersKept(at []time.Time) (numbers []uint64) {
	s := &agentServer{deliveries: map[uint64]pendingDelivery{}, first: 1}
	for _, t := range at {
		s.clock = func() time.Time { return t }
		s.remember(agents.Delivery{})
	}
	for no := range s.deliveries {
		numbers = append(numbers, no)
	}
	return numbers
}

// RecordRemoved does the first half of the removal of a task, as one that is cut short.
func (s *Store) RecordRemoved(ctx context.Context, task events.TaskID) error {
	records := map[string]*bytes.Buffer{}
	if _, _, err := s.addRemoved(ctx, records, task); err != nil {
		return err
	}
	return s.writeRemoved(ctx, records)
}

// FormatPositions and ParsePositions are how a record of removed tasks has positions.
func FormatPositions(positions []uint64) string { return formatPositions(positions) }

// ParsePositions returns the positions of a text of FormatPositions.
func ParsePositions(text string) (positions []uint64, err error) {
	err = parsePositions(text, func(seq uint64) { positions = append(positions, seq) })
	return positions, err
}

// OldVersion is what a store of an older version says of itself.
func OldVersion() ([]byte, error) { return seal(storeVersion{}) }

// VersionOf reads what OldVersion returns.
func VersionOf(data []byte) (int, error) {
	var v storeVersion
	err := unseal(data, &v)
	return v.Version, err
}

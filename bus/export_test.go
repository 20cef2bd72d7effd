package bus

import (
	"bytes"
	"context"

	"github.com/orch-dev/orch/events"
)

// PretendReplicas makes a connection read as if the streams were on several servers.
func (c *Conn) PretendReplicas() { c.replicated.Store(true) }

// RecordRemoved does the first half of the removal of a task, like an interrupted removal.
func (ar *archive) RecordRemoved(ctx context.Context, task events.TaskID) error {
	records := map[string]*bytes.Buffer{}
	if _, _, err := ar.addRemoved(ctx, records, task); err != nil {
		return err
	}
	return ar.writeRemoved(ctx, records)
}

// FormatPositions and ParsePositions are how a record of removed tasks has positions.
func FormatPositions(positions []uint64) string { return formatPositions(positions) }

// ParsePositions returns the positions of a text of FormatPositions.
func ParsePositions(text string) (positions []uint64, err error) {
	err = parsePositions(text, func(seq uint64) { positions = append(positions, seq) })
	return positions, err
}

// OldVersion returns the version file of a store of an older version.
func OldVersion() ([]byte, error) { return seal(storeVersion{}) }

// VersionOf decodes a version file.
func VersionOf(data []byte) (int, error) {
	var v storeVersion
	err := unseal(data, &v)
	return v.Version, err
}

package bus

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/orch-dev/orch/bus/storefile"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
)

// checkedFile lists the blocks of the store that a start or a stop has read without damage. The next start reads only the
// others, and those whose file has changed. The file is derived data: without it, every block is read.
const checkedFile = "checked.json"

// checkedBlocks is the content of checkedFile: the blocks of each stream.
type checkedBlocks struct {
	Streams map[string][]storefile.Block `json:"streams"`
}

// readChecked returns the blocks in checkedFile, nil if there is none or it is damaged.
func readChecked(dataDir string) storefile.Known {
	var c checkedBlocks
	if readSealed(filepath.Join(dataDir, checkedFile), &c) != nil {
		return nil
	}
	known := storefile.Known{}
	for name, blocks := range c.Streams {
		known[name] = map[int]storefile.Block{}
		for _, b := range blocks {
			known[name][b.Number] = b
		}
	}
	return known
}

// manyUnlisted is how many blocks a check must have read before it is worth to list them: so many take about 50 ms.
const manyUnlisted = 8

// writeChecked lists the blocks that a check has found undamaged, if it had to read many of them. Their content is on the disk
// before the list is: after a power loss a listed block has the content that was read.
func writeChecked(dataDir string, streams []storefile.Stream) error {
	c := checkedBlocks{Streams: map[string][]storefile.Block{}}
	unlisted := 0
	for _, s := range streams {
		if len(s.Blocks) > 0 {
			c.Streams[s.Name] = s.Blocks
		}
		unlisted += len(s.Blocks) - s.Trusted
	}
	if unlisted < manyUnlisted {
		return nil
	}
	if err := syncDisk(dataDir); err != nil {
		return err
	}
	return writeSealed(filepath.Join(dataDir, checkedFile), c)
}

// listChecked checks what was written since the start, when the server has stopped, so that the next start need not.
func (s *Server) listChecked(ctx context.Context) {
	if s.firm.failure() != nil || s.suspect || s.newer != nil || ctx.Err() != nil {
		return // the next start must read the disk, or there is no time
	}
	streams, err := storefile.CheckNew(ctx, storefile.Dir(filepath.Join(s.cfg.DataDir, storeDir)), believable, readChecked(s.cfg.DataDir))
	if err == nil {
		err = writeChecked(s.cfg.DataDir, streams)
	}
	if err != nil && ctx.Err() == nil {
		s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the next start checks all files", slog.Any("error", err))
	}
}

// checkTrusted reads the blocks that the start has not read, at a tenth of a core, and refuses appends if one of them is damaged:
// a disk may change what nobody has written. It ignores blocks that the server has changed meanwhile.
func (s *Store) checkTrusted(ctx context.Context) {
	server := s.conn.target.server
	if server == nil {
		return
	}
	var share pause.Share
	err := storefile.CheckTrusted(storefile.Dir(filepath.Join(server.cfg.DataDir, storeDir)), server.trusted, believable,
		func(stream string, d storefile.Damage) { s.refuseAppends("%s", problemOf(stream, d)) },
		func() error { return share.Yield(ctx) })
	if err != nil && ctx.Err() == nil {
		s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the files of the store are not all checked", slog.Any("error", fault.From(err)))
	}
}

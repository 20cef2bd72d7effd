package bus

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// suspectFile is the file that marks a data directory after a failed sync: the page cache of the kernel may then differ
// from the disk.
const suspectFile = "suspect.json"

// syncFailure is the content of suspectFile.
type syncFailure struct {
	At    time.Time `json:"at"`
	Cause string    `json:"cause"`
}

// recordSyncFailure writes suspectFile for the next start.
func (s *Server) recordSyncFailure(f *fault.Error) {
	s.cfg.Logger.LogAttrs(context.Background(), slog.LevelError, "the disk failed", slog.Any("error", f.Err), slog.String("refused", s.refusedAfter()))
	failure := syncFailure{At: events.Time(time.Now()), Cause: f.Err.Error()}
	if err := writeJSON(filepath.Join(s.cfg.DataDir, suspectFile), failure); err != nil {
		s.cfg.Logger.LogAttrs(context.Background(), slog.LevelError, "the next start will not know of it: run orch verify then", slog.Any("error", err))
	}
}

// refusedAfter says what a node refuses after a failed sync.
func (s *Server) refusedAfter() string {
	if s.barrier == nil {
		return "to archive and to remove tasks"
	}
	return "to acknowledge anything"
}

// discardPageCache drops the cached pages of the store if the last node has recorded a failed sync. The start then reads the
// content of the disk, and not pages that the kernel could not write.
func (s *Server) discardPageCache(ctx context.Context) error {
	var failure syncFailure
	err := readJSON(filepath.Join(s.cfg.DataDir, suspectFile), &failure)
	if fault.Has(err, fault.NotFound) {
		return nil
	}
	s.suspect = true
	s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the disk had failed; the store is read from the disk and verified", slog.Any("cause", failure.Cause))
	if err := syncDisk(s.cfg.DataDir); err != nil { // pages that are still to be written must not be dropped
		return err
	}
	return filepath.WalkDir(filepath.Join(s.cfg.DataDir, storeDir), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return dropPageCache(path)
	})
}

// dropPageCache drops the cached pages of a file.
func dropPageCache(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fault.Wrap(fault.CodeOf(err), err, "the file "+path+" cannot be opened")
	}
	defer f.Close()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fault.Wrap(fault.Internal, err, "the file "+path+" cannot be read from the disk")
	}
	return nil
}

// verifyAfterSyncFailure verifies the whole store if the last node has recorded a failed sync. It removes suspectFile if there
// is no problem; otherwise Verify has made the log refuse appends.
func (s *Store) verifyAfterSyncFailure(ctx context.Context) error {
	server := s.conn.target.server
	if server == nil || !server.suspect {
		return nil
	}
	report, err := s.Verify(ctx, nil)
	if err != nil || report.Found > 0 {
		return err
	}
	server.suspect = false
	return removeFile(filepath.Join(server.cfg.DataDir, suspectFile))
}

package bus

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
)

// Syncing specifies which process syncs the log, and when.
type Syncing string

const (
	// SyncGroup means that the node syncs the files of the embedded server before it acknowledges, once for all
	// waiting appends. This is what Fsync does.
	SyncGroup Syncing = "group"
	// SyncAlways means that the embedded server syncs every write. Fsync falls back to it.
	SyncAlways Syncing = "always"
	// SyncInterval means that the embedded server syncs every 100 ms. This is what Relaxed does.
	SyncInterval Syncing = "interval"
	// SyncExternal means that an external server syncs the log as its operator has configured.
	SyncExternal Syncing = "external"
)

const (
	probeStream  = "ORCH_PROBE"
	probeSubject = "orch.probe"
	probeWithin  = 5 * time.Second
)

// startWithSyncing starts the server with the Syncing that its durability requires. A barrier depends on how the server and
// the file system work, so startWithSyncing tests both (see probe). If the test fails, it restarts a server for SyncGroup with
// SyncAlways; a relaxed one has no barrier, and settle syncs the file system instead.
func (s *Server) startWithSyncing(ctx context.Context) error {
	s.syncing = s.cfg.syncing()
	if err := s.run(); err != nil || s.syncing != SyncGroup && s.syncing != SyncInterval {
		return err
	}
	reason := s.probe(ctx)
	if reason == nil {
		s.firm = newBarrier(s.streamsDir(), s.cfg.Sync, s.recordSyncFailure)
	}
	if s.syncing == SyncInterval {
		return nil
	}
	if reason == nil {
		s.barrier = s.firm
		return nil
	}
	s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the embedded server syncs every write by itself: slower, and as safe",
		slog.Any("reason", reason))
	s.syncing = SyncAlways
	return s.Restart()
}

func (s *Server) streamsDir() string {
	return filepath.Join(s.cfg.DataDir, storeDir, filepath.FromSlash(streamsDir))
}

// probe tests the two assumptions of the barrier. First, a rename does not reach the disk before the data of the file: the
// server compacts a block by such a rename. Second, an acknowledged message is in the newest block file.
func (s *Server) probe(ctx context.Context) error {
	if err := ordersRenames(s.cfg.DataDir); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, probeWithin)
	defer stop()
	c, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	// The stream is never removed. Some time after the removal of the last stream, the server also removes the directory of
	// all streams, while the log may be about to be created there.
	_, err = c.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: probeStream, Description: "tried at every start", Subjects: []string{probeSubject},
		Storage: jetstream.FileStorage, MaxMsgs: 1,
	})
	if err != nil {
		return err
	}
	return s.probeAppends(ctx, c)
}

// probeAppends publishes twice and checks that each text is at the end of the file once it is acknowledged.
func (s *Server) probeAppends(ctx context.Context, c *Conn) error {
	dir := filepath.Join(s.streamsDir(), probeStream, blockDir)
	for i := range 2 {
		text := []byte("probe " + strconv.Itoa(i) + " " + agents.NewSecret())
		if _, err := c.js.Publish(ctx, probeSubject, text); err != nil {
			return err
		}
		indexes, err := blockIndexes(dir)
		if err != nil {
			return err
		}
		if len(indexes) == 0 {
			return errors.New("the stream has no block file")
		}
		if err := endsWith(blockPath(dir, indexes[len(indexes)-1]), text); err != nil {
			return err
		}
	}
	return nil
}

// endsWith checks that the last record of a block ends with a text; a hash of 8 bytes follows it.
func endsWith(path string, text []byte) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	end := make([]byte, len(text)+8)
	if _, err := f.Seek(-int64(len(end)), io.SeekEnd); err != nil {
		return err
	}
	if _, err := io.ReadFull(f, end); err != nil {
		return err
	}
	if !bytes.HasPrefix(end, text) {
		return errors.New("an acknowledged message is not at the end of its file")
	}
	return nil
}

// ordersRenames returns an error unless the file system of dir is known to write the data of a file before a rename that
// replaces another file. On other file systems a power loss may destroy both files when the server compacts a block.
func ordersRenames(dir string) error {
	const zfs = 0x2fc12fc1
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return err
	}
	switch st.Type {
	case unix.EXT4_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, zfs, unix.TMPFS_MAGIC: // a tmpfs survives no power loss anyway
		return nil
	default:
		return fault.New(fault.Unavailable, "the file system of %s (type %x) does not promise the order of writes", dir, st.Type)
	}
}

package bus

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/orch-dev/orch/fault"
)

// RestoreConfig configures a restore.
type RestoreConfig struct {
	// File is the path of the backup, DataDir the directory to create. Both are required.
	File, DataDir string
	// Replace permits a DataDir that is not empty. The existing directory is moved to another name, not deleted.
	Replace bool
	// Logger receives the log of the server that checks the result; nil discards the log.
	Logger *slog.Logger
	// Progress, which may be nil, is called at the start of each step.
	Progress func(step string)
	// Staged, which may be nil, is called with the new directory before it gets its name.
	Staged func(dir string) error
}

// Restored is the result of a restore.
type Restored struct {
	Manifest Manifest `json:"manifest"`
	// Report is the result of the check of the new store. It has no problems.
	Report Report `json:"report"`
	// Aside is the new path of the previous data directory; empty if there was none.
	Aside string `json:"aside,omitempty"`
}

// Restore creates a data directory from a backup. It checks the backup before it writes anything, and the new store (see
// Verify) before it gives the directory its name. Errors: DATA_LOSS for a damaged backup, CONFLICT if the directory is
// not empty (without Replace) or a node runs on it, DISK_FULL.
func Restore(ctx context.Context, cfg RestoreConfig) (Restored, error) {
	if cfg.Progress == nil {
		cfg.Progress = func(string) {}
	}
	var r Restored
	var err error
	cfg.Progress("checking the backup")
	if r.Manifest, err = cfg.read(ctx, nil); err != nil {
		return r, err
	}
	cfg.DataDir = realPath(cfg.DataDir)
	if err := cfg.checkTarget(); err != nil {
		return r, err
	}
	parent := filepath.Dir(cfg.DataDir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return r, writeFault(parent, err)
	}
	staged, err := os.MkdirTemp(parent, filepath.Base(cfg.DataDir)+".restoring-*")
	if err != nil {
		return r, writeFault(cfg.DataDir, err)
	}
	defer func() { _ = os.RemoveAll(staged) }() // after a failure; otherwise the directory was renamed
	if r.Report, err = cfg.stage(ctx, staged, r.Manifest); err != nil {
		return r, err
	}
	if cfg.Staged != nil {
		if err := cfg.Staged(staged); err != nil {
			return r, err
		}
	}
	r.Aside, err = cfg.install(staged)
	return r, err
}

// realPath follows symbolic links, so that the target of a link is replaced instead of the link.
func realPath(path string) string {
	if followed, err := filepath.EvalSymlinks(path); err == nil {
		return followed
	}
	return filepath.Clean(path) // the path does not exist yet
}

// read reads the backup, see readBackup.
func (c *RestoreConfig) read(ctx context.Context, use func(string, io.Reader) error) (Manifest, error) {
	f, err := os.Open(c.File)
	if err != nil {
		return Manifest{}, fault.Wrap(fault.CodeOf(err), err, "the backup "+c.File+" cannot be read").WithField("file")
	}
	defer f.Close()
	return readBackup(ctx, f, use)
}

// checkTarget returns CONFLICT if the data directory has content that may not be replaced.
func (c *RestoreConfig) checkTarget() error {
	entries, err := os.ReadDir(c.DataDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fault.Wrap(fault.CodeOf(err), err, "the data directory "+c.DataDir+" cannot be read").WithField("data_dir")
	}
	if len(entries) > 0 && !c.Replace {
		return fault.New(fault.Conflict, "the data directory %s is not empty", c.DataDir).WithField("data_dir").
			WithHint("give another one with --data-dir, or --replace, which moves this one aside")
	}
	return nil
}

// stage restores the store to a directory, with a temporary server, and checks it.
func (c *RestoreConfig) stage(ctx context.Context, dir string, m Manifest) (Report, error) {
	server, err := StartServer(ctx, ServerConfig{DataDir: dir, Logger: c.Logger, Durability: Relaxed, restoring: true})
	if err != nil {
		return Report{}, err
	}
	if m.Lost != nil {
		if err := m.Lost.write(dir); err != nil {
			return Report{}, errors.Join(err, server.Close(ctx))
		}
	}
	report, err := c.fill(ctx, server, m)
	if err = errors.Join(err, server.Close(ctx)); err != nil {
		return report, err
	}
	return report, syncDisk(dir)
}

// fill restores all parts of the backup to a server, and checks the store.
func (c *RestoreConfig) fill(ctx context.Context, server *Server, m Manifest) (report Report, err error) {
	conn, err := server.Connect(ctx)
	if err != nil {
		return report, err
	}
	defer conn.Close()
	_, err = c.read(ctx, func(name string, data io.Reader) error {
		c.Progress("restoring " + name)
		if name == authFile {
			return writeCredentials(server.DataDir(), data)
		}
		return conn.restoreStream(ctx, name, m.config(name), data)
	})
	if err != nil {
		return report, err
	}
	c.Progress("checking the result")
	return conn.checkFilled(ctx, StoreConfig{}, m)
}

func writeCredentials(dir string, data io.Reader) error {
	var auth credentials
	if err := json.NewDecoder(data).Decode(&auth); err != nil { // although the digest of the part was correct
		return damagedBackup(err)
	}
	return writeSealed(filepath.Join(dir, authFile), auth)
}

// install renames the staged directory to DataDir. It first renames an existing directory with content to aside.
func (c *RestoreConfig) install(staged string) (aside string, err error) {
	err = os.Remove(c.DataDir) // fails unless the directory is empty
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		lock, err := lockDataDir(c.DataDir, "orch restore")
		if err != nil {
			return "", err
		}
		defer func() { _ = unlock(lock) }() // otherwise the kernel unlocks it when the process ends
		aside = c.DataDir + ".before-" + time.Now().UTC().Format("20060102T150405.000")
		if err := os.Rename(c.DataDir, aside); err != nil {
			return "", writeFault(aside, err)
		}
	}
	if err := os.Rename(staged, c.DataDir); err != nil {
		if aside != "" {
			err = errors.Join(err, os.Rename(aside, c.DataDir))
		}
		return "", writeFault(c.DataDir, err)
	}
	return aside, syncDir(filepath.Dir(c.DataDir))
}

package clients

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/wholefile"
)

// MaxBytes is the most bytes of a configuration.
const MaxBytes = 16 << 20

// Read returns the content of a configuration, nil if the file does not exist. It returns FORBIDDEN if the file cannot be read, and
// VALIDATION_ERROR if it is not a regular file or is too large.
func Read(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > MaxBytes) {
		return nil, fault.New(fault.ValidationError, "it is not a configuration file: %s, %d bytes", info.Mode().Type(), info.Size()).WithField(file)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fault.Wrap(fault.Forbidden, err, "it cannot be read").WithField(file)
	}
	return content, nil
}

// Write atomically replaces the content of a configuration by after, if the content still equals before. It saves the old content
// in a backup file beside it and returns the path of the backup, "" for a new file. If file is a symbolic link, its target is
// replaced. Write returns CONFLICT if the content does not equal before.
func Write(file string, before, after []byte, now time.Time) (backup string, err error) {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target
	}
	current, err := Read(file)
	if err != nil {
		return "", err
	}
	if !bytes.Equal(current, before) {
		return "", fault.New(fault.Conflict, "somebody has changed it meanwhile").WithField(file).WithHint("run the command again")
	}
	mode := fs.FileMode(0o600)
	if before != nil {
		info, err := os.Stat(file)
		if err != nil {
			return "", unwritable(file, err)
		}
		mode = info.Mode().Perm()
		backup = file + "." + now.UTC().Format("20060102T150405.000Z") + ".bak"
		if err := create(backup, before, mode); err != nil {
			return "", unwritable(backup, err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return backup, unwritable(file, err)
	}
	if err := wholefile.Replace(file, after, mode); err != nil {
		return backup, unwritable(file, err)
	}
	return backup, nil
}

func unwritable(file string, err error) error {
	return fault.Wrap(fault.Forbidden, err, "it cannot be written").WithField(file)
}

// create writes a file that must not exist.
func create(file string, content []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
}

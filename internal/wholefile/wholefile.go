// Package wholefile replaces small files atomically: a reader sees the old content or the new one, even after a crash.
package wholefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace writes a temporary file in the same directory and renames it to file. The directory must exist. Concurrent
// calls are safe, also from several processes: the last rename wins.
func Replace(file string, content []byte, mode fs.FileMode) error {
	temp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = temp.Write(content)
	err = errors.Join(err, temp.Chmod(mode), temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}

package worker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/orch-dev/orch/fault"
)

// obeyed are the names in a project that git and orch obey. What is there programs of a session cannot change; what is not there they
// could make.
var obeyed = []string{".git", ".orch"}

// guardObeyed returns what moves the places out of the project that the programs of a call have made and that git or orch would obey:
// PROTECTED_PATH says where they are then. A script of git alone may make a repository.
func (a *attempt) guardObeyed() (ended func() error) {
	var missing []string
	for _, place := range a.env.Writable {
		for _, name := range obeyed {
			if _, err := os.Lstat(filepath.Join(place, name)); errors.Is(err, fs.ErrNotExist) && a.env.Approval == "" {
				missing = append(missing, filepath.Join(place, name))
			}
		}
	}
	return func() error {
		for _, path := range missing {
			if _, err := os.Lstat(path); err != nil || a.env.GitAlone && filepath.Base(path) == ".git" {
				continue
			}
			aside := filepath.Join(a.env.Workspace, "temp", "set-aside"+filepath.Base(path))
			if err := errors.Join(os.RemoveAll(aside), os.Rename(path, aside)); err != nil {
				return fault.New(fault.ProtectedPath, "the call has made %s, which git or orch would obey, and it cannot be moved away: %w", path, err)
			}
			return fault.New(fault.ProtectedPath, "the call has made %s, which git or orch would obey; it lies in %s now", path, aside).
				WithHint("make a repository with git init, in a command of its own")
		}
		return nil
	}
}

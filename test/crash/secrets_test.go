package crash_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/test/crash"
)

// secret returns the secret in the environment of the workers, which a tool discloses wherever it can.
func secret() string { return "ghp_" + "0rchCrash0123456789abcdefghijklmnopqr" }

// filesWithSecret returns the files below a directory that contain one of the secrets (I13): blocks of the streams,
// buckets and objects, marks, logs of the processes, workspaces.
func filesWithSecret(dir string, secrets ...string) ([]crash.Violation, error) {
	var found []crash.Violation
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil && slices.ContainsFunc(secrets, func(s string) bool { return bytes.Contains(data, []byte(s)) }) {
			found = append(found, crash.Violation{Invariant: "I13", What: "the file " + path + " holds a secret"})
		}
		return err
	})
	return found, err
}

func TestFilesWithSecretAreFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("nothing"), 0o600))
	found, err := filesWithSecret(dir, secret())
	require.NoError(t, err)
	assert.Empty(t, found)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b"), []byte("x"+secret()+"y"), 0o600))
	found, err = filesWithSecret(dir, secret())
	require.NoError(t, err)
	assert.Len(t, found, 1)
}

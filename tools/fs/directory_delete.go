package fs

import (
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/tools"
)

type directoryDeleteIn struct {
	DirectoryPath string `json:"directory_path" jsonschema:"Absolute path to directory"`
	Recursive     bool   `json:"recursive" jsonschema:"Delete contents recursively"`
}

type directoryDeleteOut struct {
	DirectoryPath string `json:"directory_path" jsonschema:"Path of the directory that was deleted"`
	BackupPath    string `json:"backup_path" jsonschema:"Path of the tar.gz file with the content of the directory; empty when the directory was empty"`
	ApprovalID    string `json:"approval_id" jsonschema:"The approval that permitted it"`
}

// directoryDelete is DIRECTORY_DELETE (S0-070 to S0-072, A-28).
var directoryDelete = tools.DefineIntent(tools.Spec{
	Name:    "DIRECTORY_DELETE",
	Title:   "Delete a directory",
	Purpose: "Delete directory and contents",
	Conditions: []string{
		"Task state: AWAITING_APPROVAL", "Explicit human approval granted", "Not a protected path, and none in it",
		"Backup created if directory contains files",
	},
	Effect:   tools.Destructive,
	Gate:     tools.AwaitingApproval,
	Approval: tools.Always,
	Paths:    []tools.Path{{Field: "directory_path", Access: tools.DeletePath, Tree: true}},
	Timeout:  10 * time.Minute,
	Errors:   []string{"NOT_FOUND", "PERMISSION_DENIED", "INVALID_PATH", "CONFLICT", "OUTSIDE_ROOT", "PROTECTED_PATH", "APPROVAL_REQUIRED", "DISK_FULL"},
}, func(_ context.Context, env *tools.Env, in directoryDeleteIn) (tools.Intent, error) {
	return tools.Intent{}, checkDeletable(env, in)
}, func(ctx context.Context, env *tools.Env, in directoryDeleteIn) (out directoryDeleteOut, err error) {
	rel, err := resolveEntry(env, "directory_path", in.DirectoryPath)
	if err != nil {
		return out, err
	}
	backups, err := backupFolder(env, rel)
	if err != nil {
		return out, err
	}
	tree, err := env.Root.Tree(ctx, rel)
	if err != nil {
		return out, withField("directory_path", err)
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	if !tree.Empty() && !in.Recursive {
		return out, notEmpty(env.Root.Abs(rel))
	}
	out = directoryDeleteOut{DirectoryPath: env.Root.Abs(rel), ApprovalID: env.Approval}
	if !tree.Empty() {
		if out.BackupPath, err = backUp(ctx, env, tree, backups); err != nil {
			return out, withField("directory_path", err)
		}
	}
	if err := tree.Remove(ctx); err != nil {
		return out, withBackupHint(out.BackupPath, fault.From(withField("directory_path", err)))
	}
	return out, nil
})

// checkDeletable rejects a call that would fail even with an approval, so that nobody is asked to approve it.
func checkDeletable(env *tools.Env, in directoryDeleteIn) error {
	rel, err := env.Root.ResolveEntry(in.DirectoryPath)
	if err != nil {
		return withField("directory_path", err)
	}
	entries, err := env.Root.ReadDir(rel)
	if err == nil && len(entries) > 0 && !in.Recursive {
		return notEmpty(env.Root.Abs(rel))
	}
	return withField("directory_path", err)
}

func notEmpty(path string) error {
	return fault.New(fault.Conflict, "%s is not empty", path).WithField("directory_path").WithHint("set recursive to delete what is in it, too")
}

// backupFolder returns the folder for backups of the task, relative to the root. It returns PROTECTED_PATH when
// the directory to delete is, or contains, a folder of the task. Otherwise the deletion would remove the work of the
// task or the backup itself.
func backupFolder(env *tools.Env, rel string) (string, error) {
	folders := make([]string, 0, 4)
	for _, name := range []string{"", "workspace", "outputs", filepath.Join("temp", "backups")} {
		folder, err := env.Root.Resolve(filepath.Join(env.Workspace, name))
		if err != nil {
			return "", fault.From(err).WithField("directory_path")
		}
		folders = append(folders, folder)
	}
	for _, folder := range folders {
		if rel == "." || folder == rel || strings.HasPrefix(folder, rel+"/") {
			return "", fault.New(fault.ProtectedPath, "%s is or contains a folder of the task", env.Root.Abs(rel)).
				WithField("directory_path").WithHint("delete what is in it instead")
		}
	}
	return folders[len(folders)-1], nil
}

// backUp writes a tree to a new archive in folder and returns the absolute path of the archive.
func backUp(ctx context.Context, env *tools.Env, tree *pathguard.Tree, folder string) (string, error) {
	if err := env.Root.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	rel := filepath.Join(folder, env.Now().UTC().Format("20060102T150405Z-")+rand.Text()+".tar.gz")
	err := env.Root.Create(rel, 0o600, func(w io.Writer) error {
		packed := gzip.NewWriter(w)
		return errors.Join(tree.Archive(ctx, packed), packed.Close())
	})
	if err != nil {
		return "", err
	}
	return env.Root.Abs(rel), nil
}

// withBackupHint adds the path of the backup to the error of a deletion that may have removed some files.
func withBackupHint(backup string, err *fault.Error) *fault.Error {
	if backup == "" {
		return err
	}
	return err.WithHint("a part may be deleted; all of it is in %s", backup)
}

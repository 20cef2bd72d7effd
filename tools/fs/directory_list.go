package fs

import (
	"context"
	"io/fs"
	"time"

	"github.com/orch-dev/orch/tools"
)

type directoryListIn struct {
	DirectoryPath string `json:"directory_path" jsonschema:"Absolute path to directory"`
	Recursive     bool   `json:"recursive,omitempty" jsonschema:"Include subdirectories" default:"false"`
}

type directoryListOut struct {
	DirectoryPath string  `json:"directory_path" jsonschema:"Real path of the directory"`
	Entries       []entry `json:"entries" jsonschema:"Files and directories, sorted by path"`
	Truncated     bool    `json:"truncated" jsonschema:"There are more than 10000 entries"`
}

type entry struct {
	Name       string    `json:"name" jsonschema:"Last part of the path"`
	Path       string    `json:"path" jsonschema:"Absolute path"`
	Type       string    `json:"type" jsonschema:"Kind of the entry; links are not followed" enum:"file,directory,symlink,other"`
	Size       int64     `json:"size" jsonschema:"Size in bytes; of files only"`
	ModifiedAt time.Time `json:"modified_at" jsonschema:"Time of the last change"`
}

// directoryList is DIRECTORY_LIST (S0-065, S0-066).
var directoryList = tools.Define(tools.Spec{
	Name:       "DIRECTORY_LIST",
	Title:      "List a directory",
	Purpose:    "List contents of directory",
	Conditions: []string{"Any task state", "No approval required"},
	Effect:     tools.Read,
	Gate:       tools.AnyState,
	Approval:   tools.NoApproval,
	Paths:      []tools.Path{{Field: "directory_path", Access: tools.ReadPath}},
	Errors:     []string{"NOT_FOUND", "PERMISSION_DENIED", "INVALID_PATH", "OUTSIDE_ROOT"},
}, func(ctx context.Context, env *tools.Env, in directoryListIn) (directoryListOut, error) {
	rel, err := resolve(env, "directory_path", in.DirectoryPath)
	if err != nil {
		return directoryListOut{}, err
	}
	out := directoryListOut{DirectoryPath: env.Root.Abs(rel), Entries: []entry{}}
	if err := isDir(env, "directory_path", rel); err != nil {
		return out, err
	}
	err = env.Root.Walk(ctx, rel, func(at string, d fs.DirEntry) error {
		if len(out.Entries) == maxEntries {
			out.Truncated = true
			return fs.SkipAll
		}
		if info, err := d.Info(); err == nil { // otherwise it was just removed
			out.Entries = append(out.Entries, newEntry(env.Root.Abs(at), info))
		}
		if d.IsDir() && !in.Recursive {
			return fs.SkipDir
		}
		return nil
	})
	return out, err
})

func newEntry(path string, info fs.FileInfo) entry {
	e := entry{Name: info.Name(), Path: path, Type: "other", ModifiedAt: info.ModTime().UTC()}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		e.Type, e.Size = "file", info.Size()
	case mode.IsDir():
		e.Type = "directory"
	case mode&fs.ModeSymlink != 0:
		e.Type = "symlink"
	}
	return e
}

package api

import (
	"time"

	"github.com/orch-dev/orch/events"
)

// The limits of the methods Files and File.
const (
	// MaxFiles is the largest page of a folder.
	MaxFiles = 1000
	// DefaultFiles is the page of a request without a limit.
	DefaultFiles = 200
	// MaxFilePart is the largest part of a file in bytes, and the part of a request without a limit.
	MaxFilePart = 256 << 10
)

// The reasons of the errors of Files and File.
const (
	// ReasonNoWorkspace is the reason of the NOT_FOUND of a task whose calls have needed no workspace.
	ReasonNoWorkspace = "NO_WORKSPACE"
	// ReasonWorkspaceElsewhere is the reason of the NOT_FOUND of a task whose workspace is not on the machine of the node.
	ReasonWorkspaceElsewhere = "WORKSPACE_ELSEWHERE"
	// ReasonWorkspaceRemoved is the reason of the GONE of a task whose workspace retention has removed.
	ReasonWorkspaceRemoved = "WORKSPACE_REMOVED"
	// ReasonFolder is the reason of the INVALID_FORMAT of a request that reads a folder as a file.
	ReasonFolder = "IS_FOLDER"
)

// FileKind is what an entry of a folder is.
type FileKind string

// The kinds of files. Links are shown and never followed. Other is everything that cannot be read, such as a pipe.
const (
	FileRegular FileKind = "file"
	FileFolder  FileKind = "folder"
	FileLink    FileKind = "link"
	FileOther   FileKind = "other"
)

// Closed says why the content of a file is not shown.
type Closed string

// The reasons for which the content of a file is not shown. They are also the reasons of the errors of File.
const (
	// ClosedSecret is for files whose names or contents are those of files with secrets, such as .env or a private key.
	ClosedSecret Closed = "SECRET_FILE"
	// ClosedPolicy is for files that the policy file hides from the calls of the task.
	ClosedPolicy Closed = "POLICY_DENIED"
	// ClosedName is for files whose names are not UTF-8, so that no request can name them.
	ClosedName Closed = "NAME_NOT_UTF8"
)

// FilesRequest asks for a page of a folder of the workspace of a task.
type FilesRequest struct {
	ID events.TaskID `json:"id"`
	// Path is the folder, relative to the workspace with slashes; empty for the workspace itself.
	Path string `json:"path,omitempty"`
	// Limit is 1 to MaxFiles, default DefaultFiles. Cursor is the Next of the previous page.
	Limit  int    `json:"limit,omitempty"`
	Cursor string `json:"cursor,omitempty"`
}

// FilesReply is a page of a folder, sorted by name.
type FilesReply struct {
	// Task is the task whose workspace it is: the task of the request, its session, or the task of which it is a part.
	Task events.TaskID `json:"task"`
	// Dir is the absolute path of the workspace on the machine of the node.
	Dir   string     `json:"dir"`
	Path  string     `json:"path,omitempty"`
	Files []FileView `json:"files"`
	// Next is the Cursor of the following page; empty at the end.
	Next string `json:"next,omitempty"`
}

// FileView is an entry of a folder.
type FileView struct {
	// Path is relative to the workspace.
	Path string   `json:"path"`
	Kind FileKind `json:"kind"`
	// Size is the size of a file in bytes.
	Size     uint64    `json:"size,omitempty"`
	Modified time.Time `json:"modified"`
	// Target is where a link leads.
	Target string `json:"target,omitempty"`
	// Closed is set if the content of the file is not shown. A file without it may still turn out to hold a key when it is read.
	Closed Closed `json:"closed,omitempty"`
}

// FileRequest asks for a part of a file in the workspace of a task.
type FileRequest struct {
	ID   events.TaskID `json:"id"`
	Path string        `json:"path"`
	// Offset is where the part begins, in bytes. Limit is 1 to MaxFilePart bytes, default MaxFilePart.
	Offset uint64 `json:"offset,omitempty"`
	Limit  int    `json:"limit,omitempty"`
}

// FileReply is a part of a file. Secrets in it are replaced, so its content can be shorter or longer than the part of the file.
type FileReply struct {
	Task events.TaskID `json:"task"`
	Path string        `json:"path"`
	// Size and Modified are those of the whole file now.
	Size     uint64    `json:"size"`
	Modified time.Time `json:"modified"`
	Offset   uint64    `json:"offset"`
	// Next is the Offset of the following part; 0 at the end.
	Next uint64 `json:"next,omitempty"`
	// Binary is true for a file that is no text.
	Binary bool `json:"binary,omitempty"`
	// Text is the content, or Data is it: if it is not UTF-8, has NUL bytes, or would be much longer as JSON.
	Text string `json:"text,omitempty"`
	Data []byte `json:"data,omitempty"`
	// Redacted is how many secrets in the part were replaced.
	Redacted int `json:"redacted,omitempty"`
}

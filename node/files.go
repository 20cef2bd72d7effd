package node

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/internal/workspace"
)

// taskFiles reads the files in the workspaces of tasks. It implements api.Files.
type taskFiles struct{ files *host }

var _ api.Files = taskFiles{}

// Files implements api.Files.
func (t taskFiles) Files(ctx context.Context, r api.FilesRequest) (api.FilesReply, error) {
	at, err := workspace.ParsePath(r.Path)
	if err != nil {
		return api.FilesReply{}, err
	}
	limit, err := limitOf(r.Limit, api.DefaultFiles, api.MaxFiles)
	if err != nil {
		return api.FilesReply{}, err
	}
	after, err := base64.RawURLEncoding.DecodeString(r.Cursor)
	if err != nil {
		return api.FilesReply{}, fault.New(fault.InvalidFormat, "the cursor is none of a list of files").WithField("cursor")
	}
	w, err := t.files.openWorkspace(ctx, r.ID)
	if err != nil {
		return api.FilesReply{}, err
	}
	reply, err := w.list(ctx, at, string(after), limit)
	return reply, errors.Join(err, w.close())
}

// limitOf returns the limit of a request, or its default.
func limitOf(limit, normal, most int) (int, error) {
	switch {
	case limit == 0:
		return normal, nil
	case limit < 0 || limit > most:
		return 0, fault.New(fault.ValidationError, "must be 1 to %d", most).WithField("limit")
	}
	return limit, nil
}

// list returns a page of a folder.
func (w *openWorkspace) list(ctx context.Context, at, after string, limit int) (api.FilesReply, error) {
	reply := api.FilesReply{Task: w.task, Dir: w.folder.Abs(""), Path: at, Files: []api.FileView{}}
	in, err := w.folder.Folder(at)
	if err != nil {
		return reply, inPath(err)
	}
	names, more, err := in.Names(ctx, after, limit)
	last, size := "", 0
	for _, name := range names {
		if size > maxFilesPage {
			more = true
			break
		}
		if view, exists := w.view(in, at, name); exists {
			reply.Files = append(reply.Files, view)
			size += longestEscape * (len(view.Path) + len(view.Target))
		}
		last = name
	}
	if more && last != "" {
		reply.Next = base64.RawURLEncoding.EncodeToString([]byte(last))
	}
	return reply, errors.Join(err, in.Close())
}

const (
	// maxFilesPage bounds the names in a page of files as JSON, in bytes: hostile names are long.
	maxFilesPage = 2 << 20
	// longestEscape is how many bytes a byte of a text can have in JSON.
	longestEscape = 6
)

// inPath names the path as the field of an error.
func inPath(err error) error {
	e := fault.From(err)
	if e.Field == "" && e.Code != fault.Internal {
		return e.WithField("path")
	}
	return e
}

// view describes an entry of the folder at; false if it has gone meanwhile.
func (w *openWorkspace) view(in *pathguard.Folder, at, name string) (api.FileView, bool) {
	info, err := in.Lstat(name)
	if err != nil {
		return api.FileView{}, false
	}
	v := api.FileView{Path: path.Join(at, name), Modified: info.ModTime().UTC(), Kind: kindOf(info)}
	switch v.Kind {
	case api.FileRegular:
		v.Size, v.Closed = uint64(max(info.Size(), 0)), w.closed(v.Path)
	case api.FileLink:
		target, _ := in.Readlink(name) // "" for one that has gone meanwhile
		v.Target = string(w.redact([]byte(strings.ToValidUTF8(target, "\uFFFD"))))
	case api.FileFolder, api.FileOther:
	}
	if !utf8.ValidString(name) {
		v.Path, v.Closed = path.Join(at, strings.ToValidUTF8(name, "\uFFFD")), api.ClosedName
	}
	if clean := w.redact([]byte(name)); string(clean) != name {
		v.Path, v.Closed = path.Join(at, strings.ToValidUTF8(string(clean), "\uFFFD")), api.ClosedSecret
	}
	return v, true
}

func kindOf(info fs.FileInfo) api.FileKind {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return api.FileRegular
	case mode.IsDir():
		return api.FileFolder
	case mode&fs.ModeSymlink != 0:
		return api.FileLink
	default:
		return api.FileOther
	}
}

// File implements api.Files.
func (t taskFiles) File(ctx context.Context, r api.FileRequest) (api.FileReply, error) {
	at, err := workspace.ParsePath(r.Path)
	if err == nil && at == "" {
		err = fault.New(fault.RequiredField, "names the file").WithField("path")
	}
	if err != nil {
		return api.FileReply{}, err
	}
	limit, err := limitOf(r.Limit, api.MaxFilePart, api.MaxFilePart)
	if err != nil {
		return api.FileReply{}, err
	}
	w, err := t.files.openWorkspace(ctx, r.ID)
	if err != nil {
		return api.FileReply{}, err
	}
	reply, err := w.read(at, r.Offset, limit)
	return reply, errors.Join(err, w.close())
}

// read returns a part of the file at a path.
func (w *openWorkspace) read(at string, offset uint64, limit int) (api.FileReply, error) {
	dir, name := path.Split(at)
	in, err := w.folder.Folder(strings.TrimSuffix(dir, "/"))
	if err != nil {
		return api.FileReply{}, inPath(err)
	}
	file, info, err := in.Open(name)
	if err != nil {
		if seen, statErr := in.Lstat(name); statErr == nil && seen.IsDir() {
			err = fault.From(err).WithReason(api.ReasonFolder)
		}
	}
	if err = errors.Join(err, in.Close()); err != nil {
		return api.FileReply{}, inPath(err)
	}
	defer file.Close()
	if err := w.checkOpen(at, file); err != nil {
		return api.FileReply{}, err
	}
	return w.part(at, file, info, offset, limit)
}

// checkOpen returns an error if the content of a file is not shown.
func (w *openWorkspace) checkOpen(at string, file *os.File) error {
	closed := w.closed(at)
	if closed == "" && w.policy.HoldsKey(at, func(limit int) []byte { return head(file, limit) }) {
		closed = api.ClosedSecret
	}
	switch closed {
	case "":
		return nil
	case api.ClosedPolicy:
		return fault.New(fault.Forbidden, "the policy file hides %s from the calls of the task", at).WithField("path").WithReason(string(closed))
	default:
		return fault.New(fault.ProtectedPath, "%s is a file with secrets: its content is not shown", at).WithField("path").WithReason(string(closed))
	}
}

// head returns up to limit bytes from the beginning of a file.
func head(file io.ReaderAt, limit int) []byte {
	data := make([]byte, limit)
	n, _ := file.ReadAt(data, 0) // what cannot be read has no beginning
	return data[:n]
}

// part returns a part of an open file.
func (w *openWorkspace) part(at string, file *os.File, info fs.FileInfo, offset uint64, limit int) (api.FileReply, error) {
	size := max(info.Size(), 0)
	if offset > uint64(size) {
		return api.FileReply{}, fault.New(fault.ValidationError, "the file has %d bytes", size).WithField("offset")
	}
	part, err := workspace.ReadPart(file, int64(offset), limit, w.findSecrets) //nolint:gosec // at most the size
	if err != nil {
		return api.FileReply{}, fault.Wrap(fault.Internal, err, at+" cannot be read")
	}
	reply := api.FileReply{
		Task: w.task, Path: at, Size: uint64(size), Modified: info.ModTime().UTC(), Offset: offset,
		Next: uint64(part.Next), Binary: isBinary(head(file, binaryHead)), Redacted: part.Redacted, //nolint:gosec // an offset
	}
	if utf8.Valid(part.Data) && !growsInJSON(part.Data) {
		reply.Text = string(part.Data)
	} else {
		reply.Data = part.Data
	}
	return reply, nil
}

// growsInJSON reports whether a part is better sent as data than as text: it has a NUL byte, or so many characters with escapes in
// JSON that it would be several times as long.
func growsInJSON(data []byte) bool {
	escaped := 0
	for _, c := range data {
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' || c == '<' || c == '>' || c == '&' {
			escaped++
		}
	}
	return bytes.IndexByte(data, 0) >= 0 || escaped > len(data)/4+minEscapes
}

// minEscapes is how many characters with escapes are too few to matter.
const minEscapes = 1024

// binaryHead is how many bytes of a file tell whether it is text.
const binaryHead = 8 << 10

// isBinary reports whether a file that begins with data is no text: it has a NUL byte, or a tenth of it is neither printable nor
// UTF-8.
func isBinary(data []byte) bool {
	odd := 0
	for rest := data; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		switch {
		case r == 0:
			return true
		case r == utf8.RuneError && size == 1, r < ' ' && !strings.ContainsRune("\t\n\v\f\r\b\x1b", r):
			odd++
		}
		rest = rest[size:]
	}
	return odd > len(data)/10
}

package main

import (
	"cmp"
	"context"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/workspace"
)

// maxListedFiles limits the files that `orch files` lists, and the folders that it looks into.
const maxListedFiles = 10_000

// filesOptions are the flags of `orch files`.
type filesOptions struct {
	all    bool
	offset uint64
}

func newFiles(c *readCommands) *cobra.Command {
	var o filesOptions
	cmd := &cobra.Command{
		Use:   "files ID [PATH]",
		Short: "List the files that a task has left in its workspace, or print one",
		Long: `List the files that a task has left in its workspace, or print one. PATH is relative to the workspace: a folder is listed,
a file is printed. Secrets are replaced, also in what is written to a file or a pipe. Links are not followed, and files
with secrets, such as .env, are listed alone. A list has at most 10,000 files.`,
		Example:           "  orch files @last\n  orch files @last outputs/report.md",
		Args:              takes("ID", "[PATH]"),
		ValidArgsFunction: c.completeFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			at := strings.TrimSuffix(strings.Join(args[1:], ""), "/")
			return c.files(cmd.Context(), args[0], at, o)
		},
	}
	cmd.Flags().BoolVar(&o.all, "all", false, "also temporary files, and the backups of deleted ones")
	cmd.Flags().Uint64Var(&o.offset, "offset", 0, "print the file from this byte on")
	return cmd
}

func (c *readCommands) files(ctx context.Context, text, at string, o filesOptions) error {
	return c.withTask(ctx, idle, text, func(s session, id events.TaskID) error {
		if at != "" {
			err := c.printFile(ctx, s, api.FileRequest{ID: id, Path: at, Offset: o.offset})
			if err == nil || fault.From(err).Reason != api.ReasonFolder {
				return err
			}
		}
		l := fileList{Files: []api.FileView{}}
		if at == "" && !o.all {
			l.skip = workspace.Temp
		}
		if err := l.add(ctx, s, id, at); err != nil {
			return err
		}
		return c.showFiles(l)
	})
}

// fileList is a folder of a workspace with everything below it.
type fileList struct {
	Task  events.TaskID  `json:"task"`
	Dir   string         `json:"dir"`
	Files []api.FileView `json:"files"`
	// More is true if there are more than maxListedFiles files, or folders.
	More bool `json:"more,omitempty"`
	// skip is a folder that is left out. folders is how many were looked into.
	skip    string
	folders int
}

// add adds the files below a folder, in the order of their names.
func (l *fileList) add(ctx context.Context, s session, id events.TaskID, at string) error {
	r := api.FilesRequest{ID: id, Path: at, Limit: api.MaxFiles}
	l.folders++
	for {
		reply, err := s.Files(ctx, r)
		if err != nil {
			return err
		}
		l.Task, l.Dir = reply.Task, reply.Dir
		for _, f := range reply.Files {
			if err := l.addFile(ctx, s, id, f); err != nil || l.More {
				return err
			}
		}
		if r.Cursor = reply.Next; r.Cursor == "" {
			return nil
		}
	}
}

func (l *fileList) addFile(ctx context.Context, s session, id events.TaskID, f api.FileView) error {
	switch {
	case f.Path == l.skip:
		return nil
	case len(l.Files) == maxListedFiles || l.folders == maxListedFiles:
		l.More = true
		return nil
	case f.Kind == api.FileFolder && f.Closed == "":
		err := l.add(ctx, s, id, f.Path)
		if slices.Contains([]fault.Code{fault.NotFound, fault.Forbidden, fault.InvalidFormat, fault.Conflict}, fault.CodeOf(err)) {
			return nil // it has gone or is another one meanwhile, it may not be read, or its path is too long
		}
		return err
	}
	l.Files = append(l.Files, f)
	return nil
}

func (c *readCommands) showFiles(l fileList) error {
	v := view{data: l, rows: rowsOf(l.Files)}
	for _, f := range l.Files {
		v.names = append(v.names, f.Path)
	}
	v.text = func(w io.Writer) error {
		if len(l.Files) == 0 {
			c.note("no files")
			return nil
		}
		var table screen.Table
		table.Row("BYTES", "AGE", "PATH")
		for _, f := range l.Files {
			table.Row(fileSize(f), screen.Age(c.now(), f.Modified), f.Path+fileNote(f))
		}
		err := table.Write(w, c.width())
		if l.More {
			c.note("there are more files than %s: name a folder", screen.Number(maxListedFiles))
		}
		return err
	}
	return c.emit(v)
}

// fileSize returns the size of a regular file, or what else it is.
func fileSize(f api.FileView) string {
	if f.Kind != api.FileRegular {
		return string(f.Kind)
	}
	return screen.Number(int(f.Size)) //nolint:gosec // at most the largest int64
}

// fileNote says where a link leads, and why a file is not shown.
func fileNote(f api.FileView) string {
	notes := map[api.Closed]string{
		api.ClosedSecret: "  (not shown: secrets)", api.ClosedPolicy: "  (not shown: the policy file hides it)", api.ClosedName: "  (not shown: its name is not UTF-8)",
	}
	if f.Kind == api.FileLink {
		return " -> " + f.Target
	}
	return notes[f.Closed]
}

// printFile writes a file to stdout: to a terminal with its invisible characters escaped, else as it is. The formats for
// programs get one part of it.
func (c *readCommands) printFile(ctx context.Context, s session, r api.FileRequest) error {
	part, err := s.File(ctx, r)
	if err != nil {
		return err
	}
	if c.cfg.Output != "text" {
		return c.emit(view{data: part, names: []string{part.Path}})
	}
	if part.Binary && c.outTTY {
		return fault.New(fault.InvalidParams, "%s is no text: %s", part.Path, screen.Plural(int(part.Size), "byte")). //nolint:gosec // as fileSize
																WithHint("write it to a file: orch files %s %s > FILE", r.ID, part.Path)
	}
	redacted, first := 0, part
	for {
		redacted += part.Redacted
		if err := c.writePart(part); err != nil {
			return err
		}
		if part.Size != first.Size || !part.Modified.Equal(first.Modified) {
			c.note("%s has changed while it was read", part.Path)
			first = part
		}
		if r.Offset = part.Next; r.Offset == 0 {
			break
		}
		if part, err = s.File(ctx, r); err != nil {
			return err
		}
	}
	if redacted > 0 {
		c.note("replaced %s", screen.Plural(redacted, "secret"))
	}
	return nil
}

// writePart writes a part of a file to stdout.
func (c *readCommands) writePart(part api.FileReply) error {
	text := cmp.Or(part.Text, string(part.Data))
	if c.outTTY {
		text = screen.EscapeLines(text)
		if part.Next == 0 && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
	}
	_, err := io.WriteString(c.out, text)
	return err
}

// completeFiles completes the id of a task, and then a path in its workspace, folder by folder.
func (c *readCommands) completeFiles(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if len(args) == 0 {
		return c.completeIDs(1)(cmd, args, text)
	}
	if len(args) > 1 {
		return nil, none
	}
	words, _ := c.completeFrom(cmd, nil, func(ctx context.Context, s session) ([]string, error) {
		id, err := c.find(ctx, s, args[0])
		if err != nil {
			return nil, err
		}
		dir, _ := path.Split(text)
		reply, err := s.Files(ctx, api.FilesRequest{ID: id, Path: strings.TrimSuffix(dir, "/")})
		return pathWords(reply.Files), err
	})
	return words, none | cobra.ShellCompDirectiveNoSpace
}

// pathWords returns the paths of files that a word of a shell can be, folders with a slash.
func pathWords(files []api.FileView) []string {
	var words []string
	for _, f := range files {
		word := f.Path
		if f.Kind == api.FileFolder {
			word += "/"
		}
		if f.Closed == "" && screen.Escape(word) == word {
			words = append(words, word)
		}
	}
	return words
}

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/internal/patch"
)

// maxCallLines limits the lines that show the calls that an approval covers.
const maxCallLines = 400

// callLines describes the calls that an approval covers, with their arguments.
func callLines(p api.ApprovalView) []string {
	var calls []struct {
		Step string          `json:"step"`
		Tool string          `json:"tool"`
		Args json.RawMessage `json:"args"`
	}
	if json.Unmarshal(p.Calls, &calls) != nil || len(calls) == 0 {
		return nil
	}
	lines := []string{fmt.Sprintf("  covers %s:", screen.Plural(len(calls), "call"))}
	for i, c := range calls {
		if len(lines) > maxCallLines {
			return append(lines, fmt.Sprintf("    … and %d more: orch approvals %s -o json", len(calls)-i, p.ID))
		}
		lines = append(lines, "    "+screen.Escape(c.Step)+"  "+screen.Escape(c.Tool))
		what := diffLines(c.Tool, c.Args)
		if what == nil {
			what = screen.Object(c.Args)
		}
		lines = append(lines, indented(indented(what))...)
	}
	return lines
}

// maxDiffed limits the size in bytes of files that are compared with new content.
const maxDiffed = 1 << 20

// diffLines returns the diff that a call would make in a file. It returns nil if this process cannot tell.
func diffLines(tool string, args json.RawMessage) []string {
	var in struct {
		FilePath string `json:"file_path"`
		Path     string `json:"path"`
		Content  string `json:"content"`
	}
	if tool != "FILE_WRITE" && tool != "write_file" || json.Unmarshal(args, &in) != nil {
		return nil
	}
	name := cmp.Or(in.FilePath, in.Path)
	before, err := regularFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	text := patch.Between(name, before, []byte(in.Content))
	if text == "" {
		text = name + " does not change"
	}
	return strings.Split(screen.EscapeLines(strings.TrimSuffix(text, "\n")), "\n")
}

// regularFile reads the file at an absolute path. It fails unless the file is a regular one of at most maxDiffed bytes.
func regularFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !filepath.IsAbs(name) || !info.Mode().IsRegular() || info.Size() > maxDiffed:
		return nil, fs.ErrInvalid
	}
	return os.ReadFile(name)
}

package fs

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

const (
	// bufferSize is the size in bytes of the buffer of a search; a longer line is searched in parts.
	bufferSize = 1 << 20
	// sniffLen is the number of leading bytes in which a NUL marks a file as binary.
	sniffLen = 8000
	// progressEvery is the number of files between two progress reports.
	progressEvery = 1000
)

// search is one run of GREP_SEARCH.
type search struct {
	env *tools.Env
	re  *regexp.Regexp
	// literal is contained in every match; empty if none is known.
	literal []byte
	glob    string
	buf     []byte
	// folded is a buffer for the text in lower case; nil when the literal is case-sensitive.
	folded []byte
	files  int // number of files searched so far
	size   int // size of the text in out, in bytes
	out    grepSearchOut
}

// newSearch validates the input and prepares a search.
func newSearch(env *tools.Env, in grepSearchIn) (*search, error) {
	pattern := in.Pattern
	if in.CaseInsensitive {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, invalidPattern(err)
	}
	if !doublestar.ValidatePattern(in.Glob) {
		return nil, fault.New(fault.InvalidFormat, "is not a valid glob pattern").WithField("glob")
	}
	required := requiredLiteral(pattern)
	s := &search{env: env, re: re, literal: []byte(required.text), glob: in.Glob, buf: make([]byte, bufferSize)}
	if required.fold && required.text != "" {
		s.folded = make([]byte, bufferSize)
	}
	s.out.Mode = in.OutputMode
	switch in.OutputMode {
	case "files_with_matches":
		s.out.Files = []string{}
	case "count":
		s.out.Counts = []grepCount{}
	default:
		s.out.Mode, s.out.Matches = "content", []grepMatch{}
	}
	return s, nil
}

// invalidPattern describes the error in a pattern without repeating all of it.
func invalidPattern(err error) error {
	reason := "it cannot be read"
	if e := (*syntax.Error)(nil); errors.As(err, &e) {
		reason = e.Code.String()
	}
	return fault.Wrap(fault.InvalidFormat, err, "is not a valid regular expression: "+reason).WithField("pattern")
}

// run searches a file, or all files below a directory.
func (s *search) run(ctx context.Context, rel string) error {
	info, err := s.env.Root.Stat(rel)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return s.searchFile(ctx, rel)
	}
	inGit := slices.Contains(strings.Split(s.glob, "/"), ".git")
	return s.env.Root.Walk(ctx, rel, func(at string, d fs.DirEntry) error {
		if d.IsDir() && leavesOut(s.env, at, inGit) {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() || !s.matchesGlob(rel, at) {
			return nil
		}
		if err := s.searchFile(ctx, at); err != nil && ctx.Err() != nil {
			return err
		}
		return nil
	})
}

// matchesGlob applies the file filter to a path below dir.
func (s *search) matchesGlob(dir, at string) bool {
	if s.glob == "" {
		return true
	}
	name := path.Base(at)
	if strings.Contains(s.glob, "/") {
		name = relativeTo(dir, at)
	}
	return doublestar.MatchUnvalidated(s.glob, name)
}

// searchFile searches one file, one buffer of whole lines at a time.
func (s *search) searchFile(ctx context.Context, rel string) error {
	f, err := s.env.Root.Open(rel)
	if err != nil {
		return err
	}
	defer f.Close()
	if s.files++; s.files%progressEvery == 0 {
		s.env.Progress(float64(s.files), 0, "files searched")
	}
	hits := hits{search: s, file: s.env.Root.Abs(rel), line: 1}
	for carried, first := 0, true; ; first = false {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.ReadFull(f, s.buf[carried:])
		chunk, last := s.buf[:carried+n], err != nil
		if first && bytes.IndexByte(chunk[:min(sniffLen, len(chunk))], 0) >= 0 {
			return nil
		}
		end := len(chunk)
		if i := bytes.LastIndexByte(chunk, '\n'); i >= 0 && !last {
			end = i + 1
		}
		if hits.scan(chunk[:end]) || last {
			break
		}
		carried = copy(s.buf, chunk[end:])
	}
	hits.finish()
	return nil
}

// reserve reports whether one more item of size bytes fits into a result that already has items entries. If so, it
// counts the bytes.
func (s *search) reserve(items, size int) bool {
	if items >= maxEntries || s.size+size > maxText {
		s.out.Truncated = true
		return false
	}
	s.size += size
	return true
}

// hits collects the matching lines of one file.
type hits struct {
	*search
	file  string
	line  int // number of the next line
	count int
}

// scan searches whole lines. It returns true when the rest of the file need not be searched.
func (h *hits) scan(text []byte) bool {
	all := text
	low := text // the text in which to find the literal; always as long as text
	if h.folded != nil {
		low = lowerASCII(h.folded, text)
	}
	for len(text) > 0 {
		if len(h.literal) > 0 {
			i := bytes.Index(low, h.literal)
			if i < 0 {
				h.line += bytes.Count(text, []byte("\n"))
				return false
			}
			start := bytes.LastIndexByte(text[:i], '\n') + 1
			h.line += bytes.Count(text[:start], []byte("\n"))
			text, low = text[start:], low[start:]
		}
		line, rest, hasBreak := bytes.Cut(text, []byte("\n"))
		line = bytes.TrimSuffix(line, []byte("\r"))
		if h.re.Match(line) {
			if insideKey(all[:len(all)-len(text)]) && !bytes.HasPrefix(line, []byte("-----")) {
				line = []byte(tools.HiddenLine)
			}
			h.add(line)
			if h.out.Files != nil {
				return true
			}
		}
		if hasBreak {
			h.line++
		}
		text, low = rest, low[len(low)-len(rest):]
	}
	return false
}

// add adds a matching line to the result.
func (h *hits) add(line []byte) {
	h.count++
	h.out.Total++
	if h.out.Matches == nil {
		return
	}
	text, cut := clip(line, maxLine)
	if h.reserve(len(h.out.Matches), len(h.file)+len(text)) {
		h.out.Matches = append(h.out.Matches, grepMatch{h.file, h.line, string(text)})
		h.out.Truncated = h.out.Truncated || cut
	}
}

// finish adds the file to results that are grouped by file.
func (h *hits) finish() {
	switch {
	case h.count == 0:
	case h.out.Files != nil && h.reserve(len(h.out.Files), len(h.file)):
		h.out.Files = append(h.out.Files, h.file)
	case h.out.Counts != nil && h.reserve(len(h.out.Counts), len(h.file)):
		h.out.Counts = append(h.out.Counts, grepCount{h.file, h.count})
	}
}

package undo

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/orch-dev/orch/internal/patch"
	"github.com/orch-dev/orch/internal/pathguard"
)

const (
	// maxLaterCalls bounds the newest calls among which those are searched that have changed a path.
	maxLaterCalls = 500
	// maxDiffed bounds the content of a file with a diff, maxDiff its diff, and maxDiffs all diffs of a report, in bytes.
	maxDiffed = 256 << 10
	maxDiff   = 8 << 10
	maxDiffs  = 64 << 10
)

// Later is what was changed at a path after the calls to undo.
type Later struct {
	Path string
	// Lost is set if the undo overwrites the change, and not set if the path is a conflict.
	Lost bool
	// By are who has changed the path, in the order of time.
	By []By
	// Diff is the unified diff of the change. It is empty for content that is no text or too large, and after many others.
	Diff string
}

// By is who has changed a path at a time: a call of a session, named "TASK/step", or, without a call, somebody outside of sessions.
type By struct {
	Session, Call string
	At            time.Time
}

// describeLater completes the paths of a report that were changed after the calls to undo.
func (s *Store) describeLater(ctx context.Context, root *pathguard.Root, report *Report, found changes) error {
	if len(report.Later) == 0 {
		return nil
	}
	calls, err := s.callsSince(ctx, found)
	if err != nil {
		return err
	}
	left := maxDiffs
	for i := range report.Later {
		l := &report.Later[i]
		m := found.paths[l.Path]
		now, err := versionAt(root, l.Path)
		if err != nil {
			continue
		}
		l.By = whoChanged(calls, l.Path, m, now, changedAt(root, l.Path))
		if left >= maxDiff {
			l.Diff = s.diffSince(ctx, root, l.Path, m.after, now)
			left -= len(l.Diff)
		}
	}
	return nil
}

// changedAt returns when a file was last written, as its folder says; the zero time if it is missing.
func changedAt(root *pathguard.Root, path string) time.Time {
	info, err := root.Lstat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// laterCall is a recorded call with the versions that it has made.
type laterCall struct {
	By
	before, after string
	made          map[string]version
}

// whoChanged returns the calls that have changed a path after a version of it, and somebody else if the path has a version now that
// none of them has made. A program that ran at the same time seems to have made that version too.
func whoChanged(calls []*laterCall, path string, m pathChange, now version, written time.Time) []By {
	by, last := []By{}, m.after
	for _, c := range calls {
		if made, ok := c.made[path]; ok && made != last && !c.At.Before(m.at) {
			by, last = append(by, c.By), made
		}
	}
	if last != now {
		by = append(by, By{At: written})
	}
	return by
}

// callsSince returns the calls of all sessions and the undos, in the order of time, that are not to be undone and have ended after the first
// of those that are.
func (s *Store) callsSince(ctx context.Context, found changes) ([]*laterCall, error) {
	commits, err := s.snapshots(ctx, "--all")
	if err != nil {
		return nil, err
	}
	since := slices.MinFunc(slices.Collect(maps.Values(found.paths)), func(a, b pathChange) int { return a.at.Compare(b.at) }).at
	ended := map[string]*laterCall{}
	var calls []*laterCall
	paths := map[*laterCall][]string{}
	for _, c := range commits { // newest first
		key := c.session + " " + c.call
		switch {
		case found.calls[key]:
		case c.when == "after" && ended[key] == nil && !c.at.Before(since):
			ended[key] = &laterCall{By: By{c.session, c.call, c.at}, after: c.commit}
		case c.when == "before" && ended[key] != nil && ended[key].before == "":
			ended[key].before = c.commit
			calls, paths[ended[key]] = append(calls, ended[key]), c.paths
		}
	}
	slices.SortStableFunc(calls, func(a, b *laterCall) int { return a.At.Compare(b.At) })
	calls = calls[max(0, len(calls)-maxLaterCalls):]
	return calls, s.readMade(ctx, calls, paths)
}

// diffsScript lists, for each line "number before after", the changes between two commits.
const diffsScript = `while read -r n a b; do printf ':%s\0\0' "$n"; git diff-tree -r -z --no-renames --raw "$a" "$b" || exit; done`

// readMade sets the versions that calls have made at their paths.
func (s *Store) readMade(ctx context.Context, calls []*laterCall, paths map[*laterCall][]string) error {
	if len(calls) == 0 {
		return nil
	}
	var input strings.Builder
	for i, c := range calls {
		fmt.Fprintf(&input, "%d %s %s\n", i, c.before, c.after)
	}
	text, err := s.git(ctx, input.String(), diffsScript)
	if err != nil {
		return err
	}
	var c *laterCall
	parts := strings.Split(strings.TrimSuffix(text, "\x00"), "\x00")
	for i := 0; i+1 < len(parts); i += 2 {
		f, path := strings.Fields(strings.TrimPrefix(parts[i], ":")), parts[i+1]
		switch n, err := strconv.Atoi(f[0]); {
		case path == "" && err == nil:
			c = calls[n]
			c.made = map[string]version{}
		case len(f) == 5 && covers(paths[c], path):
			c.made[path] = version{f[1], f[3]}
		}
	}
	return nil
}

// diffSince returns the diff from a version of a path to its current content, "" if one of them is no text or too large.
func (s *Store) diffSince(ctx context.Context, root *pathguard.Root, path string, after, now version) string {
	was, err := s.contentOf(ctx, after)
	if err != nil {
		return ""
	}
	is, err := contentAt(root, path, now)
	if err != nil || !isText(was) || !isText(is) {
		return ""
	}
	return clipLines(patch.Between(path, s.redacted(was), s.redacted(is)), maxDiff)
}

// redacted returns a whole content without secrets. A hunk alone may have lines of a key that nothing shows to be one.
func (s *Store) redacted(content []byte) []byte {
	if s.Redact == nil {
		return content
	}
	return s.Redact(content)
}

// contentOf returns the content of a recorded version; none for one that is missing.
func (s *Store) contentOf(ctx context.Context, v version) ([]byte, error) {
	if v.absent() {
		return nil, nil
	}
	// The end keeps the last line end of the content, which git removes.
	text, err := s.git(ctx, "", fmt.Sprintf(`[ "$(git cat-file -s %[1]s)" -le %[2]d ] && git cat-file blob %[1]s && echo`, v.id, maxDiffed))
	return []byte(text), err
}

// contentAt returns the content at a path that has a version now; none if it is missing.
func contentAt(root *pathguard.Root, path string, now version) ([]byte, error) {
	if now.absent() {
		return nil, nil
	}
	info, err := root.Lstat(path)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(root.Abs(path))
		return []byte(target), err
	}
	return root.ReadFile(path, maxDiffed)
}

func isText(data []byte) bool { return utf8.Valid(data) && !bytes.ContainsRune(data, 0) }

// clipLines returns the first lines of a text, at most limit bytes, and how many follow.
func clipLines(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := cmp.Or(strings.LastIndexByte(text[:limit], '\n')+1, limit)
	return strings.ToValidUTF8(text[:end], "") + fmt.Sprintf("… %d more lines\n", strings.Count(text[end:], "\n"))
}

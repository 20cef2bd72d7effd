package undo

import (
	"context"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // git object ids are SHA-1
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
)

// Report is the result of an undo.
type Report struct {
	// Restored are paths with restored content. Removed are paths that calls had created. Conflicts are paths that Undo
	// did not restore, such as paths that were changed after the calls. Paths are relative to the root.
	Restored  []string `json:"restored"`
	Removed   []string `json:"removed"`
	Conflicts []string `json:"conflicts"`
	// Later are the paths that were changed after the calls.
	Later []Later `json:"later,omitempty"`
}

// version identifies the content at a path: git's file mode and object id.
type version struct{ mode, id string }

func (v version) absent() bool { return v.mode == "000000" }

// pathChange contains the versions of a path before and after the calls to undo, and when the newest of them that has changed it ended.
type pathChange struct {
	before, after version
	at            time.Time
}

// changes are the changes of the calls to undo, which are named "session TASK/step".
type changes struct {
	calls map[string]bool
	paths map[string]pathChange
}

// maxContent bounds a file that is compared, in bytes.
const maxContent = 1 << 30

// Request says what to undo: the calls of a session or, if Task is set, those of that task, which are named "TASK/step". By is the
// call that undoes them. A path that was changed after the calls is a conflict, unless Force is set. If Dry is set, nothing is
// written or recorded.
type Request struct {
	Session, Task, By string
	Force, Dry        bool
}

// Undo restores the paths that calls have changed. A path that is absent in the view root is always a conflict.
func (s *Store) Undo(ctx context.Context, root *pathguard.Root, r Request) (Report, error) {
	report := Report{Restored: []string{}, Removed: []string{}, Conflicts: []string{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(ctx); err != nil {
		return report, err
	}
	all, err := s.changesBy(ctx, r.Session, r.Task, r.Dry)
	if err != nil {
		return report, err
	}
	write := classify(root, all.paths, r.Force, &report)
	if err := s.describeLater(ctx, root, &report, all); err != nil {
		return report, err
	}
	if r.Dry {
		return report, nil
	}
	ended, err := s.beginRestore(ctx, r, slices.Concat(report.Restored, report.Removed))
	if err != nil {
		return report, err
	}
	err = s.restore(ctx, root, &report, write)
	return report, errors.Join(err, ended())
}

// beginRestore records the paths that an undo is going to write, as changes of the call that undoes: it is named to those who undo
// other calls at these paths. The returned function records them again afterwards.
func (s *Store) beginRestore(ctx context.Context, r Request, paths []string) (ended func() error, err error) {
	if r.By == "" || len(paths) == 0 {
		return func() error { return nil }, nil
	}
	c := &Change{store: s, session: r.Session, call: r.By, restores: true}
	if _, err := c.commit(ctx, s.listOf(paths), "before"); err != nil {
		return nil, err
	}
	return func() error {
		_, err := c.commit(ctx, s.listOf(paths), "after")
		return err
	}, nil
}

// listOf lists single files that exist, or do not. What a link leads to is not at the path.
func (s *Store) listOf(paths []string) listing {
	var there, gone strings.Builder
	for _, path := range paths {
		if info, err := s.root.Lstat(path); err == nil && storable(fs.FileInfoToDirEntry(info)) && !s.belowLink(path) {
			there.WriteString(path + "\x00")
		} else {
			gone.WriteString(path + "\x00")
		}
	}
	return listing{there.String(), gone.String()}
}

// belowLink reports whether a parent folder of a path is a link.
func (s *Store) belowLink(path string) bool {
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
		if info, err := s.root.Lstat(dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

// classify adds each path to a list of the report. It returns the versions to write as lines for git update-index.
// Folders are classified before their content, so that a removed file does not block paths below it. A path that cannot
// be inspected is a conflict.
func classify(root *pathguard.Root, all map[string]pathChange, force bool, report *Report) (write []string) {
	removed := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		m := all[path]
		now, err := versionAt(root, path)
		if parentRemoved(path, removed) {
			now, err = missing(), nil
		}
		switch {
		case root.Lacks(path), err != nil:
			report.Conflicts = append(report.Conflicts, path)
			continue
		case now == m.before:
			continue
		case now != m.after:
			report.Later = append(report.Later, Later{Path: path, Lost: force})
		}
		switch {
		case now != m.after && !force:
			report.Conflicts = append(report.Conflicts, path)
		case m.before.absent():
			report.Removed, removed[path] = append(report.Removed, path), true
		default:
			report.Restored, write = append(report.Restored, path), append(write, m.before.mode+" "+m.before.id+"\t"+path)
		}
	}
	return write
}

// parentRemoved reports whether a parent folder of path is in removed.
func parentRemoved(path string, removed map[string]bool) bool {
	for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
		if removed[dir] {
			return true
		}
	}
	return false
}

// restore removes and writes the paths of a report. Failures become conflicts.
func (s *Store) restore(ctx context.Context, root *pathguard.Root, report *Report, write []string) error {
	report.Removed = report.attempt(report.Removed, func(path string) error {
		if err := root.Remove(path); !fault.Has(err, fault.NotFound) {
			return err
		}
		return nil
	})
	if len(write) == 0 {
		return nil
	}
	temp := filepath.Join(s.dir, "put-"+rand.Text())
	defer func() { _ = os.RemoveAll(temp) }()
	script := `export GIT_INDEX_FILE="` + temp + `.index"
git update-index -z --index-info && git checkout-index -a --prefix="` + temp + `/"; code=$?
rm -f "$GIT_INDEX_FILE"; exit $code`
	if _, err := s.git(ctx, strings.Join(write, "\x00")+"\x00", script); err != nil {
		return err
	}
	report.Restored = report.attempt(report.Restored, func(path string) error { return s.restoreFile(root, temp, path) })
	return nil
}

// attempt calls do for each path. It returns the paths for which do succeeds, and adds the other paths to the
// conflicts.
func (r *Report) attempt(paths []string, do func(path string) error) []string {
	done := []string{}
	for _, path := range paths {
		if err := do(path); err != nil {
			r.Conflicts = append(r.Conflicts, path)
			continue
		}
		done = append(done, path)
	}
	return done
}

// restoreFile moves one restored file to its path. It keeps the mode of an existing file; a new file is accessible only
// to its owner.
func (s *Store) restoreFile(root *pathguard.Root, temp, path string) error {
	from := filepath.Join(temp, path)
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		mode := info.Mode().Perm() & 0o700
		if now, err := root.Lstat(path); err == nil && now.Mode().IsRegular() {
			mode |= now.Mode().Perm() &^ 0o100
		}
		if err := os.Chmod(from, mode); err != nil {
			return err
		}
	}
	if err := root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if now, err := root.Lstat(path); err == nil && now.IsDir() {
		if err := root.Remove(path); err != nil { // a folder that is empty because its files were removed
			return err
		}
	}
	rel, err := s.root.ResolveEntry(from)
	if err != nil {
		return err
	}
	return s.root.Rename(rel, path)
}

// snapshot is a commit on a branch of a session. when is "before" or "after" the call. paths are the paths of the
// call; empty paths stand for all files.
type snapshot struct {
	commit, session, when, call string
	at                          time.Time
	paths                       []string
}

// snapshots returns the commits of a branch, or of all branches ("--all"), newest first.
func (s *Store) snapshots(ctx context.Context, branch string) ([]snapshot, error) {
	text, err := s.git(ctx, "", `[ "$UNDO_REF" = --all ] || git rev-parse -q --verify "$UNDO_REF" >/dev/null || exit 0
git log --first-parent --format='%x01%H %ct %S %B' "$UNDO_REF"`, "UNDO_REF="+branch)
	if err != nil || text == "" {
		return nil, err
	}
	var all []snapshot
	for _, entry := range strings.Split(text, "\x01")[1:] {
		l, err := parseSnapshot(entry)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// parseSnapshot parses a commit of snapshots: a line, and the lines of the message.
func parseSnapshot(entry string) (snapshot, error) {
	lines := strings.Split(strings.TrimSpace(entry), "\n")
	first := strings.SplitN(lines[0], " ", 5)
	if len(first) != 5 {
		return snapshot{}, fault.New(fault.Internal, "git describes a commit as %q", lines[0])
	}
	seconds, err := strconv.ParseInt(first[1], 10, 64)
	if err != nil {
		return snapshot{}, fault.New(fault.Internal, "git describes a commit as %q", lines[0])
	}
	l := snapshot{commit: first[0], at: time.Unix(seconds, 0), session: sessionOf(first[2]), when: first[3], call: first[4]}
	for _, line := range lines[1:] {
		if path, err := strconv.Unquote(line); err == nil {
			l.paths = append(l.paths, path)
		} else if at, err := time.Parse(time.RFC3339Nano, line); err == nil {
			l.at = at
		}
	}
	return l, nil
}

// changesBy returns the calls to undo, and the paths that they have changed. For each path it returns the version before the oldest
// call and the version after the newest. For an interrupted call the current version counts as the version after the call; unless
// dry is set, it is recorded.
func (s *Store) changesBy(ctx context.Context, session, task string, dry bool) (changes, error) {
	all := changes{map[string]bool{}, map[string]pathChange{}}
	commits, err := s.snapshots(ctx, branches+session)
	if err != nil {
		return all, err
	}
	after := map[string]snapshot{}
	for _, c := range commits {
		if taskOf, _, _ := strings.Cut(c.call, "/"); task != "" && taskOf != task {
			continue
		}
		all.calls[c.session+" "+c.call] = true
		if c.when == "after" { // a call that was undone while it ran has two commits after it: the newest counts
			if after[c.call].commit == "" {
				after[c.call] = c
			}
			continue
		}
		if after[c.call].commit == "" {
			if after[c.call], err = s.endInterrupted(ctx, c, dry); err != nil {
				return all, err
			}
		}
		if err := s.collect(ctx, all.paths, c, after[c.call]); err != nil {
			return all, err
		}
	}
	return all, nil
}

// endInterrupted commits the current version of the paths of a call that has no version after it.
func (s *Store) endInterrupted(ctx context.Context, c snapshot, dry bool) (snapshot, error) {
	interrupted := &Change{store: s, session: c.session, call: c.call, paths: c.paths, unrecorded: dry}
	files, err := s.filesAt(ctx, c.paths)
	if err != nil {
		return snapshot{}, err
	}
	commit, err := interrupted.commit(ctx, files, "after")
	return snapshot{commit: commit, at: s.now()}, err
}

// collect adds the changes of a call to all, which contains the changes of newer calls.
func (s *Store) collect(ctx context.Context, all map[string]pathChange, before, after snapshot) error {
	text, err := s.git(ctx, "", "git diff-tree -r -z --no-renames --raw "+before.commit+" "+after.commit)
	if err != nil || text == "" {
		return err
	}
	const submodule = "160000"
	parts := strings.Split(strings.TrimSuffix(text, "\x00"), "\x00")
	for i := 0; i+1 < len(parts); i += 2 {
		f := strings.Fields(strings.TrimPrefix(parts[i], ":")) // old mode, new mode, old id, new id, status
		if len(f) != 5 {
			return fault.New(fault.Internal, "git describes a change as %q", parts[i])
		}
		path := parts[i+1]
		if !covers(before.paths, path) || f[0] == submodule || f[1] == submodule {
			continue
		}
		m, seen := all[path]
		if !seen {
			m.after, m.at = version{f[1], f[3]}, after.at
		}
		m.before = version{f[0], f[2]}
		all[path] = m
	}
	return nil
}

// missing returns the version of a path without a file.
func missing() version { return version{"000000", strings.Repeat("0", 40)} }

// versionAt returns the current version at a path. A folder counts as missing.
func versionAt(root *pathguard.Root, path string) (version, error) {
	none := missing()
	info, err := root.Lstat(path)
	if fault.Has(err, fault.NotFound) || errors.Is(err, syscall.ENOTDIR) || err == nil && info.IsDir() {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(root.Abs(path))
		return version{"120000", blobID([]byte(target))}, err
	}
	data, err := root.ReadFile(path, maxContent)
	if err != nil {
		return none, err
	}
	mode := "100644"
	if info.Mode()&0o100 != 0 {
		mode = "100755"
	}
	return version{mode, blobID(data)}, nil
}

// blobID returns git's object id of contents.
func blobID(data []byte) string {
	h := sha1.New() //nolint:gosec // git object ids are SHA-1
	_, _ = fmt.Fprintf(h, "blob %d\x00", len(data))
	_, _ = h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

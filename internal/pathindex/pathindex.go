// Package pathindex repeatedly finds the names below a directory that match a predicate, without reading the whole
// directory each time. It caches the names, and reads only the folders that have changed since the last search.
//
// Changes are detected by the change time (ctime) of a folder, which no program can set. A folder that changed shortly
// before it was read is read again the next time, because a further change could have the same time.
package pathindex

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
)

const (
	// MaxNames bounds the number of files and folders below the directory.
	MaxNames = 2_000_000
	// settleTime is how long a folder must be unchanged before it is read, so that any later change gives it another
	// mark.
	settleTime = 100 * time.Millisecond
	// maxQueries bounds the number of queries with cached results.
	maxQueries = 32
)

// Index caches the names below a directory. It is safe for concurrent use.
type Index struct {
	dir  string
	skip []string

	mu      sync.Mutex
	top     *folder
	names   int
	queries map[string]bool
	// read counts the folders that were read.
	read int
}

// folder is the cached content of one folder.
type folder struct {
	mark    mark
	settled bool // true if it was unchanged for settleTime before it was read
	names   []string
	below   map[string]*folder
	stores  []string // names with file contents of a repository
	// found are the matching names, by query.
	found map[string][]string
}

// New returns an index of the directory dir, an absolute real path, without the directories in skip. It reads nothing
// yet.
func New(dir string, skip ...string) *Index {
	return &Index{dir: dir, skip: skip, queries: map[string]bool{}}
}

// Result is the result of Find, as absolute paths.
type Result struct {
	// Names are the matching paths, without those inside of a matching folder.
	Names []string
	// Stores are the folders of git repositories that contain contents of files.
	Stores []string
}

// Find returns the paths below the directory for which matches returns true, without those inside of a matching folder.
// Results are cached by query: calls with the same query must use an equivalent matches. Find returns VALIDATION_ERROR
// with the reason LIMIT_EXCEEDED when there are more than MaxNames names.
func (x *Index) Find(query string, matches func(path string) bool) (Result, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refresh(); err != nil {
		return Result{}, err
	}
	if !x.queries[query] && len(x.queries) >= maxQueries {
		clear(x.queries)
		x.top.dropResults()
	}
	x.queries[query] = true
	var r Result
	x.top.find(x.dir, query, matches, &r)
	return r, nil
}

// refresh reads the folders that have changed.
func (x *Index) refresh() error {
	if x.top == nil {
		x.top = &folder{}
	}
	err := x.update(x.dir, x.top)
	if err != nil {
		x.top, x.names = nil, 0
	}
	return err
}

// update updates the cache of a folder and its subfolders.
func (x *Index) update(path string, f *folder) error {
	now, err := markOf(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		x.names -= f.size()
		*f = folder{}
		return nil
	case err != nil:
		return fault.Wrap(fault.Internal, err, "the folder "+path+" cannot be inspected")
	}
	if !f.settled || f.mark != now {
		if err := x.readFolder(path, f, now); err != nil {
			return err
		}
	}
	for name, child := range f.below {
		if err := x.update(join(path, name), child); err != nil {
			return err
		}
	}
	return nil
}

// readFolder reads the names in a folder. It keeps the caches of its subfolders.
func (x *Index) readFolder(path string, f *folder, now mark) error {
	begin := time.Now()
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return fault.Wrap(fault.Internal, err, "the folder "+path+" cannot be read")
	}
	x.read++
	old := f.below
	x.names += len(entries) - len(f.names)
	*f = folder{mark: now, settled: begin.Sub(now.changed()) > settleTime, below: map[string]*folder{}, found: map[string][]string{}}
	for _, e := range entries {
		f.names = append(f.names, e.Name())
	}
	f.stores = stores(path, f.names)
	for _, e := range entries {
		at := join(path, e.Name())
		if !e.IsDir() || slices.Contains(x.skip, at) || slices.Contains(f.stores, e.Name()) {
			continue
		}
		if f.below[e.Name()] = old[e.Name()]; f.below[e.Name()] == nil {
			f.below[e.Name()] = &folder{}
		}
		delete(old, e.Name())
	}
	for _, removed := range old {
		x.names -= removed.size()
	}
	if x.names > MaxNames {
		return fault.New(fault.ValidationError, "there are more than %d files and folders below %s", MaxNames, x.dir).WithReason("LIMIT_EXCEEDED")
	}
	return nil
}

// size returns the number of cached names in f and its subfolders.
func (f *folder) size() int {
	n := len(f.names)
	for _, child := range f.below {
		n += child.size()
	}
	return n
}

// dropResults drops the cached results of f and its subfolders.
func (f *folder) dropResults() {
	clear(f.found)
	for _, child := range f.below {
		child.dropResults()
	}
}

// find appends the results in f and its subfolders to r, and caches them. path is the path of f.
func (f *folder) find(path, query string, matches func(path string) bool, r *Result) {
	found, ok := f.found[query]
	if !ok && f.found != nil {
		for _, name := range f.names {
			if matches(join(path, name)) {
				found = append(found, name)
			}
		}
		f.found[query] = found
	}
	for _, name := range found {
		r.Names = append(r.Names, join(path, name))
	}
	for _, name := range f.stores {
		r.Stores = append(r.Stores, join(path, name))
	}
	for name, child := range f.below {
		if !slices.Contains(found, name) {
			child.find(join(path, name), query, matches, r)
		}
	}
}

// join is filepath.Join for a clean directory and a name.
func join(dir, name string) string {
	if dir == string(filepath.Separator) {
		return dir + name
	}
	return dir + string(filepath.Separator) + name
}

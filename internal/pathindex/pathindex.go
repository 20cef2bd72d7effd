// Package pathindex finds the names below a directory that fit something, again and again, without reading all of the
// directory each time: it remembers the names, and reads again only the folders that have changed since.
//
// A folder has changed when the kernel says so (the time of its last change, which no program can set). What was read
// in the same moment as it changed is read again the next time.
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
	// MaxNames bounds the files and folders below the directory.
	MaxNames = 2_000_000
	// settled is how long a folder has to be unchanged before it is read to be trusted not to have changed again.
	settled = 100 * time.Millisecond
	// maxQueries bounds the queries whose answers are remembered.
	maxQueries = 32
)

// Index knows the names below a directory. It is safe for concurrent use.
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

// folder is what is known of one folder.
type folder struct {
	mark   mark
	sure   bool // that nothing changed while it was read
	names  []string
	below  map[string]*folder
	stores []string
	// found holds the names that fit, by query.
	found map[string][]string
}

// New returns an index of the directory dir, an absolute real path, but for what lies in the directories of skip. It reads
// nothing yet.
func New(dir string, skip ...string) *Index {
	return &Index{dir: dir, skip: skip, queries: map[string]bool{}}
}

// Result is what Find has found, as absolute paths.
type Result struct {
	// Names fit, and lie in no folder that fits.
	Names []string
	// Stores are the folders of git repositories in which the contents of files lie.
	Stores []string
}

// Find returns the names below the directory for which fits is true. What lies in a folder that fits is not named. Calls
// with the same query have to mean the same by fits. VALIDATION_ERROR with the reason LIMIT_EXCEEDED when there are more
// than MaxNames.
func (x *Index) Find(query string, fits func(path string) bool) (Result, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refresh(); err != nil {
		return Result{}, err
	}
	if !x.queries[query] && len(x.queries) >= maxQueries {
		clear(x.queries)
		x.top.forget()
	}
	x.queries[query] = true
	var r Result
	x.top.find(x.dir, query, fits, &r)
	return r, nil
}

// refresh reads what has changed.
func (x *Index) refresh() error {
	if x.top == nil {
		x.top = &folder{}
	}
	err := x.look(x.dir, x.top)
	if err != nil {
		x.top, x.names = nil, 0
	}
	return err
}

// look brings what is known of a folder, and of those in it, up to date.
func (x *Index) look(path string, f *folder) error {
	now, err := markOf(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		x.names -= f.size()
		*f = folder{}
		return nil
	case err != nil:
		return fault.Wrap(fault.Internal, err, "the folder "+path+" cannot be looked at")
	}
	if !f.sure || f.mark != now {
		if err := x.readFolder(path, f, now); err != nil {
			return err
		}
	}
	for name, child := range f.below {
		if err := x.look(join(path, name), child); err != nil {
			return err
		}
	}
	return nil
}

// readFolder reads the names in a folder. What is known of the folders in it stays.
func (x *Index) readFolder(path string, f *folder, now mark) error {
	begin := time.Now()
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return fault.Wrap(fault.Internal, err, "the folder "+path+" cannot be read")
	}
	x.read++
	old := f.below
	x.names += len(entries) - len(f.names)
	*f = folder{mark: now, sure: begin.Sub(now.changed()) > settled, below: map[string]*folder{}, found: map[string][]string{}}
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
	for _, gone := range old {
		x.names -= gone.size()
	}
	if x.names > MaxNames {
		return fault.New(fault.ValidationError, "there are more than %d files and folders below %s", MaxNames, x.dir).WithReason("LIMIT_EXCEEDED")
	}
	return nil
}

// size is how many names are known in a folder and below it.
func (f *folder) size() int {
	n := len(f.names)
	for _, child := range f.below {
		n += child.size()
	}
	return n
}

// forget drops what was found.
func (f *folder) forget() {
	clear(f.found)
	for _, child := range f.below {
		child.forget()
	}
}

func (f *folder) find(path, query string, fits func(path string) bool, r *Result) {
	found, ok := f.found[query]
	if !ok && f.found != nil {
		for _, name := range f.names {
			if fits(join(path, name)) {
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
			child.find(join(path, name), query, fits, r)
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

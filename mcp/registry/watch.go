package registry

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// debounce is how long files must stay unchanged before they are read again.
	debounce = 500 * time.Millisecond
	// maxDebounce is the longest time that a series of changes may delay the read.
	maxDebounce = 3 * time.Second
)

// watcher detects changes of definitions, of the state file and of logins.
type watcher struct {
	fs   *fsnotify.Watcher
	dirs []string
	log  *slog.Logger
	// watched are the directories that fs watches.
	watched map[string]bool
	// state is the state file, logins the directory of logins.
	state, logins string
}

// watchFiles reloads the registry when files change, until the returned function is called. If files cannot be watched, it logs the
// error and does nothing.
func (r *Registry) watchFiles(ctx context.Context, dirs []string) func() {
	system, err := fsnotify.NewWatcher()
	if err != nil {
		r.log.WarnContext(ctx, "mcp_watcher_unavailable", slog.Any("error", err))
		return func() {}
	}
	w := &watcher{fs: system, dirs: dirs, log: r.log, watched: map[string]bool{}, state: r.state.path, logins: loginDir(r.home)}
	w.updateWatches()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the watcher outlives the call of Init
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.run(ctx, func() {
			if _, err := r.Reload(ctx); err != nil && ctx.Err() == nil {
				r.log.ErrorContext(ctx, "mcp_reload_failed", slog.Any("error", err))
			}
		})
	}()
	return func() {
		cancel()
		_ = system.Close() // nothing can be lost
		<-done
	}
}

// run calls reload after each series of changes.
func (w *watcher) run(ctx context.Context, reload func()) {
	timer := time.NewTimer(debounce)
	timer.Stop()
	defer timer.Stop()
	var since time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-w.fs.Events:
			if !ok {
				return
			}
			if !w.isRelevant(event) {
				continue
			}
			if since.IsZero() {
				since = time.Now()
			}
			timer.Reset(max(0, min(debounce, maxDebounce-time.Since(since))))
		case err, ok := <-w.fs.Errors:
			if !ok {
				return
			}
			w.log.WarnContext(ctx, "mcp_watcher_failed", slog.Any("error", err))
			timer.Reset(debounce) // events were lost: read everything
		case <-timer.C:
			since = time.Time{}
			w.updateWatches()
			reload()
			w.updateWatches()
		}
	}
}

// isRelevant reports whether an event may concern definitions, the state or logins.
func (w *watcher) isRelevant(event fsnotify.Event) bool {
	if event.Op == fsnotify.Chmod {
		return false
	}
	if event.Name == w.state || event.Name == w.logins {
		return true
	}
	if filepath.Dir(event.Name) == w.logins {
		return filepath.Ext(event.Name) == ".json"
	}
	for _, dir := range w.dirs {
		if filepath.Dir(event.Name) == dir || event.Name == dir || strings.HasPrefix(dir, event.Name+string(filepath.Separator)) {
			return true
		}
	}
	return w.linked(event.Name)
}

// linked reports whether a changed file is in the directory of a link target, or in a target that is a directory. Editors and
// mounts may replace the target.
func (w *watcher) linked(name string) bool {
	for _, target := range w.targets() {
		if filepath.Dir(name) == filepath.Dir(target) || filepath.Dir(name) == target {
			return true
		}
	}
	return false
}

// targets returns the resolved paths of directories and files that are links.
func (w *watcher) targets() []string {
	var all []string
	for _, dir := range w.dirs {
		files, err := filesOf(dir)
		if err != nil {
			continue // it does not exist
		}
		for _, path := range append(files, dir) {
			if target, err := filepath.EvalSymlinks(path); err == nil && target != path {
				all = append(all, target)
			}
		}
	}
	return all
}

// updateWatches updates the watched directories: those of definitions, of the state and of logins, with their parents, the nearest
// existing ancestor of a missing directory, and the targets of links.
func (w *watcher) updateWatches() {
	wanted := map[string]bool{}
	for _, dir := range append(slices.Clone(w.dirs), filepath.Dir(w.state), w.logins) {
		for _, near := range []string{dir, filepath.Dir(dir)} {
			wanted[near] = true
		}
		for above := filepath.Dir(dir); above != filepath.Dir(above) && !exists(above); above = filepath.Dir(above) {
			wanted[filepath.Dir(above)] = true
		}
	}
	for _, target := range w.targets() {
		wanted[target], wanted[filepath.Dir(target)] = true, true
	}
	for dir := range w.watched {
		if !wanted[dir] || !exists(dir) {
			_ = w.fs.Remove(dir) // fails if the directory no longer exists
			delete(w.watched, dir)
		}
	}
	for dir := range wanted {
		if exists(dir) && w.fs.Add(dir) == nil { // even if watched: a new directory may have the same name
			w.watched[dir] = true
		}
	}
}

func exists(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}

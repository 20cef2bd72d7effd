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
	// maxDebounce is how long a burst of changes may delay that.
	maxDebounce = 3 * time.Second
)

// watcher detects changes of the directories and of the state.
type watcher struct {
	fs   *fsnotify.Watcher
	dirs []string
	log  *slog.Logger
	// watched are the watched directories.
	watched map[string]bool
	// state is the file of the state, logins the directory of logins.
	state, logins string
}

// watchFiles reloads the registry when files change, until the returned function is called. If files cannot be watched,
// which is logged, only Reload reads them again.
func (r *Registry) watchFiles(ctx context.Context, dirs []string) func() {
	system, err := fsnotify.NewWatcher()
	if err != nil {
		r.log.WarnContext(ctx, "mcp_watcher_unavailable", slog.Any("error", err))
		return func() {}
	}
	w := &watcher{fs: system, dirs: dirs, log: r.log, watched: map[string]bool{}, state: r.state.path, logins: loginDir(r.home)}
	w.updateWatches()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it outlives the call of Init
	over := make(chan struct{})
	go func() {
		defer close(over)
		w.run(ctx, func() {
			if _, err := r.Reload(ctx); err != nil && ctx.Err() == nil {
				r.log.ErrorContext(ctx, "mcp_reload_failed", slog.Any("error", err))
			}
		})
	}()
	return func() {
		cancel()
		_ = system.Close() // only reads
		<-over
	}
}

// run calls reload after each burst of changes.
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

// linked reports whether a name is the target of a link, or a directory above it: editors and mounts replace both files
// and directories.
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

// updateWatches watches the present directories, or the nearest existing parents, the targets of links,
// and the directory of the state.
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
			_ = w.fs.Remove(dir) // it may no longer exist
			delete(w.watched, dir)
		}
	}
	for dir := range wanted {
		if exists(dir) && w.fs.Add(dir) == nil { // again: a new directory may have the same name
			w.watched[dir] = true
		}
	}
}

func exists(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}

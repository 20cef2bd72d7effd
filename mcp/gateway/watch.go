package gateway

import (
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// debounce is how long records must stay unchanged before they are read again.
const debounce = 200 * time.Millisecond

// watchRecords starts watching the records, to apply definitions that other processes accept. If files cannot be watched, it logs
// the error; accepted definitions are then applied at the next change of a server.
func (g *Gateway) watchRecords() {
	if g.cfg.Servers.Still {
		return
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		g.log.Warn("mcp_watcher_unavailable", slog.Any("error", err))
		return
	}
	g.offering.Lock()
	defer g.offering.Unlock()
	g.watcher = watcher
	g.group.Go(func() { g.followRecords(watcher) })
}

// watchDir adds the directory of the records to the watcher. It is called repeatedly, because the directory may have been replaced.
// g.offering must be held.
func (g *Gateway) watchDir() {
	if g.watcher != nil {
		_ = g.watcher.Add(g.records.dir) // fails before the first record
	}
}

// followRecords updates the catalogue after each series of changes of the records, including changes by this process.
func (g *Gateway) followRecords(watcher *fsnotify.Watcher) {
	defer func() { _ = watcher.Close() }() // nothing can be lost
	timer := time.NewTimer(debounce)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-g.life.Done():
			return
		case event := <-watcher.Events:
			if filepath.Ext(event.Name) == ".json" && event.Op != fsnotify.Chmod {
				timer.Reset(debounce)
			}
		case err := <-watcher.Errors:
			g.log.Warn("mcp_watcher_failed", slog.Any("error", err))
			timer.Reset(debounce) // events were lost: read everything
		case <-timer.C:
			if _, err := g.update(recordsChange); err != nil {
				g.log.Error("mcp_tools_not_offered", slog.Any("error", err))
			}
		}
	}
}

package gateway

import (
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// debounce is how long records have to be left alone before they are read again.
const debounce = 200 * time.Millisecond

// watchRecords takes over what other processes accept, where files are watched. Without a watcher, which is logged, it is
// taken over with the next change of a server.
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

// watchDir watches the directory of the records, again too: it may be another one of the name. offering is held.
func (g *Gateway) watchDir() {
	if g.watcher != nil {
		_ = g.watcher.Add(g.records.dir) // it is not there before something is recorded
	}
}

// followRecords reads the records again after each burst of changes. Those that are written here are among them.
func (g *Gateway) followRecords(watcher *fsnotify.Watcher) {
	defer func() { _ = watcher.Close() }() // nothing is written
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
			timer.Reset(debounce) // something was lost: look for oneself
		case <-timer.C:
			if _, err := g.update(recordsChange); err != nil {
				g.log.Error("mcp_tools_not_offered", slog.Any("error", err))
			}
		}
	}
}

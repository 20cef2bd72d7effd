package gateway_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/logtest"
	"github.com/orch-dev/orch/mcp/gateway"
)

// watching is a configuration that follows files.
func watching(c *gateway.Config) { c.Servers.Still, c.Connect = false, gateway.AtOnce }

// until waits until the catalogue is as it should be.
func (w *world) until(is func() bool) {
	w.t.Helper()
	limit := time.After(patience)
	for {
		replaced := w.catalogue.Replaced()
		if is() {
			return
		}
		select {
		case <-replaced:
		case <-limit:
			require.Fail(w.t, "the catalogue never came to be as it should", "it has %v and %v", w.catalogue.Names(), w.catalogue.Refused())
		}
	}
}

// refuses reports whether shifty is refused; offers reports whether it is offered.
func (w *world) refuses() bool { return slices.Contains(w.catalogue.Refused(), "lab__shifty") }

func (w *world) offers() bool { return slices.Contains(w.catalogue.Names(), "lab__shifty") }

// accept accepts the definition of shifty, like another process.
func (w *world) accept() {
	w.t.Helper()
	_, err := gateway.OpenRecords(w.home, slog.New(slog.DiscardHandler)).Accept("lab", map[string]string{"shifty": ""}, "user:ada", time.Now())
	require.NoError(w.t, err)
}

// What another process accepts counts at once, without a word of it.
func TestWhatOthersAccept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, watching)
	w.until(w.offers)
	for _, text := range []string{"nice", "nicer"} {
		w.write("shifty", text)
		_, err := w.call("lab__shift", `{}`)
		require.NoError(t, err)
		w.until(w.refuses)
		_, err = w.call("lab__shifty", `{}`)
		require.ErrorIs(t, err, fault.New(fault.ToolDisabled, ""))
		w.accept()
		w.until(w.offers)
		_, err = w.call("lab__shifty", `{}`)
		require.NoError(t, err)
	}
	assert.NotContains(t, w.log.String(), "mcp_watcher")
}

// A server may offer different definitions to two processes. Each blocks unaccepted ones, people see them, and the two do
// not overwrite each other's records forever.
func TestDifferentThingsToTwoProcesses(t *testing.T) {
	t.Parallel()
	one := &world{t: t, home: t.TempDir(), dir: t.TempDir(), log: &logtest.Buffer{}}
	two := &world{t: t, home: one.home, dir: t.TempDir(), log: &logtest.Buffer{}}
	two.write("shifty", "different")
	one.define("lab", map[string]any{"env": map[string]string{labVariable: "${LAB}"}})
	for _, w := range []*world{one, two} {
		w.open(watching, func(c *gateway.Config) {
			getenv := c.Servers.Getenv
			c.Servers.Getenv = func(name string) string {
				if name == "LAB" {
					return w.dir
				}
				return getenv(name)
			}
		})
		w.until(map[*world]func() bool{one: one.offers, two: two.refuses}[w])
	}
	assert.True(t, one.offers())

	writes := writesOf(t, filepath.Join(one.home, ".orch", "state", "mcp-tools"))
	two.accept()
	two.until(two.offers)
	one.until(one.refuses)
	one.accept()
	one.until(one.offers)
	two.until(two.refuses)
	waiting := slices.IndexFunc(one.Definitions("lab"), func(d gateway.Definition) bool { return d.Tool == "shifty" && d.Status == gateway.Changed })
	assert.NotEqual(t, -1, waiting)
	quietFor(t, writes, 2*time.Second)
}

// writesOf returns the file events of the records in a directory.
func writesOf(t *testing.T, dir string) <-chan fsnotify.Event {
	t.Helper()
	_, err := os.Stat(dir)
	require.NoError(t, err)
	watcher, err := fsnotify.NewBufferedWatcher(1000)
	require.NoError(t, err)
	require.NoError(t, watcher.Add(dir))
	t.Cleanup(func() { assert.NoError(t, watcher.Close()) })
	return watcher.Events
}

// quietFor waits until nothing happens to the records for a while; it does so soon.
func quietFor(t *testing.T, events <-chan fsnotify.Event, while time.Duration) {
	t.Helper()
	limit := time.After(patience)
	timer := time.NewTimer(while)
	defer timer.Stop()
	for {
		select {
		case <-events:
			timer.Reset(while)
		case <-timer.C:
			return
		case <-limit:
			require.Fail(t, "the records never come to rest")
		}
	}
}

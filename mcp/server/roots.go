package server

import (
	"context"
	"errors"
	"net/url"
	"path/filepath"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// clientAbilities returns the properties of a client that are stored with its task: the kinds of questions that it answers, its
// roots, and its session for subscriptions. It returns nil if all are empty.
func clientAbilities(asks, roots []string, session string) *events.Client {
	if len(asks) == 0 && len(roots) == 0 && session == "" {
		return nil
	}
	return &events.Client{Asks: asks, Roots: roots, Session: session}
}

// rootsTimeout is how long a client may take to return its roots.
const rootsTimeout = 10 * time.Second

// rootsOf returns the roots of a client of 2025-11-25, the directories that its calls are confined to (S2-050). It requests them
// at the first call of the session, and again after the client has reported a change.
func (n *connections) rootsOf(ctx context.Context, c client) ([]string, error) {
	if !c.roots || c.modern {
		return nil, nil
	}
	known := n.sessions.get(c.session.ID())
	known.mu.Lock()
	roots, fresh := known.roots, known.rooted
	known.mu.Unlock()
	if fresh {
		return roots, nil
	}
	ctx, stop := context.WithTimeout(ctx, rootsTimeout)
	defer stop()
	got, err := c.session.ListRoots(ctx, nil)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fault.New(fault.Timeout, "the client has not said its roots within %s", rootsTimeout).WithHint("answer roots/list, or do not declare roots")
	}
	if err != nil {
		return nil, err
	}
	roots = pathsOf(got.Roots)
	known.mu.Lock()
	known.roots, known.rooted = roots, true
	known.mu.Unlock()
	return roots, nil
}

// pathsOf returns the paths of roots with a file URI. It ignores all other roots.
func pathsOf(roots []*mcp.Root) []string {
	var paths []string
	for _, r := range roots {
		u, err := url.Parse(r.URI)
		if err != nil || u.Scheme != "file" || !filepath.IsAbs(u.Path) {
			continue
		}
		path := filepath.Clean(u.Path)
		if resolved, err := filepath.EvalSymlinks(path); err == nil {
			path = resolved
		}
		paths = append(paths, path)
	}
	return paths
}

// newRoots makes the next call request the roots of a session again.
func (n *connections) newRoots(_ context.Context, req *mcp.RootsListChangedRequest) {
	known := n.sessions.get(req.Session.ID())
	known.mu.Lock()
	defer known.mu.Unlock()
	known.rooted = false
}

package realtime

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/refusal"
	"github.com/orch-dev/orch/tools/firebase/tree"
)

// Read implements firebase.Backend. A query that selects nothing costs a second request, which tells
// whether there is anything at the path.
func (c *Client) Read(ctx context.Context, path string, q firebase.Query) (firebase.Snapshot, error) {
	at, err := tree.ParsePath(path)
	if err != nil {
		return firebase.Snapshot{}, err
	}
	if err := check(q); err != nil {
		return firebase.Snapshot{}, err
	}
	ctx, cancel, err := c.bounded(ctx)
	if err != nil {
		return firebase.Snapshot{}, err
	}
	defer cancel()
	switch {
	case q.Shallow:
		return c.shallow(ctx, at)
	case q.Selects():
		return c.selected(ctx, at, q)
	default:
		return c.whole(ctx, at)
	}
}

// check refuses what is no query.
func check(q firebase.Query) error {
	switch {
	case q.Shallow && q.Selects():
		return refusal.New(refusal.ValidationError, "a shallow read has no query").WithField("shallow")
	case q.Selects():
		var nothing *tree.Node
		_, _, err := nothing.Select(local(q))
		return err
	default:
		return nil
	}
}

// local returns a query as package tree understands it.
func local(q firebase.Query) tree.Query {
	return tree.Query{OrderBy: q.OrderBy, StartAt: q.StartAt, EndAt: q.EndAt, Limit: q.Limit}
}

// whole reads everything at a path, with its version.
func (c *Client) whole(ctx context.Context, at tree.Path) (firebase.Snapshot, error) {
	data, version, err := c.versioned(ctx, at, nil)
	if err != nil {
		return firebase.Snapshot{}, err
	}
	return firebase.Snapshot{Exists: data != nil, Data: data, Version: firebase.Version(version), At: c.cfg.Now()}, nil
}

func (c *Client) versioned(ctx context.Context, at tree.Path, query url.Values) (data any, version string, err error) {
	data, version, err = c.get(ctx, request{path: at, query: query, header: http.Header{"X-Firebase-Etag": {"true"}}})
	if err == nil && version == "" { // a write that depends on it would depend on nothing
		err = refusal.New(refusal.ConnectionError, "%s left out the version of what it sent", netguard.Endpoint(c.base)).
			WithHint("a server between here and the database may drop the header ETag")
	}
	return data, version, err
}

func (c *Client) shallow(ctx context.Context, at tree.Path) (firebase.Snapshot, error) {
	data, _, err := c.get(ctx, request{path: at, query: url.Values{"shallow": {"true"}}})
	if err != nil {
		return firebase.Snapshot{}, err
	}
	node, err := c.told(data)
	if err != nil {
		return firebase.Snapshot{}, err
	}
	return firebase.Snapshot{Exists: node != nil, Data: node.Shallow(), At: c.cfg.Now()}, nil
}

// told returns what the server sent as a tree.
func (c *Client) told(data any) (*tree.Node, error) {
	var nothing *tree.Node
	node, err := nothing.Told(nil, data)
	if err != nil {
		return nil, noDatabase(netguard.Endpoint(c.base))
	}
	return node, nil
}

func (c *Client) selected(ctx context.Context, at tree.Path, q firebase.Query) (firebase.Snapshot, error) {
	data, _, err := c.get(ctx, request{path: at, query: parameters(q)})
	if err != nil {
		return firebase.Snapshot{}, err
	}
	node, err := c.told(data)
	if err != nil {
		return firebase.Snapshot{}, err
	}
	left, found, err := node.Select(local(q))
	if err != nil {
		return firebase.Snapshot{}, err
	}
	s := firebase.Snapshot{Exists: node != nil, Data: left.Value(), At: c.cfg.Now()}
	for _, child := range found {
		s.Children = append(s.Children, firebase.Child{Key: child.Key, Data: child.Node.Value()})
	}
	if !s.Exists {
		keys, err := c.shallow(ctx, at)
		s.Exists = keys.Exists
		return s, err
	}
	return s, nil
}

// parameters returns a query as the protocol has it: values are JSON. Priorities are told on demand alone.
func parameters(q firebase.Query) url.Values {
	p := url.Values{"orderBy": {literal(q.OrderBy)}}
	if q.StartAt != nil {
		p.Set("startAt", literal(q.StartAt))
	}
	if q.EndAt != nil {
		p.Set("endAt", literal(q.EndAt))
	}
	if q.Limit != 0 {
		p.Set("limitToFirst", strconv.Itoa(q.Limit))
	}
	if q.OrderBy == tree.ByPriority {
		p.Set("format", "export")
	}
	return p
}

// literal returns a scalar as JSON.
func literal(value any) string {
	text, _ := json.Marshal(value) // a scalar, checked before
	return string(text)
}

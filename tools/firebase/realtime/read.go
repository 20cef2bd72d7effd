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

// Read implements firebase.Backend. After a query without results it sends a second request, to learn whether there is
// any data at the path.
func (c *Client) Read(ctx context.Context, path string, q firebase.Query) (firebase.Snapshot, error) {
	at, err := tree.ParsePath(path)
	if err != nil {
		return firebase.Snapshot{}, err
	}
	if err := checkQuery(q); err != nil {
		return firebase.Snapshot{}, err
	}
	ctx, cancel, err := c.withCallTimeout(ctx)
	if err != nil {
		return firebase.Snapshot{}, err
	}
	defer cancel()
	switch {
	case q.Shallow:
		return c.readKeys(ctx, at)
	case q.Selects():
		return c.readQuery(ctx, at, q)
	default:
		return c.readAll(ctx, at)
	}
}

// checkQuery returns VALIDATION_ERROR for an invalid query.
func checkQuery(q firebase.Query) error {
	switch {
	case q.Shallow && q.Selects():
		return refusal.New(refusal.ValidationError, "a shallow read has no query").WithField("shallow")
	case q.Selects():
		var empty *tree.Node
		_, _, err := empty.Select(treeQuery(q))
		return err
	default:
		return nil
	}
}

// treeQuery converts a query for package tree.
func treeQuery(q firebase.Query) tree.Query {
	return tree.Query{OrderBy: q.OrderBy, StartAt: q.StartAt, EndAt: q.EndAt, Limit: q.Limit}
}

// readAll reads all data at a path, with its version.
func (c *Client) readAll(ctx context.Context, at tree.Path) (firebase.Snapshot, error) {
	data, version, err := c.getVersioned(ctx, at, nil)
	if err != nil {
		return firebase.Snapshot{}, err
	}
	return firebase.Snapshot{Exists: data != nil, Data: data, Version: firebase.Version(version), At: c.cfg.Now()}, nil
}

// getVersioned reads JSON and its version. CONNECTION_ERROR if the response has no version.
func (c *Client) getVersioned(ctx context.Context, at tree.Path, query url.Values) (data any, version string, err error) {
	data, version, err = c.get(ctx, request{path: at, query: query, header: http.Header{"X-Firebase-Etag": {"true"}}})
	if err == nil && version == "" { // as Write.If, "" would make the write unconditional
		err = refusal.New(refusal.ConnectionError, "%s left out the version of what it sent", netguard.Endpoint(c.base)).
			WithHint("a server between here and the database may drop the header ETag")
	}
	return data, version, err
}

// readKeys reads only the keys at a path.
func (c *Client) readKeys(ctx context.Context, at tree.Path) (firebase.Snapshot, error) {
	data, _, err := c.get(ctx, request{path: at, query: url.Values{"shallow": {"true"}}})
	if err != nil {
		return firebase.Snapshot{}, err
	}
	node, err := c.parse(data)
	if err != nil {
		return firebase.Snapshot{}, err
	}
	return firebase.Snapshot{Exists: node != nil, Data: node.Shallow(), At: c.cfg.Now()}, nil
}

// parse converts a response to a tree.
func (c *Client) parse(data any) (*tree.Node, error) {
	var empty *tree.Node
	node, err := empty.Replace(nil, data)
	if err != nil {
		return nil, notDatabaseError(netguard.Endpoint(c.base))
	}
	return node, nil
}

// readQuery reads the children that a query selects.
func (c *Client) readQuery(ctx context.Context, at tree.Path, q firebase.Query) (firebase.Snapshot, error) {
	data, _, err := c.get(ctx, request{path: at, query: queryParameters(q)})
	if err != nil {
		return firebase.Snapshot{}, err
	}
	node, err := c.parse(data)
	if err != nil {
		return firebase.Snapshot{}, err
	}
	selected, found, err := node.Select(treeQuery(q))
	if err != nil {
		return firebase.Snapshot{}, err
	}
	s := firebase.Snapshot{Exists: node != nil, Data: selected.Value(), At: c.cfg.Now()}
	for _, child := range found {
		s.Children = append(s.Children, firebase.Child{Key: child.Key, Data: child.Node.Value()})
	}
	if !s.Exists {
		keys, err := c.readKeys(ctx, at)
		s.Exists = keys.Exists
		return s, err
	}
	return s, nil
}

// queryParameters encodes a query for the protocol, with values as JSON. For the order by priority it also requests the
// priorities, which the server omits otherwise.
func queryParameters(q firebase.Query) url.Values {
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
	text, _ := json.Marshal(value) // a scalar can always be encoded
	return string(text)
}

package realtime

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/refusal"
	"github.com/orch-dev/orch/tools/firebase/tree"
)

// Write implements firebase.Backend. It never sends a write twice: after a CONNECTION_ERROR it is unknown whether the
// write was applied.
func (c *Client) Write(ctx context.Context, path string, w firebase.Write) (firebase.Written, error) {
	to, err := tree.ParsePath(path)
	if err != nil {
		return firebase.Written{}, err
	}
	if err := checkWrite(to, w, c.cfg.Now()); err != nil {
		return firebase.Written{}, err
	}
	ctx, cancel, err := c.withCallTimeout(ctx)
	if err != nil {
		return firebase.Written{}, err
	}
	defer cancel()
	key, err := c.write(ctx, to, w)
	if err != nil {
		return firebase.Written{}, err
	}
	return firebase.Written{Key: key, At: c.cfg.Now()}, nil
}

// checkWrite returns an error for a write that no Realtime Database accepts.
func checkWrite(to tree.Path, w firebase.Write, now time.Time) (err error) {
	var empty *tree.Node
	switch {
	case w.Merge:
		return refusal.New(refusal.ValidationError, "merge is for Firestore").
			WithField("merge").WithHint("an update keeps the other children")
	case w.Operation == firebase.Push && w.If != "":
		return refusal.New(refusal.ValidationError, "a push cannot depend on a version").WithField("operation")
	}
	switch w.Operation {
	case firebase.Set:
		_, err = empty.Set(to, w.Data, now)
	case firebase.Push:
		_, err = empty.Set(to.Child(strings.Repeat("-", tree.KeyLength)), w.Data, now)
	case firebase.Update:
		_, err = empty.Update(to, w.Data, now)
	case firebase.Delete:
	default:
		err = refusal.New(refusal.ValidationError, "there is no operation %q", w.Operation).WithField("operation")
	}
	return err
}

// write sends a validated write. It returns the key of a push.
func (c *Client) write(ctx context.Context, to tree.Path, w firebase.Write) (key string, err error) {
	switch {
	case w.Operation == firebase.Push:
		return c.push(ctx, to, w.Data)
	case w.Operation == firebase.Delete:
		return "", c.send(ctx, http.MethodDelete, to, "", w.If)
	case w.Operation == firebase.Update && w.If != "":
		return "", c.updateIf(ctx, to, w)
	}
	body, err := encode(w.Data)
	if err != nil {
		return "", err
	}
	method := http.MethodPut
	if w.Operation == firebase.Update {
		method = http.MethodPatch
	}
	return "", c.send(ctx, method, to, body, w.If)
}

// send sends a write. It asks the server not to repeat the data in the response.
func (c *Client) send(ctx context.Context, method string, to tree.Path, body string, version firebase.Version) error {
	r := request{method: method, path: to, query: url.Values{"print": {"silent"}}, body: body}
	if version != "" {
		r.header = http.Header{"If-Match": {string(version)}}
	}
	_, err := c.do(ctx, r)
	return err
}

func encode(data any) (string, error) {
	body, err := json.Marshal(data)
	if err != nil {
		return "", refusal.New(refusal.InvalidDataType, "the data has no form in JSON").WithField("data")
	}
	return string(body), nil
}

// push creates a child and returns its key, which the server generates.
func (c *Client) push(ctx context.Context, to tree.Path, data any) (string, error) {
	body, err := encode(data)
	if err != nil {
		return "", err
	}
	res, err := c.do(ctx, request{method: http.MethodPost, path: to, body: body})
	if err != nil {
		return "", err
	}
	var created struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(res.Body, &created) != nil || created.Name == "" {
		return "", notDatabaseError(netguard.Endpoint(res.URL))
	}
	return created.Name, nil
}

// updateIf makes a conditional update. The protocol supports conditions only for writes that replace all data at the path.
// So updateIf reads the data with its priorities, applies the update, and writes all data.
func (c *Client) updateIf(ctx context.Context, to tree.Path, w firebase.Write) error {
	now, version, err := c.getVersioned(ctx, to, url.Values{"format": {"export"}})
	if err != nil {
		return err
	}
	if firebase.Version(version) != w.If {
		return conflictError()
	}
	changes, _ := w.Data.(map[string]any) // checkWrite has validated the data
	for name, value := range changes {
		now = graft(now, strings.Split(strings.TrimPrefix(name, "/"), "/"), value)
	}
	body, err := encode(now)
	if err != nil {
		return err
	}
	return c.send(ctx, http.MethodPut, to, body, w.If)
}

// graft stores a value at a path in exported JSON. It replaces scalars on the path.
func graft(data any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	object := asObject(data)
	object[path[0]] = graft(object[path[0]], path[1:], value)
	return object
}

// asObject returns exported JSON as an object that may be modified.
func asObject(data any) map[string]any {
	switch v := data.(type) {
	case map[string]any:
		delete(v, ".value") // the scalar is replaced, its priority remains
		return v
	case []any:
		object := make(map[string]any, len(v))
		for i, value := range slices.All(v) {
			object[strconv.Itoa(i)] = value
		}
		return object
	default:
		return map[string]any{}
	}
}

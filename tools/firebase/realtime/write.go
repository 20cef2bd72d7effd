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

// Write implements firebase.Backend. Nothing is sent twice: after a CONNECTION_ERROR the write may have
// happened or not.
func (c *Client) Write(ctx context.Context, path string, w firebase.Write) (firebase.Written, error) {
	to, err := tree.ParsePath(path)
	if err != nil {
		return firebase.Written{}, err
	}
	if err := allowed(to, w, c.cfg.Now()); err != nil {
		return firebase.Written{}, err
	}
	ctx, cancel, err := c.bounded(ctx)
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

// allowed refuses what no Realtime Database does.
func allowed(to tree.Path, w firebase.Write, now time.Time) (err error) {
	var nothing *tree.Node
	switch {
	case w.Merge:
		return refusal.New(refusal.ValidationError, "merge is for Firestore").
			WithField("merge").WithHint("an update keeps the other children")
	case w.Operation == firebase.Push && w.If != "":
		return refusal.New(refusal.ValidationError, "a push depends on no version").WithField("operation")
	}
	switch w.Operation {
	case firebase.Set:
		_, err = nothing.Set(to, w.Data, now)
	case firebase.Push:
		_, err = nothing.Set(to.Child(strings.Repeat("-", tree.KeyLength)), w.Data, now)
	case firebase.Update:
		_, err = nothing.Update(to, w.Data, now)
	case firebase.Delete:
	default:
		err = refusal.New(refusal.ValidationError, "there is no operation %q", w.Operation).WithField("operation")
	}
	return err
}

func (c *Client) write(ctx context.Context, to tree.Path, w firebase.Write) (key string, err error) {
	switch {
	case w.Operation == firebase.Push:
		return c.push(ctx, to, w.Data)
	case w.Operation == firebase.Delete:
		return "", c.change(ctx, http.MethodDelete, to, "", w.If)
	case w.Operation == firebase.Update && w.If != "":
		return "", c.updateIf(ctx, to, w)
	}
	body, err := encoded(w.Data)
	if err != nil {
		return "", err
	}
	method := http.MethodPut
	if w.Operation == firebase.Update {
		method = http.MethodPatch
	}
	return "", c.change(ctx, method, to, body, w.If)
}

// change makes a request whose answer need not repeat what it wrote.
func (c *Client) change(ctx context.Context, method string, to tree.Path, body string, when firebase.Version) error {
	r := request{method: method, path: to, query: url.Values{"print": {"silent"}}, body: body}
	if when != "" {
		r.header = http.Header{"If-Match": {string(when)}}
	}
	_, err := c.do(ctx, r)
	return err
}

func encoded(data any) (string, error) {
	body, err := json.Marshal(data)
	if err != nil {
		return "", refusal.New(refusal.InvalidDataType, "the data has no form in JSON").WithField("data")
	}
	return string(body), nil
}

// push lets the server make the key.
func (c *Client) push(ctx context.Context, to tree.Path, data any) (string, error) {
	body, err := encoded(data)
	if err != nil {
		return "", err
	}
	res, err := c.do(ctx, request{method: http.MethodPost, path: to, body: body})
	if err != nil {
		return "", err
	}
	var made struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(res.Body, &made) != nil || made.Name == "" {
		return "", noDatabase(netguard.Endpoint(res.URL))
	}
	return made.Name, nil
}

// updateIf makes an update that depends on a version. The protocol has conditions for a write of the whole
// path alone, so that is what is written, with the priorities that are there.
func (c *Client) updateIf(ctx context.Context, to tree.Path, w firebase.Write) error {
	now, version, err := c.versioned(ctx, to, url.Values{"format": {"export"}})
	if err != nil {
		return err
	}
	if firebase.Version(version) != w.If {
		return changedMeanwhile()
	}
	changes, _ := w.Data.(map[string]any) // allowed has seen it
	for name, value := range changes {
		now = graft(now, strings.Split(strings.TrimPrefix(name, "/"), "/"), value)
	}
	body, err := encoded(now)
	if err != nil {
		return err
	}
	return c.change(ctx, http.MethodPut, to, body, w.If)
}

// graft puts a value at a path into exported JSON. What is no object on the way gives way.
func graft(data any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	object := children(data)
	object[path[0]] = graft(object[path[0]], path[1:], value)
	return object
}

// children returns exported JSON as an object that may be changed.
func children(data any) map[string]any {
	switch v := data.(type) {
	case map[string]any:
		delete(v, ".value") // a scalar gives way; its priority stays
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

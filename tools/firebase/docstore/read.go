package docstore

import (
	"context"
	"errors"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/document"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// missing is the version of a document that does not exist.
const missing firebase.Version = "none"

// versionOf returns the version of a document: the time of its last change.
func versionOf(d *firestore.DocumentSnapshot) firebase.Version {
	if !d.Exists() {
		return missing
	}
	return firebase.Version(d.UpdateTime.UTC().Format(time.RFC3339Nano))
}

// Read implements firebase.Backend. A query has no meaning for a document and is passed over. A query that
// selects nothing costs a second request, which tells whether the collection has documents.
func (c *Client) Read(ctx context.Context, path string, q firebase.Query) (firebase.Snapshot, error) {
	at, err := document.ParsePath(path)
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
	if at.IsDocument() {
		return c.document(ctx, at)
	}
	return c.collection(ctx, at, q)
}

// check refuses what is no query.
func check(q firebase.Query) error {
	if q.Shallow {
		return refusal.New(refusal.ValidationError, "shallow is for the Realtime Database").WithField("shallow")
	}
	_, err := document.Select(nil, document.Query{OrderBy: q.OrderBy, StartAt: q.StartAt, EndAt: q.EndAt, Limit: q.Limit})
	return err
}

func (c *Client) document(ctx context.Context, at document.Path) (firebase.Snapshot, error) {
	d, err := c.get(ctx, at)
	if err != nil {
		return firebase.Snapshot{}, err
	}
	return c.one(d), nil
}

// get reads a document. One that does not exist is no error.
func (c *Client) get(ctx context.Context, at document.Path) (*firestore.DocumentSnapshot, error) {
	d, err := c.client.Doc(at.String()).Get(ctx)
	if status.Code(err) == codes.NotFound && d != nil {
		return d, nil
	}
	if err != nil {
		return nil, c.unread(ctx, err)
	}
	return d, nil
}

// one is the snapshot of a document.
func (c *Client) one(d *firestore.DocumentSnapshot) firebase.Snapshot {
	return firebase.Snapshot{Exists: d.Exists(), Data: value(contents(d)), Version: versionOf(d), At: c.cfg.Now()}
}

func (c *Client) collection(ctx context.Context, at document.Path, q firebase.Query) (firebase.Snapshot, error) {
	found, err := c.selected(ctx, c.query(at, q))
	if err != nil {
		return firebase.Snapshot{}, err
	}
	exists := len(found) > 0
	if !exists && q.Selects() {
		some, err := c.selected(ctx, c.client.Collection(at.String()).Limit(1))
		if err != nil {
			return firebase.Snapshot{}, err
		}
		exists = len(some) > 0
	}
	return c.many(found, exists), nil
}

// query returns a query in the form of the library.
func (c *Client) query(at document.Path, q firebase.Query) firestore.Query {
	found := c.client.Collection(at.String()).Query
	switch q.OrderBy {
	case "":
	case document.ByID:
		found = found.OrderBy(firestore.DocumentID, firestore.Asc)
	default:
		found = found.OrderByPath(strings.Split(q.OrderBy, "."), firestore.Asc)
	}
	if q.StartAt != nil {
		found = found.StartAt(q.StartAt)
	}
	if q.EndAt != nil {
		found = found.EndAt(q.EndAt)
	}
	if q.Limit > 0 {
		found = found.Limit(q.Limit)
	}
	return found
}

// selected reads the documents of a query.
func (c *Client) selected(ctx context.Context, q firestore.Query) (found []document.Document, err error) {
	documents := q.Documents(ctx)
	defer documents.Stop()
	for size := 0; ; {
		d, err := documents.Next()
		if errors.Is(err, iterator.Done) {
			return found, nil
		}
		if err != nil {
			return nil, c.unread(ctx, err)
		}
		f := contents(d)
		if size += f.Size(nil); size > c.cfg.MaxAnswer {
			return nil, tooLarge(c.cfg.MaxAnswer)
		}
		found = append(found, document.Document{ID: d.Ref.ID, Fields: f})
	}
}

// many is the snapshot of a collection.
func (c *Client) many(found []document.Document, exists bool) firebase.Snapshot {
	s := firebase.Snapshot{Exists: exists, At: c.cfg.Now()}
	byID := make(map[string]any, len(found))
	for _, d := range found {
		byID[d.ID] = d.Fields.Value()
		s.Children = append(s.Children, firebase.Child{Key: d.ID, Data: d.Fields.Value()})
	}
	if exists {
		s.Data = byID
	}
	return s
}

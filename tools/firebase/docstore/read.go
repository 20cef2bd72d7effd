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

// missingVersion is the version of a document that does not exist.
const missingVersion firebase.Version = "none"

// versionOf returns the version of a document: the time of its last change.
func versionOf(d *firestore.DocumentSnapshot) firebase.Version {
	if !d.Exists() {
		return missingVersion
	}
	return firebase.Version(d.UpdateTime.UTC().Format(time.RFC3339Nano))
}

// Read implements firebase.Backend. It ignores a query for a document. A query without results needs a second
// request, to find out whether the collection has documents.
func (c *Client) Read(ctx context.Context, path string, q firebase.Query) (firebase.Snapshot, error) {
	at, err := document.ParsePath(path)
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
	if at.IsDocument() {
		return c.document(ctx, at)
	}
	return c.collection(ctx, at, q)
}

// checkQuery rejects an invalid query.
func checkQuery(q firebase.Query) error {
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
	return c.documentSnapshot(d), nil
}

// get reads a document. A missing document is not an error.
func (c *Client) get(ctx context.Context, at document.Path) (*firestore.DocumentSnapshot, error) {
	d, err := c.client.Doc(at.String()).Get(ctx)
	if status.Code(err) == codes.NotFound && d != nil {
		return d, nil
	}
	if err != nil {
		return nil, c.readError(ctx, err)
	}
	return d, nil
}

// documentSnapshot returns the snapshot of a document.
func (c *Client) documentSnapshot(d *firestore.DocumentSnapshot) firebase.Snapshot {
	return firebase.Snapshot{Exists: d.Exists(), Data: dataOf(fieldsOf(d)), Version: versionOf(d), At: c.cfg.Now()}
}

// collection reads the documents of a collection that a query selects.
func (c *Client) collection(ctx context.Context, at document.Path, q firebase.Query) (firebase.Snapshot, error) {
	found, err := c.runQuery(ctx, c.query(at, q))
	if err != nil {
		return firebase.Snapshot{}, err
	}
	exists := len(found) > 0
	if !exists && q.Selects() {
		some, err := c.runQuery(ctx, c.client.Collection(at.String()).Limit(1))
		if err != nil {
			return firebase.Snapshot{}, err
		}
		exists = len(some) > 0
	}
	return c.collectionSnapshot(found, exists), nil
}

// query converts a query for the library.
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

// runQuery reads the documents of a query.
func (c *Client) runQuery(ctx context.Context, q firestore.Query) (found []document.Document, err error) {
	documents := q.Documents(ctx)
	defer documents.Stop()
	for size := 0; ; {
		d, err := documents.Next()
		if errors.Is(err, iterator.Done) {
			return found, nil
		}
		if err != nil {
			return nil, c.readError(ctx, err)
		}
		f := fieldsOf(d)
		if size += f.Size(nil); size > c.cfg.MaxAnswer {
			return nil, tooLarge(c.cfg.MaxAnswer)
		}
		found = append(found, document.Document{ID: d.Ref.ID, Fields: f})
	}
}

// collectionSnapshot returns the snapshot of a collection.
func (c *Client) collectionSnapshot(found []document.Document, exists bool) firebase.Snapshot {
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

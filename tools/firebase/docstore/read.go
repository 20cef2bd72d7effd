package docstore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/document"
	"github.com/orch-dev/orch/tools/firebase/refusal"
	"github.com/orch-dev/orch/tools/firebase/wire"
)

// missingVersion is the version of a document that does not exist.
const missingVersion firebase.Version = "none"

// versionOf returns the version of a document, which is the time of its last change.
func versionOf(d *wire.Document) firebase.Version {
	if d == nil {
		return missingVersion
	}
	return firebase.Version(d.Updated.Format(time.RFC3339Nano))
}

// fieldsOf returns the fields of a document, nil if it does not exist.
func fieldsOf(d *wire.Document) document.Fields {
	if d == nil {
		return nil
	}
	return d.Fields
}

// sizeOf returns the size of a document in bytes, 0 if it does not exist.
func sizeOf(d *wire.Document) int {
	if d == nil {
		return 0
	}
	return fieldsOf(d).Size(nil)
}

// dataOf returns a copy of fields as the data of a snapshot or an event, nil for nil fields.
func dataOf(f document.Fields) any {
	if f == nil {
		return nil
	}
	return f.Value()
}

// idOf returns the id of a document with a full name.
func idOf(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// Read implements firebase.Backend. It ignores q if the path is that of a document. After a query without results it
// sends a second request, to learn whether the collection has documents.
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

// checkQuery returns VALIDATION_ERROR for an invalid query.
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

// get reads a document. It returns nil for a missing document.
func (c *Client) get(ctx context.Context, at document.Path) (*wire.Document, error) {
	name := c.documentName(at)
	call := c.call("BatchGetDocuments", "database", c.databaseName(), wire.Get(c.databaseName(), name))
	var d *wire.Document
	err := repeated(ctx, func() error {
		answer, err := c.conn.One(ctx, call)
		if err != nil {
			return err
		}
		found, gone, err := wire.ReadGet(answer)
		if err == nil && gone != name && (found == nil || found.Name != name) {
			err = errAnswer
		}
		d = found
		return err
	})
	if err != nil {
		return nil, c.readError(ctx, err)
	}
	return d, nil
}

// documentSnapshot returns the snapshot of a document.
func (c *Client) documentSnapshot(d *wire.Document) firebase.Snapshot {
	return firebase.Snapshot{Exists: d != nil, Data: dataOf(fieldsOf(d)), Version: versionOf(d), At: c.cfg.Now()}
}

// collection reads the documents of a collection that a query selects.
func (c *Client) collection(ctx context.Context, at document.Path, q firebase.Query) (firebase.Snapshot, error) {
	found, err := c.runQuery(ctx, c.query(at, q))
	if err != nil {
		return firebase.Snapshot{}, err
	}
	exists := len(found) > 0
	if !exists && q.Selects() {
		some, err := c.runQuery(ctx, c.query(at, firebase.Query{Limit: 1}))
		if err != nil {
			return firebase.Snapshot{}, err
		}
		exists = len(some) > 0
	}
	return c.collectionSnapshot(found, exists), nil
}

// query converts a query for the protocol.
func (c *Client) query(at document.Path, q firebase.Query) wire.Query {
	query := wire.Query{Parent: c.documentName(at.Parent()), Collection: at.ID(), StartAt: q.StartAt, EndAt: q.EndAt, Limit: q.Limit}
	switch q.OrderBy {
	case "":
	case document.ByID:
		query.OrderBy = document.ByID
		query.StartAt, query.EndAt = c.bound(at, q.StartAt), c.bound(at, q.EndAt)
	default:
		query.OrderBy = quotedPath(q.OrderBy)
	}
	return query
}

// bound returns the bound of a query by ids, nil if there is none.
func (c *Client) bound(at document.Path, id any) any {
	text, ok := id.(string)
	if !ok {
		return nil
	}
	return wire.Reference(c.documentName(at) + "/" + text)
}

// runQuery reads the documents of a query.
func (c *Client) runQuery(ctx context.Context, q wire.Query) (found []document.Document, err error) {
	call := c.call("RunQuery", "parent", q.Parent, wire.RunQuery(q))
	err = repeated(ctx, func() error {
		size := 0
		found = nil
		return c.answers(ctx, call, func(answer []byte) error {
			d, err := wire.ReadQuery(answer)
			if d == nil || err != nil {
				return err
			}
			f := fieldsOf(d)
			if size += f.Size(nil); size > c.cfg.MaxAnswer {
				return errTooMuch
			}
			found = append(found, document.Document{ID: idOf(d.Name), Fields: f})
			return nil
		})
	})
	switch {
	case errors.Is(err, errTooMuch):
		return nil, tooLarge(c.cfg.MaxAnswer)
	case err != nil:
		return nil, c.readError(ctx, err)
	default:
		return found, nil
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

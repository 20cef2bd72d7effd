// Package firebase defines the firebase.* tools of the S3 rules, and the Backend interface of the databases behind them.
// Package tree contains the semantics of the Realtime Database, package document the semantics of Firestore, and package
// firebasetest the conformance tests for backends.
package firebase

import (
	"context"
	"iter"
	"time"
)

// Database is the name of a database in the inputs of the tools.
type Database string

// The databases (S3-020).
const (
	Realtime  Database = "realtime"
	Firestore Database = "firestore"
)

// Operation is the kind of a write.
type Operation string

// The operations (S3-031).
const (
	Set    Operation = "set"
	Update Operation = "update"
	Push   Operation = "push"
	Delete Operation = "delete"
)

// EventType is a type of events that a watch reports.
type EventType string

// The types of events (S3-040). Value is for both databases, the child events are for the Realtime Database, and the
// document events for Firestore.
const (
	Value            EventType = "value"
	ChildAdded       EventType = "child_added"
	ChildChanged     EventType = "child_changed"
	ChildRemoved     EventType = "child_removed"
	DocumentAdded    EventType = "document_added"
	DocumentModified EventType = "document_modified"
	DocumentDeleted  EventType = "document_deleted"
)

// Backend is one database: a Realtime Database or a Firestore. Data is JSON as encoding/json decodes it into an any.
// The caller may modify the data that it has received or passed in. All methods are safe for concurrent use and return
// when their context ends.
//
// Errors have the reasons of package refusal. Every method may return INVALID_PATH, PERMISSION_DENIED, QUOTA_EXCEEDED
// and CONNECTION_ERROR, besides the errors in its own comment.
type Backend interface {
	// Read returns the data at a path. A path without data is not an error: Snapshot.Exists is false. Errors:
	// VALIDATION_ERROR for an invalid query.
	Read(ctx context.Context, path string, q Query) (Snapshot, error)
	// Write changes the data at a path atomically, and returns when the change is as durable as the backend
	// guarantees. Errors: CONFLICT when Write.If does not match, NOT_FOUND for the update of a missing document,
	// INVALID_DATA_TYPE, SIZE_LIMIT_EXCEEDED, VALIDATION_ERROR.
	Write(ctx context.Context, path string, w Write) (Written, error)
	// Watch starts to watch for events of one type at a path and below it, until the context ends. Errors:
	// VALIDATION_ERROR for a type that the database or the path does not support.
	Watch(ctx context.Context, path string, events EventType) (Watching, error)
}

// Query selects the data to read. The zero value reads everything.
type Query struct {
	// OrderBy is the key by which the children or documents are sorted: the name of a child or field, or in the
	// Realtime Database $key, $value or $priority, in Firestore __name__.
	OrderBy string
	// StartAt and EndAt are inclusive bounds of the sort key: bool, float64 or string; nil for none.
	StartAt, EndAt any
	// Limit is the maximum number of children or documents; 0 means no limit.
	Limit int
	// Shallow reads only the keys at the path (Realtime Database, without a query).
	Shallow bool
}

// Selects reports whether the query sorts, bounds or limits the result.
func (q Query) Selects() bool {
	return q.OrderBy != "" || q.StartAt != nil || q.EndAt != nil || q.Limit != 0
}

// Version identifies the content of a path at one moment; a path without data has a version too. It is opaque, and ""
// means that there is no version.
type Version string

// Snapshot is the data at a path at one moment.
type Snapshot struct {
	// Exists distinguishes data from null and from a missing document. A collection exists while it has documents.
	Exists bool
	// Data is the content: JSON of the Realtime Database, the fields of a document, or the documents of a collection
	// by id. For a query it contains only the selected data.
	Data any
	// Children are the children that a query selects, or the documents of a collection, in order.
	Children []Child
	// Version is the version of the data, for Write.If. It is "" for a query, a shallow read, a collection, and the
	// initial snapshot of a watch of a remote Realtime Database.
	Version Version
	// At is the time of the snapshot.
	At time.Time
}

// Child is a child or a document with its key.
type Child struct {
	Key  string
	Data any
}

// Write is a change of the data at a path.
type Write struct {
	// Operation determines how Data is used; Delete ignores it.
	Operation Operation
	// Data is the data to write.
	Data any
	// Merge makes a Set of a document preserve the fields that Data does not contain (Firestore).
	Merge bool
	// If makes the write conditional on the version of the path; "" means no condition. It must be "" for a Push.
	If Version
}

// Written is the result of a write.
type Written struct {
	// Key is the key of the new child or document after a Push.
	Key string
	// At is the time of the write.
	At time.Time
}

// Watching is a running watch.
type Watching struct {
	// Initial is the data at the path when the watch started.
	Initial Snapshot
	// Events are the events after Initial, in the order of the writes. A write that changes nothing causes no event. The
	// sequence can be iterated once. It ends after an error. It also ends when the context ends, without yielding the
	// error of the context. When the reader is too far behind, it ends with QUOTA_EXCEEDED, and later events are lost.
	Events iter.Seq2[Event, error]
}

// Event is one event of a watch.
type Event struct {
	Type EventType
	// Key is the key of the child or document, "" for Value.
	Key string
	// Data is the data after the write, or before it for a removed child or document.
	Data any
	// Previous is the data before the write, nil if there was none.
	Previous any
	// At is the time of the write.
	At time.Time
}

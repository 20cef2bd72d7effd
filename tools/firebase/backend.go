// Package firebase is what orch knows of Firebase: the port that every database behind the firebase.*
// tools of seed 003 implements. Package tree holds the semantics of the Realtime Database, package
// document those of Firestore, package firebasetest the kits that every backend passes.
package firebase

import (
	"context"
	"iter"
	"time"
)

// Database names a database in the inputs of the tools.
type Database string

// The databases (S3-020).
const (
	Realtime  Database = "realtime"
	Firestore Database = "firestore"
)

// Operation is what a write does.
type Operation string

// The operations (S3-031).
const (
	Set    Operation = "set"
	Update Operation = "update"
	Push   Operation = "push"
	Delete Operation = "delete"
)

// EventType is what a watcher wants to learn.
type EventType string

// The types of events (S3-040): Value is for both databases, child events are for the Realtime Database,
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

// Backend is one database: a Realtime Database or a Firestore. Data is JSON as encoding/json decodes it
// into an any; the caller may change what it gets and what it gave. All methods are safe for concurrent
// use and end with their context.
//
// Errors are of package refusal: INVALID_PATH, PERMISSION_DENIED, QUOTA_EXCEEDED and CONNECTION_ERROR from
// every method, and those that the methods name.
type Backend interface {
	// Read returns what is at a path. A path with nothing at it is no error: Snapshot.Exists is false.
	// Errors: VALIDATION_ERROR for a query that is none.
	Read(ctx context.Context, path string, q Query) (Snapshot, error)
	// Write changes what is at a path, entirely or not at all, and returns when the change is durable as
	// far as the backend promises. Errors: CONFLICT when Write.If does not hold, NOT_FOUND for the update
	// of a missing document, INVALID_DATA_TYPE, SIZE_LIMIT_EXCEEDED, VALIDATION_ERROR.
	Write(ctx context.Context, path string, w Write) (Written, error)
	// Watch begins to listen for events of one type at a path and below it. It lasts until the context
	// ends. Errors: VALIDATION_ERROR for a type that the database or the path does not have.
	Watch(ctx context.Context, path string, events EventType) (Watching, error)
}

// Query says what to read. The zero value reads everything.
type Query struct {
	// OrderBy is what the children or documents are ordered by: the name of a child or field, or in the
	// Realtime Database also $key, $value and $priority, in Firestore __name__.
	OrderBy string
	// StartAt and EndAt are inclusive bounds of what is ordered by: bool, float64 or string; nil is none.
	StartAt, EndAt any
	// Limit is the greatest number of children or documents; 0 is no limit.
	Limit int
	// Shallow asks for the keys at the path alone (Realtime Database, without a query).
	Shallow bool
}

// Selects reports whether the query orders, bounds or limits.
func (q Query) Selects() bool {
	return q.OrderBy != "" || q.StartAt != nil || q.EndAt != nil || q.Limit != 0
}

// Version stands for the content of a path at one moment, also for its absence. It is opaque, and "" is
// no version.
type Version string

// Snapshot is what was at a path at one moment.
type Snapshot struct {
	// Exists tells null and a missing document from data. A collection exists while it has documents.
	Exists bool
	// Data is the content: JSON of the Realtime Database, the fields of a document, or the documents of a
	// collection by id. After a query it holds what was selected.
	Data any
	// Children are what a query selected, and the documents of a collection, in their order.
	Children []Child
	// Version is for Write.If; "" after a query, for the keys alone, for a collection, and where a remote
	// Realtime Database tells what a watch began with.
	Version Version
	// At is the time of the snapshot.
	At time.Time
}

// Child is a child or a document with its key.
type Child struct {
	Key  string
	Data any
}

// Write is a change of what is at a path.
type Write struct {
	// Operation says how Data is used; Delete uses none.
	Operation Operation
	// Data is what to write.
	Data any
	// Merge makes a Set of a document keep the fields that Data does not name (Firestore).
	Merge bool
	// If makes the write depend on the version of the path: nothing is written when it has changed. "" is
	// no condition. A Push has none.
	If Version
}

// Written is the answer to a write.
type Written struct {
	// Key is that of the new child or document after a Push.
	Key string
	// At is the time of the write.
	At time.Time
}

// Watching is a running watch.
type Watching struct {
	// Initial is what was at the path when the watch began.
	Initial Snapshot
	// Events are the later events in the order of the writes; a write that changes nothing has none. They
	// are ranged over once, and end after an error or with the context, whose error is not yielded.
	// QUOTA_EXCEEDED ends the events of a reader that fell too far behind: all up to a point came, and
	// the rest is lost.
	Events iter.Seq2[Event, error]
}

// Event is one event of a watch.
type Event struct {
	Type EventType
	// Key is that of the child or document, "" for Value.
	Key string
	// Data is what is there after the write, and for a removed child or document what was there before.
	Data any
	// Previous is what was there before the write, nil if nothing was.
	Previous any
	// At is the time of the write.
	At time.Time
}

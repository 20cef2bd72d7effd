package wire

import (
	"math"
	"time"
)

// Document is a document with its full name.
type Document struct {
	Name   string
	Fields map[string]any
	// Updated is the time of the last change of the document.
	Updated time.Time
}

// Write is one write: it stores the document Update or, if Delete is not empty, deletes the document of that name.
type Write struct {
	Update Document
	Delete string
	// Mask contains field paths. If Masked is set, Update changes only these fields.
	Mask   []string
	Masked bool
	// If is the condition of the write.
	If Precondition
}

// Precondition is the condition of a write. The zero value is no condition.
type Precondition struct {
	// Exists requires that the document exists, Missing that it does not. Unchanged, if not zero, requires that the
	// document was last changed at that time.
	Exists, Missing bool
	Unchanged       time.Time
}

// The fields of CommitRequest, Write, DocumentMask and Precondition.
const (
	commitDatabase = 1<<3 | bytes
	commitWrite    = 2<<3 | bytes

	writeUpdate       = 1<<3 | bytes
	writeDelete       = 2<<3 | bytes
	writeMask         = 3<<3 | bytes
	writePrecondition = 4<<3 | bytes

	maskPath = 1<<3 | bytes

	conditionExists = 1<<3 | varint
	conditionTime   = 2<<3 | bytes
)

// The fields of Document.
const (
	documentName    = 1<<3 | bytes
	documentField   = 2<<3 | bytes
	documentUpdated = 4<<3 | bytes
)

// Commit returns the request to make a write.
func Commit(database string, w Write) []byte {
	var write message
	if w.Delete != "" {
		write = write.text(writeDelete, w.Delete)
	} else {
		write = write.bytes(writeUpdate, entries(message(nil).text(documentName, w.Update.Name), documentField, w.Update.Fields))
	}
	if w.Masked {
		var mask message
		for _, path := range w.Mask {
			mask = mask.text(maskPath, path)
		}
		write = write.bytes(writeMask, mask)
	}
	switch {
	case w.If.Exists, w.If.Missing:
		write = write.bytes(writePrecondition, message(nil).boolean(conditionExists, w.If.Exists))
	case !w.If.Unchanged.IsZero():
		write = write.bytes(writePrecondition, message(nil).bytes(conditionTime, timestamp(w.If.Unchanged)))
	}
	return message(nil).text(commitDatabase, database).bytes(commitWrite, write)
}

// The fields of BatchGetDocumentsRequest.
const (
	getDatabase = 1<<3 | bytes
	getDocument = 2<<3 | bytes
)

// Get returns the request to read a document.
func Get(database, name string) []byte {
	return message(nil).text(getDatabase, database).text(getDocument, name)
}

// Query selects the documents of a collection.
type Query struct {
	// Parent is the full name of the parent of the collection, Collection the id of the collection.
	Parent, Collection string
	// OrderBy is the path of a field; "" orders by name.
	OrderBy string
	// StartAt and EndAt are inclusive bounds of the values at OrderBy: bool, float64, string or Reference; nil means no
	// bound.
	StartAt, EndAt any
	// Limit is the maximum number of documents; 0 means no limit.
	Limit int
}

// The fields of RunQueryRequest (which are also those of QueryTarget), StructuredQuery, and the messages in them.
const (
	queryParent     = 1<<3 | bytes
	queryStructured = 2<<3 | bytes

	queryFrom    = 2<<3 | bytes
	queryOrderBy = 4<<3 | bytes
	queryLimit   = 5<<3 | bytes
	queryStartAt = 7<<3 | bytes
	queryEndAt   = 8<<3 | bytes

	fromCollection = 2<<3 | bytes

	orderField     = 1<<3 | bytes
	orderDirection = 2<<3 | varint
	ascending      = 1
	fieldPath      = 2<<3 | bytes

	cursorValue  = 1<<3 | bytes
	cursorBefore = 2<<3 | varint

	limitValue = 1<<3 | varint // the value in the Int32Value that contains a limit
)

// RunQuery returns the request to run a query.
func RunQuery(q Query) []byte { return q.message() }

func (q Query) message() message {
	query := message(nil).bytes(queryFrom, message(nil).text(fromCollection, q.Collection))
	if q.OrderBy != "" {
		order := message(nil).bytes(orderField, message(nil).text(fieldPath, q.OrderBy)).number(orderDirection, ascending)
		query = query.bytes(queryOrderBy, order)
	}
	if q.Limit > 0 {
		query = query.bytes(queryLimit, message(nil).number(limitValue, uint64(min(q.Limit, math.MaxInt32))))
	}
	if q.StartAt != nil {
		query = query.bytes(queryStartAt, message(nil).bytes(cursorValue, encodeValue(q.StartAt)).boolean(cursorBefore, true))
	}
	if q.EndAt != nil {
		query = query.bytes(queryEndAt, message(nil).bytes(cursorValue, encodeValue(q.EndAt)))
	}
	return message(nil).text(queryParent, q.Parent).bytes(queryStructured, query)
}

// Target selects the documents that a client listens to: the document with the name Document or, if that is empty, the
// documents of Query.
type Target struct {
	ID       int32
	Document string
	Query    Query
	// Resume is the token of the point at which to resume; nil requests the complete state.
	Resume []byte
}

// The fields of ListenRequest, Target and DocumentsTarget.
const (
	listenDatabase = 1<<3 | bytes
	listenAdd      = 2<<3 | bytes

	targetQuery     = 2<<3 | bytes
	targetDocuments = 3<<3 | bytes
	targetResume    = 4<<3 | bytes
	targetID        = 5<<3 | varint

	documentsName = 2<<3 | bytes
)

// Listen returns the request to listen to a target.
func Listen(database string, t Target) []byte {
	var target message
	if t.Document != "" {
		target = target.bytes(targetDocuments, message(nil).text(documentsName, t.Document))
	} else {
		target = target.bytes(targetQuery, t.Query.message())
	}
	if len(t.Resume) > 0 {
		target = target.bytes(targetResume, t.Resume)
	}
	target = target.number(targetID, uint64(t.ID)) //nolint:gosec // ids are positive
	return message(nil).text(listenDatabase, database).bytes(listenAdd, target)
}

package docstore

import (
	"context"
	"crypto/rand"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/document"
	"github.com/orch-dev/orch/tools/firebase/refusal"
	"github.com/orch-dev/orch/tools/firebase/wire"
)

// Write implements firebase.Backend. It sends a write a second time only if the server promised that it did not look at the
// first request. After a CONNECTION_ERROR it is unknown whether the write was applied.
func (c *Client) Write(ctx context.Context, path string, w firebase.Write) (firebase.Written, error) {
	to, err := document.ParsePath(path)
	if err != nil {
		return firebase.Written{}, err
	}
	if err := checkWrite(to, w); err != nil {
		return firebase.Written{}, err
	}
	written := firebase.Written{}
	if w.Operation == firebase.Push {
		written.Key = newID()
		to = to.Child(written.Key)
	}
	write, err := c.prepare(to, w)
	if err != nil {
		return firebase.Written{}, err
	}
	ctx, cancel, err := c.withCallTimeout(ctx)
	if err != nil {
		return firebase.Written{}, err
	}
	defer cancel()
	if w.Operation == firebase.Update && w.If == missingVersion {
		return firebase.Written{}, c.updateMissing(ctx, to)
	}
	written.At, err = c.commit(ctx, write)
	return written, c.writeError(err, to, w)
}

// checkWrite returns an error for an operation that a document or a collection does not support.
func checkWrite(to document.Path, w firebase.Write) error {
	switch w.Operation {
	case firebase.Set, firebase.Update, firebase.Delete:
		if !to.IsDocument() {
			return refusal.New(refusal.InvalidPath, "the path is that of a collection, %s takes a document", w.Operation).WithField("path")
		}
	case firebase.Push:
		if to.IsDocument() {
			return refusal.New(refusal.InvalidPath, "the path is that of a document, push takes a collection").WithField("path")
		}
		if w.If != "" {
			return refusal.New(refusal.ValidationError, "a push depends on no version").WithField("operation")
		}
	default:
		return refusal.New(refusal.ValidationError, "there is no operation %q", w.Operation).WithField("operation")
	}
	if w.Merge && w.Operation != firebase.Set {
		return refusal.New(refusal.ValidationError, "merge is for set").WithField("merge")
	}
	return nil
}

// newID returns the id of a new document: 20 letters and digits, as the Google libraries generate them.
func newID() string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	id := make([]byte, 0, 20)
	for len(id) < cap(id) {
		var random [32]byte
		_, _ = rand.Read(random[:]) // never fails
		for _, b := range random {
			if int(b) < 4*len(alphabet) && len(id) < cap(id) {
				id = append(id, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return string(id)
}

// prepare encodes a write for the protocol.
func (c *Client) prepare(to document.Path, w firebase.Write) (write wire.Write, err error) {
	write.If, err = condition(w)
	if err != nil {
		return wire.Write{}, err
	}
	if w.Operation == firebase.Delete {
		write.Delete = c.documentName(to)
		return write, nil
	}
	var content document.Fields
	switch {
	case w.Operation == firebase.Update:
		content, err = content.Update(w.Data)
		write.Mask, write.Masked = updatePaths(w.Data), true
	case w.Merge:
		content, err = document.New(w.Data)
		write.Mask, write.Masked = mergePaths(content, ""), true
	default:
		content, err = document.New(w.Data)
	}
	if err != nil {
		return wire.Write{}, err
	}
	if err := content.CheckSize(to); err != nil {
		return wire.Write{}, err
	}
	write.Update = wire.Document{Name: c.documentName(to), Fields: content}
	return write, nil
}

// condition returns the precondition of a write, the zero value if there is none. CONFLICT if Write.If is not a version of
// this database.
func condition(w firebase.Write) (wire.Precondition, error) {
	switch {
	case w.Operation == firebase.Push, w.If == missingVersion:
		return wire.Precondition{Missing: true}, nil
	case w.If == "" && w.Operation == firebase.Update:
		return wire.Precondition{Exists: true}, nil
	case w.If == "":
		return wire.Precondition{}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, string(w.If))
	if err != nil || at.IsZero() { // not a version of this database
		return wire.Precondition{}, conflictError()
	}
	return wire.Precondition{Unchanged: at}, nil
}

// updatePaths returns the field paths in the data of an update.
func updatePaths(data any) []string {
	changes, _ := data.(map[string]any)
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		paths = append(paths, quotedPath(name))
	}
	return paths
}

// quotedPath returns a field path in the form of the protocol, with quotes around unusual names.
func quotedPath(path string) string {
	parts := strings.Split(path, ".")
	for i, part := range parts {
		parts[i] = quoteField(part)
	}
	return strings.Join(parts, ".")
}

// mergePaths returns the paths of the fields that a merge replaces: all values except non-empty objects.
func mergePaths(object map[string]any, prefix string) []string {
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		path := prefix + quoteField(name)
		if inner, ok := object[name].(map[string]any); ok && len(inner) > 0 {
			paths = append(paths, mergePaths(inner, path+".")...)
			continue
		}
		paths = append(paths, path)
	}
	return paths
}

// plainName matches the field names that need no quotes in a field path.
var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z_0-9]*$`)

func quoteField(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	return "`" + strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(name) + "`"
}

// commit sends one write and returns its time.
func (c *Client) commit(ctx context.Context, write wire.Write) (time.Time, error) {
	answer, err := c.conn.One(ctx, c.call("Commit", "database", c.databaseName(), wire.Commit(c.databaseName(), write)))
	if err != nil {
		return time.Time{}, c.protocolError(ctx, err)
	}
	at, err := wire.ReadCommit(answer)
	if err != nil {
		return time.Time{}, c.protocolError(ctx, err)
	}
	return at, nil
}

// writeError returns the error of a write. It converts NOT_FOUND: for a conditional write it means a conflict, for an update
// a missing document, and otherwise a missing database.
func (c *Client) writeError(err error, to document.Path, w firebase.Write) error {
	switch {
	case err == nil:
		return nil
	case fault.From(err).Reason != refusal.NotFound:
		return err
	case w.If != "":
		return conflictError()
	case w.Operation == firebase.Update:
		return refusal.New(refusal.NotFound, "there is no document %q to update", to).WithField("path")
	default:
		return refusal.New(refusal.ConnectionError, "%s", fault.From(err).Message).WithHint("check firestore_project")
	}
}

// updateMissing returns the error of an update that requires a missing document: CONFLICT if the document exists, otherwise
// NOT_FOUND.
func (c *Client) updateMissing(ctx context.Context, to document.Path) error {
	d, err := c.get(ctx, to)
	switch {
	case err != nil:
		return err
	case d != nil:
		return conflictError()
	default:
		return refusal.New(refusal.NotFound, "there is no document %q to update", to).WithField("path")
	}
}

package docstore

import (
	"context"
	"crypto/rand"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/document"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// Write implements firebase.Backend. Nothing is sent twice: after a CONNECTION_ERROR the write may have
// happened or not.
func (c *Client) Write(ctx context.Context, path string, w firebase.Write) (firebase.Written, error) {
	to, err := document.ParsePath(path)
	if err != nil {
		return firebase.Written{}, err
	}
	if err := allowed(to, w); err != nil {
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
	ctx, cancel, err := c.bounded(ctx)
	if err != nil {
		return firebase.Written{}, err
	}
	defer cancel()
	if w.Operation == firebase.Update && w.If == missing {
		return firebase.Written{}, c.updateOfNothing(ctx, to)
	}
	written.At, err = c.commit(ctx, write)
	return written, c.because(err, to, w)
}

// allowed refuses what no document or collection can have done to it.
func allowed(to document.Path, w firebase.Write) error {
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

// newID returns the id of a new document: 20 letters and digits, as the libraries of Google make them.
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

// prepare returns a write as the protocol has it.
func (c *Client) prepare(to document.Path, w firebase.Write) (*firestorepb.Write, error) {
	name := c.name() + "/documents/" + to.String()
	when, err := condition(w)
	if err != nil {
		return nil, err
	}
	write := &firestorepb.Write{CurrentDocument: when}
	if w.Operation == firebase.Delete {
		write.Operation = &firestorepb.Write_Delete{Delete: name}
		return write, nil
	}
	var content document.Fields
	switch {
	case w.Operation == firebase.Update:
		content, err = content.Update(w.Data)
		write.UpdateMask = &firestorepb.DocumentMask{FieldPaths: named(w.Data)}
	case w.Merge:
		content, err = document.New(w.Data)
		write.UpdateMask = &firestorepb.DocumentMask{FieldPaths: leaves(content, "")}
	default:
		content, err = document.New(w.Data)
	}
	if err != nil {
		return nil, err
	}
	if err := content.CheckSize(to); err != nil {
		return nil, err
	}
	write.Operation = &firestorepb.Write_Update{Update: &firestorepb.Document{Name: name, Fields: fields(content)}}
	return write, nil
}

// condition returns what a write depends on.
func condition(w firebase.Write) (*firestorepb.Precondition, error) {
	exists := func(yes bool) *firestorepb.Precondition {
		return &firestorepb.Precondition{ConditionType: &firestorepb.Precondition_Exists{Exists: yes}}
	}
	switch {
	case w.Operation == firebase.Push, w.If == missing:
		return exists(false), nil
	case w.If == "" && w.Operation == firebase.Update:
		return exists(true), nil
	case w.If == "":
		return nil, nil //nolint:nilnil // nothing is the condition that always holds
	}
	at, err := time.Parse(time.RFC3339Nano, string(w.If))
	if err != nil { // no version of this database
		return nil, changedMeanwhile()
	}
	return &firestorepb.Precondition{ConditionType: &firestorepb.Precondition_UpdateTime{UpdateTime: timestamppb.New(at)}}, nil
}

// named returns the paths of fields that an update names.
func named(data any) []string {
	changes, _ := data.(map[string]any)
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		parts := strings.Split(name, ".")
		for i, part := range parts {
			parts[i] = quoted(part)
		}
		paths = append(paths, strings.Join(parts, "."))
	}
	return paths
}

// leaves returns the paths of the fields that a merge replaces: all that are no object, and empty objects.
func leaves(object map[string]any, prefix string) []string {
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		path := prefix + quoted(name)
		if inner, ok := object[name].(map[string]any); ok && len(inner) > 0 {
			paths = append(paths, leaves(inner, path+".")...)
			continue
		}
		paths = append(paths, path)
	}
	return paths
}

// simple are the names that a path of fields holds as they are.
var simple = regexp.MustCompile(`^[A-Za-z_][A-Za-z_0-9]*$`)

func quoted(name string) string {
	if simple.MatchString(name) {
		return name
	}
	return "`" + strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(name) + "`"
}

// name is that of the database in the protocol.
func (c *Client) name() string { return "projects/" + c.cfg.Project + "/databases/" + c.cfg.Database }

// commit makes one write and returns its time.
func (c *Client) commit(ctx context.Context, write *firestorepb.Write) (time.Time, error) {
	outgoing := metadata.AppendToOutgoingContext(ctx,
		"google-cloud-resource-prefix", c.name(), "x-goog-request-params", "database="+url.QueryEscape(c.name()))
	done, err := c.raw.Commit(outgoing, &firestorepb.CommitRequest{Database: c.name(), Writes: []*firestorepb.Write{write}})
	if err != nil {
		return time.Time{}, c.failed(ctx, err)
	}
	return done.GetCommitTime().AsTime(), nil
}

// because tells what a missing document means for a write.
func (c *Client) because(err error, to document.Path, w firebase.Write) error {
	switch {
	case err == nil:
		return nil
	case fault.From(err).Reason != refusal.NotFound:
		return err
	case w.If != "":
		return changedMeanwhile()
	case w.Operation == firebase.Update:
		return refusal.New(refusal.NotFound, "there is no document %q to update", to).WithField("path")
	default:
		return refusal.New(refusal.ConnectionError, "%s", fault.From(err).Message).WithHint("check firestore_project")
	}
}

// updateOfNothing refuses an update on the condition that there is nothing to update.
func (c *Client) updateOfNothing(ctx context.Context, to document.Path) error {
	d, err := c.get(ctx, to)
	switch {
	case err != nil:
		return err
	case d.Exists():
		return changedMeanwhile()
	default:
		return refusal.New(refusal.NotFound, "there is no document %q to update", to).WithField("path")
	}
}

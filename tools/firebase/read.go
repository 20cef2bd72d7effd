package firebase

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

type readIn struct {
	Database Database `json:"database" jsonschema:"Database type to read from" enum:"realtime,firestore"`
	Path     string   `json:"path" jsonschema:"Path to the data (collection/document for Firestore, path for Realtime DB)" pattern:"^[a-zA-Z0-9/_-]+$"`
	Query    *queryIn `json:"query,omitempty" jsonschema:"Which children or documents to read, and in which order"`
	Shallow  bool     `json:"shallow,omitempty" jsonschema:"For Realtime DB: return only keys at the path" default:"false"`
}

type queryIn struct {
	OrderBy string          `json:"orderBy,omitempty" jsonschema:"Field to order results by"`
	Limit   int             `json:"limit,omitempty" jsonschema:"Maximum number of results" minimum:"1" maximum:"1000"`
	StartAt json.RawMessage `json:"startAt,omitempty" jsonschema:"Starting point for query" types:"string,number,boolean"`
	EndAt   json.RawMessage `json:"endAt,omitempty" jsonschema:"Ending point for query" types:"string,number,boolean"`
}

type readOut struct {
	Success  bool            `json:"success" jsonschema:"Always true; a read that fails has an error instead"`
	Data     json.RawMessage `json:"data" jsonschema:"Retrieved data" types:"object,array,null"`
	Metadata *readMetadata   `json:"metadata,omitempty" jsonschema:"What was read, and when"`
}

type readMetadata struct {
	Path      string `json:"path,omitempty" jsonschema:"The path as it was given"`
	Timestamp string `json:"timestamp,omitempty" jsonschema:"Time of the read, in UTC" format:"date-time"`
	Count     *int   `json:"count,omitempty" jsonschema:"Number of children or documents; 1 for a document and a scalar"`
}

// readTool is firebase.read (S3-020 to S3-026).
func readTool(cfg Config) tools.Tool {
	return tools.Define(tools.Spec{
		Name:        "firebase.read",
		Title:       "Read from Firebase",
		Purpose:     "Read data from Firebase Realtime Database or Firestore",
		Conditions:  []string{"Any task state"},
		Effect:      tools.Read,
		Gate:        tools.AnyState,
		Approval:    tools.NoApproval,
		NoWorkspace: true,
		Timeout:     callTime,
		Errors:      errorNames("NOT_FOUND"),
	}, func(ctx context.Context, _ *tools.Env, in readIn) (readOut, error) {
		b, err := cfg.backend(in.Database)
		if err != nil {
			return readOut{}, err
		}
		q, err := in.query()
		if err != nil {
			return readOut{}, err
		}
		s, err := b.Read(ctx, in.Path, q)
		if err != nil {
			return readOut{}, err
		}
		if !s.Exists {
			return readOut{}, refusal.New(refusal.NotFound, "there is nothing at %q", in.Path).WithField("path")
		}
		return in.output(q, s)
	})
}

func (in readIn) query() (q Query, err error) {
	q.Shallow = in.Shallow
	if in.Query == nil {
		return q, nil
	}
	q.OrderBy, q.Limit = in.Query.OrderBy, in.Query.Limit
	if q.StartAt, err = decodeInput("query.startAt", in.Query.StartAt); err != nil {
		return q, err
	}
	q.EndAt, err = decodeInput("query.endAt", in.Query.EndAt)
	return q, err
}

func (in readIn) output(q Query, s Snapshot) (out readOut, err error) {
	out.Success = true
	count := 0
	if in.isList(q, s) {
		count = len(s.Children)
		out.Data, err = orderedObject(s.Children)
	} else {
		count = in.count(s.Data)
		out.Data, err = outputData(s)
	}
	out.Metadata = &readMetadata{Path: in.Path, Timestamp: timestamp(s.At), Count: &count}
	return out, err
}

// isList reports whether a snapshot consists of children: the result of a query, which may be empty, or a collection.
func (in readIn) isList(q Query, s Snapshot) bool {
	if in.Database == Firestore {
		return strings.Count(in.Path, "/")%2 == 0
	}
	return s.Children != nil || s.Data == nil && q.Selects()
}

// count returns the number of items in a result without a query (S3-023).
func (in readIn) count(data any) int {
	if in.Database == Firestore {
		return 1
	}
	switch v := data.(type) {
	case map[string]any:
		return len(v)
	case []any:
		return len(v) - len(slices.DeleteFunc(slices.Clone(v), func(x any) bool { return x != nil }))
	default:
		return 1
	}
}

// orderedObject returns children as a JSON object with the keys in the order of children.
func orderedObject(children []Child) (json.RawMessage, error) {
	text := []byte{'{'}
	for i, c := range children {
		key, err := encode(c.Key)
		if err != nil {
			return nil, err
		}
		data, err := encode(c.Data)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(append(text, key...), ':'), data...)
	}
	return append(text, '}'), nil
}

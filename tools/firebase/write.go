package firebase

import (
	"context"
	"encoding/json"

	"github.com/orch-dev/orch/tools"
)

type writeIn struct {
	Database    Database        `json:"database" jsonschema:"Database type to write to" enum:"realtime,firestore"`
	Path        string          `json:"path" jsonschema:"Path to write data" pattern:"^[a-zA-Z0-9/_-]+$"`
	Data        json.RawMessage `json:"data" jsonschema:"Data to write" types:"object,array,string,number,boolean,null"`
	Operation   Operation       `json:"operation,omitempty" jsonschema:"Type of write operation" enum:"set,update,push,delete" default:"set"`
	Merge       bool            `json:"merge,omitempty" jsonschema:"For Firestore: merge with existing document" default:"false"`
	Transaction bool            `json:"transaction,omitempty" jsonschema:"Execute as transaction" default:"false"`
}

type writeOut struct {
	Success  bool           `json:"success" jsonschema:"Always true; a write that fails has an error instead"`
	Key      string         `json:"key,omitempty" jsonschema:"Generated key for push operations"`
	Metadata *writeMetadata `json:"metadata,omitempty" jsonschema:"What was written, and when"`
}

type writeMetadata struct {
	Path      string    `json:"path,omitempty" jsonschema:"The path as it was given"`
	Timestamp string    `json:"timestamp,omitempty" jsonschema:"Time of the write, in UTC" format:"date-time"`
	Operation Operation `json:"operation,omitempty" jsonschema:"The operation that was done"`
}

// writeTool is firebase.write (S3-030 to S3-036).
func writeTool(cfg Config) tools.Tool {
	return tools.WithEffect[writeIn, writeOut](tools.DefineIntent(tools.Spec{
		Name:        "firebase.write",
		Title:       "Write to Firebase",
		Purpose:     "Write data to Firebase Realtime Database or Firestore",
		Conditions:  []string{"Task state: IN_PROGRESS", "data is required by every operation; delete makes nothing of it, and takes null"},
		Effect:      tools.Write,
		MayDestroy:  true,
		Gate:        tools.InProgress,
		Approval:    tools.NoApproval,
		Content:     []string{"data"},
		NoWorkspace: true,
		Timeout:     callTime,
		Errors:      errorNames("NOT_FOUND", "CONFLICT", "SIZE_LIMIT_EXCEEDED", "INVALID_DATA_TYPE", "SECRET_DETECTED", "IN_DOUBT"),
	}, func(_ context.Context, _ *tools.Env, in writeIn) (tools.Intent, error) {
		return in.intent(), nil
	}, func(ctx context.Context, _ *tools.Env, in writeIn) (writeOut, error) {
		b, err := cfg.backend(in.Database)
		if err != nil {
			return writeOut{}, err
		}
		written, err := in.write(ctx, b)
		if err != nil {
			return writeOut{}, err
		}
		return writeOut{
			Success: true, Key: written.Key,
			Metadata: &writeMetadata{Path: in.Path, Timestamp: timestamp(written.At), Operation: in.Operation},
		}, nil
	}), func(in writeIn) tools.Effect { return in.intent().Effect })
}

// intent returns the effect of the call. A removal is destructive, because it cannot be undone. To set null is to remove.
func (in writeIn) intent() tools.Intent {
	if in.Operation == Delete || in.Operation == Set && string(in.Data) == "null" {
		return tools.Intent{Effect: tools.Destructive, Reason: "deletes the data at the path"}
	}
	return tools.Intent{Effect: tools.Write, Reason: string(in.Operation)}
}

// write executes the operation, in a transaction if requested.
func (in writeIn) write(ctx context.Context, b Backend) (Written, error) {
	data, err := decodeInput("data", in.Data)
	if err != nil {
		return Written{}, err
	}
	w := Write{Operation: in.Operation, Data: data, Merge: in.Merge}
	if !in.Transaction || in.Operation == Push { // a new child cannot conflict
		return b.Write(ctx, in.Path, w)
	}
	return Transact(ctx, b, in.Path, func(Snapshot) (Write, error) {
		retry := w
		retry.Data, err = decodeInput("data", in.Data) // the backend may have modified the data of the last attempt
		return retry, err
	})
}

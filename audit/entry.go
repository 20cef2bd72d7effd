package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Outcome is what became of an act.
type Outcome string

// The outcomes.
const (
	// Begun is the outcome of an entry that was written before the effect of its act. A later entry has the result.
	Begun Outcome = "begun"
	// Done: the act has had its effect.
	Done Outcome = "done"
	// Refused: the act had no effect, because the actor lacks a permission or the request is invalid.
	Refused Outcome = "refused"
	// Failed: the act has ended with an error of the node, and may have had an effect.
	Failed Outcome = "failed"
	// Unknown is the outcome of an act whose result is not recorded, because the node was killed or the act still runs. No entry has it.
	Unknown Outcome = "unknown"
)

// Outcomes returns the outcomes of acts.
func Outcomes() []Outcome { return []Outcome{Done, Refused, Failed, Unknown} }

// The faces: the ways on which an act reaches a node.
const (
	// FaceProcess is the process of the node itself: a command that has started the node, or a program that embeds it.
	FaceProcess = "process"
	// FaceBus is the connection of the command line to a running node.
	FaceBus = "bus"
	// FaceHTTP is the HTTP API and the page, FaceMCP an MCP client or a client of /rpc.
	FaceHTTP = "http"
	FaceMCP  = "mcp"
	// FaceFiles is a command that works on the files of a data directory while no node runs there.
	FaceFiles = "files"
	// FaceTask is a call of a task.
	FaceTask = "task"
	// FaceNode is the node itself, which acts by its settings.
	FaceNode = "node"
)

// The credentials that are no tokens. A token is named by its id.
const (
	// CredentialOperator is the password of the data directory, CredentialLogin a login of a browser as the operator.
	CredentialOperator = "operator"
	CredentialLogin    = "login"
)

const (
	// MaxText is the maximum size of a text of an entry in bytes.
	MaxText = 256
	// MaxParams is the maximum number of parameters of an act.
	MaxParams = 16
)

// Act is what somebody does or tries to do.
type Act struct {
	// Actor is who acts, such as user:ada; "unknown" if that is not known, because authentication has failed.
	Actor string `json:"actor"`
	// Credential is what the actor has shown: operator, login or the id of a token; empty if the face has none.
	Credential string `json:"credential,omitempty"`
	// Face is the way on which the act has reached the node.
	Face string `json:"face"`
	// Source is the address of the client, without the port; only over HTTP.
	Source string `json:"source,omitempty"`
	// Name is what is done, such as task.cancel.
	Name string `json:"act"`
	// Target is the task, schedule, token or other thing that the act is about.
	Target string `json:"target,omitempty"`
	// Params are the parameters that matter. Contents, such as the data of a signal, appear as their SHA-256 only.
	Params map[string]string `json:"params,omitempty"`
}

// Problem is why an act was refused or has failed.
type Problem struct {
	Code    fault.Code `json:"code"`
	Reason  string     `json:"reason,omitempty"`
	Field   string     `json:"field,omitempty"`
	Message string     `json:"message,omitempty"`
}

// ProblemOf returns the problem of an error; nil for nil.
func ProblemOf(err error) *Problem {
	if err == nil {
		return nil
	}
	f := fault.From(err)
	return &Problem{Code: f.Code, Reason: f.Reason, Field: f.Field, Message: f.Message}
}

// Link connects an act with the log of its task.
type Link struct {
	ID events.TaskID `json:"id"`
	// Rev is a revision of the task that contains the effect of the act, and Hash the digest of its commit, which covers all commits
	// up to it.
	Rev  uint64 `json:"rev,omitempty"`
	Hash string `json:"hash,omitempty"`
}

// Entry is one entry of the audit stream.
type Entry struct {
	// Number counts the entries from 1, without gaps.
	Number uint64 `json:"n"`
	// Prev is the Hash of the previous entry; empty for the first.
	Prev string    `json:"prev,omitempty"`
	At   time.Time `json:"at"`

	Act

	Outcome Outcome `json:"outcome"`
	// Of is the number of the entry with the outcome begun whose result this is; 0 for none.
	Of    uint64   `json:"of,omitempty"`
	Error *Problem `json:"error,omitempty"`
	Task  *Link    `json:"task,omitempty"`
	// Count is how often equal acts were refused from Since until At; 0 means once.
	Count int        `json:"count,omitempty"`
	Since *time.Time `json:"since,omitempty"`
}

// Encode returns the encoding of an entry, one line without its end.
func (e *Entry) Encode() ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "an entry of the audit stream cannot be encoded")
	}
	return bytes.TrimSuffix(out.Bytes(), []byte{'\n'}), nil
}

// Decode decodes an entry. It ignores fields that it does not know, which a newer orch may have written.
func Decode(data []byte) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(data, &e); err != nil {
		return e, fault.Wrap(fault.DataLoss, err, "an entry of the audit stream cannot be read")
	}
	return e, nil
}

// Hash returns the digest of an encoded entry, which the next entry contains.
func Hash(encoded []byte) string { return events.Hash(encoded) }

// Digest returns the text that stands for a content in the parameters of an act; empty for no content.
func Digest(content []byte) string {
	if len(content) == 0 {
		return ""
	}
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// SetDigest returns the text that stands for a set of ids, in whatever order: the digest of the sorted ids, each with a line end.
func SetDigest[ID ~string](ids []ID) string {
	sorted := slices.Sorted(slices.Values(ids))
	var all []byte
	for _, id := range sorted {
		all = append(append(all, id...), '\n')
	}
	return Digest(all)
}

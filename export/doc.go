// Package export reads and writes export files. An export file carries the whole histories of tasks to another machine: every
// commit exactly as it is in the log, the large values that the commits refer to, a manifest, and a signature of the node.
//
// A file is a sequence of gzip members. Together they hold a text of records, so that zcat shows it. Each record is a header, which is
// one line of JSON, and a body of the size that the header states. The last member holds the signature of all bytes before it.
// docs/reference/export-format.md describes the format for programs in other languages.
//
// Writer and Verify check the same rules: a Writer returns an error instead of a file that Verify would refuse.
package export

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

const (
	// Format is the name of the format, in the first line of every file.
	Format = "orch-export"
	// Version is the version of the format that this package writes, and the newest that it reads.
	Version = 1
)

// The limits of a file. Writer and Verify refuse whatever exceeds them.
const (
	// MaxTasks is how many tasks a file may hold.
	MaxTasks = 1000
	// MaxCommit, MaxValue and MaxManifest limit the sizes of one commit, one large value and the manifest, in bytes.
	MaxCommit   = 8 << 20
	MaxValue    = 64 << 20
	MaxManifest = 16 << 20
	// MaxHistory limits the commits of one task, in bytes.
	MaxHistory = 512 << 20
	// MaxContent limits the content of a file before compression, in bytes.
	MaxContent = 8 << 30
	// MaxMember limits the content of one gzip member, in bytes. MaxRatio is how many times the member may be smaller than its
	// content.
	MaxMember = 1 << 20
	MaxRatio  = 100
)

// Manifest describes the content of a file.
type Manifest struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// NodeVersion is the version of the program that wrote the file, ExportedAt the time at which it did.
	NodeVersion string    `json:"node_version"`
	ExportedAt  time.Time `json:"exported_at"`
	// Tasks are the tasks in the order of the file.
	Tasks []Task `json:"tasks"`
}

// Task is a task in the manifest.
type Task struct {
	ID    events.TaskID      `json:"id"`
	Name  string             `json:"name"`
	State statemachine.State `json:"state"`
	// Commits is the number of commits, which is also the newest revision. First and Last are the hashes of the first and the last
	// commit.
	Commits uint64 `json:"commits"`
	First   string `json:"first"`
	Last    string `json:"last"`
	// Values are the digests of the large values that the commits refer to, in the order of their first use in the task.
	Values []string `json:"values"`
	// Imported is set if the node that wrote the file had imported the task itself.
	Imported *Origin `json:"imported,omitempty"`
}

// Origin says from which file a task was imported. The node that wrote the manifest vouches for it.
type Origin struct {
	// Key is the public key that had signed that file, in base64, and SHA256 the digest of the file in front of its signature, in hex.
	Key    string `json:"key"`
	SHA256 string `json:"sha256"`
	// At is when it was imported.
	At time.Time `json:"at"`
}

// check returns DATA_LOSS unless an origin has the form in which nodes write it.
func (o Origin) check() error {
	_, err := ParseKey(o.Key)
	digest, bad := hex.DecodeString(o.SHA256)
	if err != nil || bad != nil || len(digest) != sha256.Size || o.At.IsZero() {
		return fault.New(fault.DataLoss, "it does not say properly from where a task was imported")
	}
	return nil
}

// Report describes a file that was written or verified.
type Report struct {
	Manifest

	// Key is the public key that belongs to the signature, in base64. Fingerprint is a short form of the key. Pinned is set if it is
	// the key that the caller expects.
	Key         string `json:"key"`
	Fingerprint string `json:"fingerprint"`
	Pinned      bool   `json:"pinned"`
	// SHA256 is the digest of the file in front of its signature, in hex. Bytes is the size of the file.
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	// Values counts the large values in the file, Events the events of all commits.
	Values int `json:"values"`
	Events int `json:"events"`
}

// Fingerprint returns the short form of a public key, such as "SHA256:nThb…".
func Fingerprint(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// EncodeKey returns a public key as text, in base64.
func EncodeKey(key ed25519.PublicKey) string { return base64.StdEncoding.EncodeToString(key) }

// ParseKey is the inverse of EncodeKey: INVALID_FORMAT.
func ParseKey(text string) (ed25519.PublicKey, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != ed25519.PublicKeySize || EncodeKey(raw) != text {
		return nil, fault.New(fault.InvalidFormat, "this is no public key of a node").WithField("key").
			WithHint("orch export --public-key prints the key of a node, %d characters of base64", base64.StdEncoding.EncodedLen(ed25519.PublicKeySize))
	}
	return raw, nil
}

// Package archives keeps whole histories of tasks outside of a node, in a store of objects, and reads them back.
//
// An archive consists of bundles. A bundle is a data file, which is a sequence of export files with one task each, and a manifest, which
// says where each of them begins and what its digest is. The manifest is written after the data file was read back and verified, so a
// bundle with a manifest is complete, and a data file without one is the leftover of a process that was killed. Bundles lie below the day
// of the ids of their tasks, such as 2026/11/29, so that finding a task reads the manifests of one day.
//
// docs/reference/archive-format.md describes the format for programs in other languages.
package archives

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/objects"
	"github.com/orch-dev/orch/statemachine"
)

const (
	// Format is the name of the format, in every manifest.
	Format = "orch-archive"
	// Version is the version of the format that this package writes, and the newest that it reads.
	Version = 1
	// MaxTasks limits the tasks of a bundle.
	MaxTasks = 1000
	// MaxManifest limits the size of a manifest, in bytes.
	MaxManifest = 4 << 20
	// bundleTasks and bundleBytes are the size at which a bundle gets no further task.
	bundleTasks = 500
	bundleBytes = 64 << 20

	manifestSuffix = ".json"
	dataSuffix     = ".orch"
)

// Bundle is the manifest of a bundle.
type Bundle struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Name is the key of the bundle without its suffix, such as 2026/11/29/TASK_…-0123456789abcdef.
	Name        string    `json:"name"`
	NodeVersion string    `json:"node_version"`
	CreatedAt   time.Time `json:"created_at"`
	// Size is the size of the data file, SHA256 its digest in hex.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// Key is the public key that has signed the export files, in base64.
	Key string `json:"key"`
	// Tasks are the tasks, in the order of the data file.
	Tasks []Entry `json:"tasks"`
}

// Entry is a task of a bundle.
type Entry struct {
	ID     events.TaskID      `json:"id"`
	Name   string             `json:"name"`
	State  statemachine.State `json:"state"`
	Parent events.TaskID      `json:"parent,omitempty"`
	// Commits is the number of commits, which is also the newest revision. Last is the hash of the last commit.
	Commits   uint64    `json:"commits"`
	Last      string    `json:"last"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	// The export file of the task is the part of the data file with this offset and size, in bytes. SHA256 is its digest in hex.
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// dayOf returns the prefix of the bundles with a task.
func dayOf(id events.TaskID) string { return id.Time().UTC().Format("2006/01/02") }

var nameForm = regexp.MustCompile(`^\d{4}/\d\d/\d\d/TASK_[0-9A-Z]{26}-[0-9a-f]{16}$`)

// encode returns the manifest as it is stored.
func (b *Bundle) encode() ([]byte, error) {
	data, err := json.MarshalIndent(b, "", " ")
	if err == nil && len(data) > MaxManifest {
		return nil, fault.New(fault.ValidationError, "the manifest has more than %d bytes", MaxManifest).WithReason("SIZE_LIMIT_EXCEEDED")
	}
	return append(data, '\n'), err
}

// ParseManifest decodes the manifest that is stored under a key, and checks that it could be one. Errors: DATA_LOSS, NEWER_STORE for a
// newer version of the format.
func ParseManifest(key string, data []byte) (Bundle, error) {
	var b Bundle
	damaged := func(format string, args ...any) (Bundle, error) {
		return Bundle{}, fault.New(fault.DataLoss, "the manifest %s is damaged: "+format, append([]any{clip(key)}, args...)...)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	if len(data) > MaxManifest {
		return damaged("it has more than %d bytes", MaxManifest)
	}
	if err := decoder.Decode(&b); err != nil {
		return damaged("it is not JSON of this form")
	}
	switch {
	case b.Format != Format:
		return damaged("its format is %q", clip(b.Format))
	case b.Version > Version:
		return Bundle{}, fault.New(fault.NewerStore, "%s has version %d of the format", clip(key), b.Version).WithHint("use a newer orch")
	case b.Version != Version:
		return damaged("its version is %d", b.Version)
	case b.Name+manifestSuffix != key || !nameForm.MatchString(b.Name):
		return damaged("it is for %q", clip(b.Name))
	case !isSum(b.SHA256) || b.Size < 0 || b.Size > objectLimit:
		return damaged("the size or the digest of its data file is invalid")
	case len(b.Tasks) == 0 || len(b.Tasks) > MaxTasks:
		return damaged("it names %d tasks", len(b.Tasks))
	}
	if why := b.checkTasks(); why != "" {
		return damaged("%s", why)
	}
	return b, nil
}

// objectLimit limits the size of a data file, in bytes: S3 stores no larger object with one request.
const objectLimit = 5 << 30

// checkTasks returns what is wrong with the tasks of a manifest. They follow each other without a gap.
func (b *Bundle) checkTasks() string {
	offset := int64(0)
	seen := map[events.TaskID]bool{}
	for _, t := range b.Tasks {
		if _, err := events.ParseTaskID(string(t.ID)); err != nil || dayOf(t.ID) != path.Dir(b.Name) || seen[t.ID] {
			return "it names a task that cannot be in it"
		}
		if t.Parent != "" {
			if _, err := events.ParseTaskID(string(t.Parent)); err != nil {
				return "the parent of " + string(t.ID) + " is no task"
			}
		}
		if !isSum(t.SHA256) || t.Size <= 0 || t.Offset != offset || t.Size > b.Size-offset {
			return "the place of " + string(t.ID) + " is invalid"
		}
		seen[t.ID] = true
		offset += t.Size
	}
	if offset != b.Size {
		return "its tasks do not fill its data file"
	}
	return ""
}

func isSum(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == 32 && strings.ToLower(text) == text
}

// isManifest reports whether an object is a manifest, by its key.
func isManifest(o objects.Object) bool {
	name, ok := strings.CutSuffix(o.Key, manifestSuffix)
	return ok && nameForm.MatchString(name)
}

func clip(text string) string { return fault.Clip(text, 80) }

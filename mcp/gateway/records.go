package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/wholefile"
)

// Records keeps the definitions of the tools of servers: those that count, and those that were seen last. Several
// processes may use the same directory.
type Records struct {
	dir string
	log *slog.Logger
}

// OpenRecords returns the records of a user: the directory .orch/state/mcp-tools below home. It does no I/O.
func OpenRecords(home string, log *slog.Logger) Records {
	return Records{filepath.Join(home, ".orch", "state", "mcp-tools"), log}
}

// serverRecord is what is known of a server.
type serverRecord struct {
	// Tools are those of the server by name.
	Tools map[string]*toolRecord `json:"tools"`
	// Version is recordVersion; a record of an earlier one is completed when the server is seen next.
	Version int `json:"version,omitempty"`
	// broken says that the file could not be read: then nothing counts.
	broken bool
}

// toolRecord is the record of a tool.
type toolRecord struct {
	// Accepted is the definition that counts; none while a person has yet to look at the first one.
	Accepted json.RawMessage `json:"accepted,omitempty"`
	// Seen is the definition that the server has sent last, when it is another one.
	Seen json.RawMessage `json:"seen,omitempty"`
	// At and By say when Accepted began to count, and who said so; "first use" when nobody was asked.
	At time.Time `json:"at,omitzero"`
	By string    `json:"by,omitempty"`
	// Added is true for a tool that the server has added since it was seen first, and that nobody has accepted yet.
	Added bool `json:"added,omitempty"`
	// Twin is the known tool whose name differs from that of this one only by case.
	Twin string `json:"twin,omitempty"`
	// Gone is true when the server does not offer the tool any more.
	Gone bool `json:"gone,omitempty"`
}

// current is the definition that the server has sent last.
func (p *toolRecord) current() json.RawMessage {
	if p.Seen != nil {
		return p.Seen
	}
	return p.Accepted
}

// maxRecord bounds the record of a server, in bytes: tools that are gone stay in it, and a server may have others each time.
const maxRecord = 64 << 20

// recordVersion is that of records that pin the whole definition of a tool.
const recordVersion = 2

// firstUse is who accepts the first definition of a tool.
const firstUse = "first use"

// servers returns the names of all servers with a record.
func (r Records) servers() []string {
	files, _ := filepath.Glob(filepath.Join(r.dir, "*.json")) // the pattern has the right form
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = strings.TrimSuffix(filepath.Base(file), ".json")
	}
	return names
}

func (r Records) file(server string) string { return filepath.Join(r.dir, server+".json") }

// read returns the record of a server, an empty one for a server that was never used.
func (r Records) read(server string) serverRecord {
	rec := serverRecord{Tools: map[string]*toolRecord{}}
	content, err := os.ReadFile(r.file(server))
	if errors.Is(err, fs.ErrNotExist) {
		return rec
	}
	if err == nil {
		err = json.Unmarshal(content, &rec)
	}
	if err != nil || rec.Tools == nil || slices.Contains(slices.Collect(maps.Values(rec.Tools)), nil) {
		r.log.Warn("mcp_record_unreadable", slog.String("server", server), slog.String("file", r.file(server)))
		return serverRecord{Tools: map[string]*toolRecord{}, broken: true}
	}
	return rec
}

// update changes the record of a server and returns what it is then. change reports whether there is something to
// write. No other process changes it meanwhile.
func (r Records) update(server string, change func(*serverRecord) bool) (serverRecord, error) {
	unlock, err := r.lock()
	if err != nil {
		return serverRecord{Tools: map[string]*toolRecord{}, broken: true}, err
	}
	defer unlock()
	rec := r.read(server)
	if !change(&rec) {
		return rec, nil
	}
	rec.broken = false
	return rec, r.write(server, rec)
}

// lock keeps other processes from changing records.
func (r Records) lock() (unlock func(), err error) {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return nil, r.unsaved(err)
	}
	if unlock, err = wholefile.Lock(context.Background(), filepath.Join(r.dir, ".lock")); err != nil {
		return nil, r.unsaved(err)
	}
	return unlock, nil
}

func (r Records) write(server string, rec serverRecord) error {
	content, err := json.Marshal(rec)
	if err != nil {
		return r.unsaved(err)
	}
	if len(content) > maxRecord {
		return fault.New(fault.QuotaExceeded, "the definitions of tools of %s come to more than 64 MiB, with those that are gone", server).
			WithHint("remove %s: then each one counts as it is seen next", r.file(server))
	}
	if err := wholefile.Replace(r.file(server), append(content, '\n'), 0o600); err != nil {
		return r.unsaved(err)
	}
	return nil
}

func (r Records) unsaved(err error) error {
	return fault.Wrap(fault.Forbidden, err, "the definitions of tools cannot be recorded").WithField(r.dir)
}

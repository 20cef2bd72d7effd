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

// Records stores the definitions of the tools of servers: for each tool, the accepted definition and the last definition that the
// server has sent. Several processes may use the same directory.
type Records struct {
	dir string
	log *slog.Logger
}

// OpenRecords returns the records of a user: the directory .orch/state/mcp-tools below home. It does no I/O.
func OpenRecords(home string, log *slog.Logger) Records {
	return Records{filepath.Join(home, ".orch", "state", "mcp-tools"), log}
}

// serverRecord is the record of a server.
type serverRecord struct {
	// Tools are the tools of the server by name.
	Tools map[string]*toolRecord `json:"tools"`
	// Version is recordVersion. A record of an earlier version is completed when the server connects.
	Version int `json:"version,omitempty"`
	// broken is set if the file could not be read. Then new definitions must be accepted by a person.
	broken bool
}

// toolRecord is the record of a tool.
type toolRecord struct {
	// Accepted is the accepted definition, nil if none was accepted.
	Accepted json.RawMessage `json:"accepted,omitempty"`
	// Seen is the last definition from the server, nil if it equals Accepted.
	Seen json.RawMessage `json:"seen,omitempty"`
	// At is when Accepted was accepted, By is the actor who accepted it, or firstUse.
	At time.Time `json:"at,omitzero"`
	By string    `json:"by,omitempty"`
	// Added is set if the server has added the tool after the first use of the server, and nobody has accepted it.
	Added bool `json:"added,omitempty"`
	// Twin is a known tool of the server with a name that differs only by case, "" for none.
	Twin string `json:"twin,omitempty"`
	// Gone is set if the server no longer offers the tool.
	Gone bool `json:"gone,omitempty"`
}

// current returns the last definition from the server.
func (p *toolRecord) current() json.RawMessage {
	if p.Seen != nil {
		return p.Seen
	}
	return p.Accepted
}

// maxRecord is the most bytes of the record of a server. A limit is needed because removed tools remain in the record, and a server
// may offer different tools each time.
const maxRecord = 64 << 20

// recordVersion is the present version of records. Since it, records contain the whole definition of a tool (pinnedPart).
const recordVersion = 2

// firstUse is recorded as the actor for a definition that was accepted without asking a person, at the first use of its server.
const firstUse = "first use"

// servers returns the names of all servers with a record.
func (r Records) servers() []string {
	files, _ := filepath.Glob(filepath.Join(r.dir, "*.json")) // the pattern is valid
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = strings.TrimSuffix(filepath.Base(file), ".json")
	}
	return names
}

func (r Records) file(server string) string { return filepath.Join(r.dir, server+".json") }

// read returns the record of a server, an empty one if there is none.
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

// update calls change with the record of a server, and returns the changed record. It writes the record if change returns true.
// Other processes cannot change records meanwhile.
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

// lock locks the records against changes by other processes.
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
		return fault.New(fault.QuotaExceeded, "the definitions of tools of %s total more than 64 MiB, including removed tools", server).
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

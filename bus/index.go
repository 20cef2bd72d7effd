package bus

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
)

// indexFile is the file of the index in the data directory. Its first line is an indexHeader (see seal). Then there is a line
// "task rev state at created parent name" for each head, and a line "task note" for each sleeping task.
const indexFile = "heads.idx"

// indexVersion is the version of the file format. Files of other versions are ignored.
const indexVersion = 3

type indexHeader struct {
	Version int `json:"v"`
	// Stream is when the live stream was created.
	Stream  time.Time `json:"stream"`
	Seq     uint64    `json:"seq"`
	Partial bool      `json:"partial"`
	// Heads is the number of lines with heads. The lines after them are sleeping tasks.
	Heads int `json:"heads"`
	// SHA256 is the digest of everything after the header.
	SHA256 string `json:"sha256"`
}

var _ events.Indexes = (*Store)(nil)

// indexPath returns the path of the index. It returns "" with an external server, where other processes may write to the
// log, and after a loss.
func (sd *sideStore) indexPath() string {
	if sd.conn.target.server == nil || sd.live == nil || sd.loss.Load() != nil {
		return ""
	}
	return filepath.Join(sd.conn.target.server.cfg.DataDir, indexFile)
}

// listsFile is the file of the index of lists in the data directory. Package index writes it.
const listsFile = "lists.idx"

// ListsFile returns the path of the file of the index of lists, and the identity of the log that it must belong to. The path is empty
// where SaveIndex does nothing.
func (s *Store) ListsFile() (path, log string) {
	if s.indexPath() == "" {
		return "", ""
	}
	created := s.live.CachedInfo().Created.UTC().Format(time.RFC3339Nano) + " " + s.archiveLog.CachedInfo().Created.UTC().Format(time.RFC3339Nano)
	return filepath.Join(s.conn.target.server.cfg.DataDir, listsFile), created
}

// SaveIndex implements events.Indexes. It does not sync the file: if a power loss damages the file, its digest no longer
// matches.
func (sd *sideStore) SaveIndex(_ context.Context, index events.Index) error {
	path := sd.indexPath()
	if path == "" {
		return nil
	}
	var body bytes.Buffer
	for i := range index.Heads {
		h := &index.Heads[i]
		body.WriteString(string(h.Task) + " " + encodeHead(h, 0) + "\n")
	}
	for _, a := range index.Asleep {
		body.WriteString(string(a.Task) + " ")
		body.Write(a.Note)
		body.WriteByte('\n')
	}
	sum := sha256.Sum256(body.Bytes())
	header, err := seal(indexHeader{
		Version: indexVersion, Stream: sd.live.CachedInfo().Created, Seq: index.Seq, Partial: index.Partial, Heads: len(index.Heads),
		SHA256: hex.EncodeToString(sum[:]),
	})
	if err != nil {
		return err
	}
	temp := path + ".new"
	if err = os.WriteFile(temp, append(header, body.Bytes()...), 0o600); err == nil {
		failpoint.Pass(failpoint.BeforeIndex)
		err = os.Rename(temp, path)
	}
	if err != nil {
		return writeFault(path, err)
	}
	failpoint.Pass(failpoint.IndexSaved)
	return nil
}

// LoadIndex implements events.Indexes. It removes an index that does not match the log. Otherwise an index with a position
// after the end of the log would seem to match once the log has grown.
func (sd *sideStore) LoadIndex(ctx context.Context) (events.Index, error) {
	path := sd.indexPath()
	if path == "" {
		return events.Index{}, noIndex()
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return events.Index{}, noIndex()
	}
	last, err := sd.lastSeq(ctx)
	if err != nil {
		return events.Index{}, err
	}
	index, ok := readIndex(data, sd.live.CachedInfo().Created)
	if ok && index.Seq <= last {
		return index, nil
	}
	if err := removeFile(path); err != nil {
		return events.Index{}, err
	}
	return events.Index{}, noIndex()
}

func noIndex() error { return fault.New(fault.NotFound, "there is no index of tasks") }

// readIndex decodes an index. It returns false if the index is damaged or belongs to another log or version.
func readIndex(data []byte, stream time.Time) (events.Index, bool) {
	line, body, _ := bytes.Cut(data, []byte("\n"))
	var h indexHeader
	sum := sha256.Sum256(body)
	if unseal(line, &h) != nil || h.Version != indexVersion || !h.Stream.Equal(stream) || h.SHA256 != hex.EncodeToString(sum[:]) {
		return events.Index{}, false
	}
	index := events.Index{Seq: h.Seq, Partial: h.Partial, Heads: make([]events.Head, 0, bytes.Count(body, []byte("\n")))}
	for text := range strings.Lines(string(body)) {
		task, value, _ := strings.Cut(strings.TrimSuffix(text, "\n"), " ")
		if len(index.Heads) == h.Heads {
			index.Asleep = append(index.Asleep, events.Sleeper{Task: events.TaskID(task), Note: []byte(value)})
			continue
		}
		head, err := decodeHead(events.TaskID(task), value, 0)
		if err != nil {
			return events.Index{}, false
		}
		index.Heads = append(index.Heads, head)
	}
	return index, true
}

// HeadsAfter implements events.Indexes.
func (s *Store) HeadsAfter(ctx context.Context, seq uint64) iter.Seq2[events.Head, error] {
	return func(yield func(events.Head, error) bool) {
		if s.live == nil {
			yield(events.Head{}, s.loss.Load())
			return
		}
		if err := s.scanLive(ctx, seq, yield); err != nil {
			yield(events.Head{}, err)
		}
	}
}

// scanAfter returns the configuration of a consumer of the messages after a position.
func scanAfter(seq uint64) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq + 1}
}

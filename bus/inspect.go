package bus

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orch-dev/orch/bus/storefile"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// stateFile is what the server makes again from the blocks when it is not there.
const stateFile = "msgs/index.db"

// Inspect reads the files of a data directory, without a server, and reports what is damaged in them:
// records, descriptions of streams, streams and ends of streams that were there and are gone. It changes
// nothing. The report counts records alone. A node may run meanwhile: what is only found once was being written. The error is about reading,
// not about what was found.
func Inspect(ctx context.Context, dataDir string) (Report, error) {
	first := inspection{dir: dataDir, report: Report{FilesOnly: true}}
	if err := first.run(ctx); err != nil || first.report.Found == 0 {
		return first.report, err
	}
	second := inspection{dir: dataDir, report: Report{FilesOnly: true}}
	err := second.run(ctx)
	return second.report, err
}

// admit is Inspect before a server is started. The server is only let at a store that is whole: it would
// cut off what it cannot read, and allocates by positions that it has not checked.
func admit(ctx context.Context, dataDir string) error {
	i := inspection{dir: dataDir}
	if err := i.run(ctx); err != nil {
		return err
	}
	if i.report.Found > 0 {
		return i.refusal()
	}
	for _, stream := range i.torn { // the server then looks at every checksum, and cuts the end off
		if err := removeFile(filepath.Join(i.streams(), stream, filepath.FromSlash(stateFile))); err != nil {
			return err
		}
	}
	for path, size := range i.clipped {
		if err := clipFile(path, size); err != nil {
			return err
		}
	}
	for _, stream := range i.spoilt {
		if err := os.RemoveAll(filepath.Join(i.streams(), stream)); err != nil {
			return writeFault(stream, err)
		}
	}
	return nil
}

// inspection compares the files of the store with the high-water mark.
type inspection struct {
	dir    string
	mark   mark
	report Report
	torn   []string // streams that end with a write that was cut short
	spoilt []string // damaged streams that nothing depends on
	// clipped are files of such streams that are worth something up to a size.
	clipped map[string]int64
}

func (i *inspection) streams() string { return storefile.Dir(filepath.Join(i.dir, storeDir)) }

func (i *inspection) found(p Problem) { i.report.add(p) }

func (i *inspection) refusal() *fault.Error {
	first := i.report.Problems[0]
	text := first.String()
	if more := i.report.Found - 1; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return fault.New(fault.DataLoss, "the store is damaged: %s", text).
		WithHint("nothing was started or changed; orch verify names all that is damaged, and orch restore brings a backup back")
}

func (i *inspection) run(ctx context.Context) error {
	if err := i.readMark(); err != nil {
		return err
	}
	streams, err := storefile.Check(ctx, i.streams(), believable)
	if ctx.Err() != nil {
		return fault.From(ctx.Err())
	}
	if err != nil {
		return fault.Wrap(fault.CodeOf(err), err, "the files of the store cannot be read")
	}
	for _, s := range streams {
		i.judge(s)
		i.report.Records += s.Records
		if s.Name == liveStream {
			i.report.Last = s.Last
		}
	}
	i.missing(streams)
	return nil
}

// readMark reads the mark beside the store. It is written before anything is appended, and the directory
// of the store is made before the credentials.
func (i *inspection) readMark() error {
	err := readMarkFile(filepath.Join(i.dir, markFile), &i.mark)
	switch {
	case fault.Has(err, fault.DataLoss):
		i.found(Problem{File: markFile, What: "it is damaged; if nothing else is, delete it: the store has a copy"})
	case err != nil && !fault.Has(err, fault.NotFound):
		return err
	}
	if exists(filepath.Join(i.dir, authFile)) && !exists(filepath.Join(i.dir, storeDir)) {
		i.found(Problem{File: storeDir, What: "the store is gone"})
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// judge tells damage from the end of a write that was cut short and was never acknowledged.
func (i *inspection) judge(s storefile.Stream) {
	switch s.Name {
	case sessionsStream:
		i.judgeSessions(s)
		return
	case messagesStream:
		i.judgeMessages(s)
		return
	}
	if !slices.Contains(ownStreams(), s.Name) && !slices.Contains(ofJournals(), s.Name) { // one that a probe left behind, or somebody else's
		return
	}
	reached, marked := i.mark.reached(s.Name)
	if !marked && s.Last == 0 && len(s.Damage) == 1 && s.Damage[0].Meta { // its creation was cut short
		return
	}
	mended := len(i.report.Mended)
	for _, d := range s.Damage {
		if d.Meta || marked && d.After < reached || !marked && !d.Tail {
			i.found(problemOf(s.Name, d))
		} else {
			i.report.Mended = append(i.report.Mended, problemOf(s.Name, d))
		}
	}
	if s.Name == metaStream && marked && s.Last == 0 {
		i.report.Mended = append(i.report.Mended, Problem{Stream: s.Name, What: "the second copy of the high-water mark is gone"})
	}
	if len(i.report.Mended) > mended {
		i.torn = append(i.torn, s.Name)
	}
	if marked && s.Last < reached {
		i.found(Problem{Stream: s.Name, Seq: s.Last + 1, What: fmt.Sprintf("it ends at position %d but had reached %d", s.Last, reached)})
	}
}

// judgeSessions drops all sessions when some are damaged.
func (i *inspection) judgeSessions(s storefile.Stream) {
	if slices.ContainsFunc(s.Damage, lasting) {
		i.report.Mended = append(i.report.Mended, Problem{Stream: s.Name, What: "the sessions of MCP clients are damaged; clients open new ones"})
		i.spoilt = append(i.spoilt, s.Name)
	}
}

// judgeMessages keeps what was written before a damage: what was acknowledged before a power loss is in front of what it
// tore. A message or a membership behind it is lost, and what was dealt with may come again.
func (i *inspection) judgeMessages(s storefile.Stream) {
	if slices.ContainsFunc(s.Damage, func(d storefile.Damage) bool { return d.Meta }) {
		i.report.Mended = append(i.report.Mended, Problem{Stream: s.Name, What: "the messages between agents are damaged; all of them are dropped, and groups have to be joined again"})
		i.spoilt = append(i.spoilt, s.Name)
		return
	}
	if len(s.Damage) > 0 {
		i.torn = append(i.torn, s.Name)
	}
	for _, d := range s.Damage {
		path := filepath.Join(i.streams(), s.Name, filepath.FromSlash(d.File))
		if _, known := i.clipped[path]; known || d.Tail {
			continue
		}
		if i.clipped == nil {
			i.clipped = map[string]int64{}
		}
		i.clipped[path] = int64(d.Offset)
		i.report.Mended = append(i.report.Mended, problemOf(s.Name, d))
	}
}

// clipFile cuts a file off, and removes it when nothing is left.
func clipFile(path string, size int64) error {
	err := os.Truncate(path, size)
	if size == 0 {
		err = os.Remove(path)
	}
	if err != nil {
		return writeFault(path, err)
	}
	return nil
}

// lasting reports whether a damage is more than the end of a write that was cut short.
func lasting(d storefile.Damage) bool { return d.Meta || !d.Tail }

func problemOf(stream string, d storefile.Damage) Problem {
	p := Problem{Stream: stream, File: d.File, What: "the stream has " + d.What}
	if d.Meta {
		return p
	}
	p.Seq = d.After + 1
	p.What = fmt.Sprintf("at byte %d, after position %d, a record has %s", d.Offset, d.After, d.What)
	if task := taskOf(d.Subject); strings.HasPrefix(d.Subject, liveRoot) || strings.HasPrefix(d.Subject, archiveRoot) {
		p.Task = task
	}
	return p
}

// missing finds the streams that the mark names and the store does not have.
func (i *inspection) missing(streams []storefile.Stream) {
	for _, name := range i.mark.names() {
		if !slices.ContainsFunc(streams, func(s storefile.Stream) bool { return s.Name == name }) {
			i.found(Problem{Stream: name, What: "the stream is gone"})
		}
	}
}

// believable reports whether the subject of a record is one that its stream has. Where a message has headers
// the checksum tells the two apart; that is why checkpoints have one.
func believable(stream string, r storefile.Record) bool {
	task := taskOf(r.Subject)
	switch stream {
	case liveStream:
		return isTask(task) && r.Subject == liveSubject(task)
	case archiveStream:
		return isTask(task) && r.Subject == archiveSubject(task)
	case metaStream:
		return slices.ContainsFunc([]string{markKey, faceKey, statsKey}, func(key string) bool { return r.Subject == kvSubject(metaBucket, key) })
	case tokensStream:
		return strings.HasPrefix(r.Subject, kvSubject(tokensBucket, ""))
	case sessionsStream:
		return strings.HasPrefix(r.Subject, kvSubject(sessionsBucket, ""))
	case pointsStream:
		return strings.HasPrefix(r.Subject, kvSubject(pointsBucket, ""))
	case messagesStream:
		return strings.HasPrefix(r.Subject, messagesRoot+".")
	case blobsStream:
		return isPart(r.Subject)
	default:
		return true
	}
}

func isTask(task events.TaskID) bool {
	_, err := events.ParseTaskID(string(task))
	return err == nil
}

// isPart reports whether a subject is that of an object's description or of one of its chunks, which
// ends with an id of fixed length.
func isPart(subject string) bool {
	const root, idLength = "$O." + blobsBucket + ".", 22
	chunk, isChunk := strings.CutPrefix(subject, root+"C.")
	return isChunk && len(chunk) == idLength || strings.HasPrefix(subject, root+"M.")
}

func kvSubject(bucket, key string) string { return "$KV." + bucket + "." + key }

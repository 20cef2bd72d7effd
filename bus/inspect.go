package bus

import (
	"context"
	"fmt"
	"log/slog"
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
// cut off what it cannot read, and allocates by positions that it has not checked. What costs nothing or little is
// mended, and said in the log. Damaged records of the archive cost their tasks and no start; salvage gives up more.
func admit(ctx context.Context, dataDir string, salvage bool, log *slog.Logger) error {
	i := inspection{dir: dataDir}
	if err := i.run(ctx); err != nil {
		return err
	}
	if i.uncut > 0 || len(i.cuts) > 0 && !salvage && !i.onlyArchive() {
		return i.refusal()
	}
	if len(i.cuts) > 0 || salvage {
		if err := i.salvage(ctx, log); err != nil {
			return err
		}
	}
	return i.mends.apply(ctx, dataDir, i.streams(), i.report.Mended, log)
}

// inspection compares the files of the store with the high-water mark.
type inspection struct {
	dir    string
	mark   mark
	report Report
	mends  mends
	// cuts are the blocks that a salvage would cut damaged records out of, uncut the number of other problems.
	cuts  []cut
	uncut int
}

// onlyArchive reports whether all damage is in archived histories.
func (i *inspection) onlyArchive() bool {
	return !slices.ContainsFunc(i.cuts, func(c cut) bool { return c.stream != archiveStream })
}

func (i *inspection) streams() string { return storefile.Dir(filepath.Join(i.dir, storeDir)) }

func (i *inspection) found(p Problem) {
	i.uncut++
	i.report.add(p)
}

// foundRecord is found for a damaged record, which a salvage may cut out.
func (i *inspection) foundRecord(s storefile.Stream, d storefile.Damage, reached uint64) {
	p := problemOf(s.Name, d)
	if d.Meta || !salvageable(s.Name) {
		i.found(p)
		return
	}
	i.report.add(p)
	if c := (cut{stream: s.Name, file: d.File, reached: reached}); !slices.Contains(i.cuts, c) {
		i.cuts = append(i.cuts, c)
	}
}

func (i *inspection) mended(p Problem) { i.report.Mended = append(i.report.Mended, p) }

func (i *inspection) path(stream, file string) string {
	return filepath.Join(i.streams(), stream, filepath.FromSlash(file))
}

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
	i.readSmall()
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

// readSmall reads the files of the data directory beside the store. Those that cannot be read are named by whoever uses
// them.
func (i *inspection) readSmall() {
	var auth credentials
	if fault.Has(readSealed(filepath.Join(i.dir, authFile), &auth), fault.DataLoss) {
		i.found(Problem{File: authFile, What: "the credentials are damaged; delete the file: the next start makes new ones, which workers elsewhere need"})
	}
	lost, err := readLost(i.dir)
	if fault.Has(err, fault.DataLoss) {
		i.found(Problem{File: lostFile, What: "the list of what was lost before is damaged"})
	} else {
		i.report.Lost = lost.orNil()
	}
	var version storeVersion
	if fault.Has(readSealed(filepath.Join(i.dir, versionFile), &version), fault.DataLoss) {
		i.found(Problem{File: versionFile, What: "the version of the store is damaged; if no newer orch has used this directory, delete the file"})
	}
	var worker workerInfo
	if path := filepath.Join(i.dir, workFile); fault.Has(readSealed(path, &worker), fault.DataLoss) {
		i.mended(Problem{File: workFile, What: "the name of the last worker is damaged; its calls are waited for until their leases end"})
		i.mends.dropped = append(i.mends.dropped, path)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// judge decides about what is wrong in a stream. What holds for any of them comes first: the server must read no file
// that nobody has checked.
func (i *inspection) judge(s storefile.Stream) {
	i.judgeStrays(s)
	switch {
	case slices.Contains(ownStreams(), s.Name) || slices.Contains(ofJournals(), s.Name):
		i.judgeOwn(s)
	case len(s.Damage) == 0:
	case s.Name == sessionsStream:
		i.drop(s, "the sessions of MCP clients are damaged; clients open new ones")
	case s.Name == probeStream:
		i.drop(s, "what the last start tried there is damaged; it is tried anew")
	case s.Name == messagesStream:
		i.judgeMessages(s)
	default:
		i.setAside(s.Name, problemOf(s.Name, s.Damage[0]))
	}
}

// judgeStrays gets files out of the way of the server. A running one has some of its own, of which nothing is said.
func (i *inspection) judgeStrays(s storefile.Stream) {
	for _, name := range s.Strays {
		if storefile.Derived(name) {
			i.mends.dropped = append(i.mends.dropped, i.path(s.Name, name))
			continue
		}
		p := Problem{Stream: s.Name, File: name, What: "it is none of the files that orch writes; the start sets it aside"}
		i.mended(p)
		i.mends.move(i.path(s.Name, name), p)
	}
}

// setAside moves a damaged stream out of the way of the server that nothing of orch's depends on.
func (i *inspection) setAside(stream string, p Problem) {
	p.What += "; nothing of orch's depends on the stream, and the start sets it aside"
	i.mended(p)
	i.mends.move(i.path(stream, ""), p)
}

// drop removes a damaged stream that begins anew.
func (i *inspection) drop(s storefile.Stream, what string) {
	i.mended(Problem{Stream: s.Name, What: what})
	i.mends.dropped = append(i.mends.dropped, i.path(s.Name, ""))
}

// judgeOwn tells damage from the end of a write that was cut short and was never acknowledged.
func (i *inspection) judgeOwn(s storefile.Stream) {
	reached, marked := i.mark.reached(s.Name)
	if !marked && s.Last == 0 && len(s.Damage) == 1 && s.Damage[0].Meta { // its creation was cut short
		return
	}
	mended, torn := len(i.report.Mended), false
	for _, d := range s.Damage {
		if d.Meta || marked && d.After < reached || !marked && !d.Tail {
			i.foundRecord(s, d, reached)
			torn = true
		} else {
			i.mended(problemOf(s.Name, d))
		}
	}
	if s.Name == metaStream && marked && s.Last == 0 {
		i.mended(Problem{Stream: s.Name, What: "the second copy of the high-water mark is gone"})
	}
	if torn || len(i.report.Mended) > mended {
		i.mends.torn = append(i.mends.torn, s.Name)
	}
	if marked && s.Last < reached && !i.cutAtEnd(s) {
		i.found(Problem{Stream: s.Name, Seq: s.Last + 1, What: fmt.Sprintf("it ends at position %d but had reached %d", s.Last, reached)})
	}
}

// cutAtEnd reports whether a stream ends early because its last record is damaged, which keeps its position when it is cut out.
func (i *inspection) cutAtEnd(s storefile.Stream) bool {
	return salvageable(s.Name) && slices.ContainsFunc(s.Damage, func(d storefile.Damage) bool { return d.Tail })
}

// judgeMessages keeps what was written before a damage: what was acknowledged before a power loss is in front of what it
// tore. A message or a membership behind it is lost, and what was dealt with may come again.
func (i *inspection) judgeMessages(s storefile.Stream) {
	if slices.ContainsFunc(s.Damage, func(d storefile.Damage) bool { return d.Meta }) {
		i.drop(s, "the messages between agents are damaged; all of them are dropped, and groups have to be joined again")
		return
	}
	i.mends.torn = append(i.mends.torn, s.Name)
	for _, d := range s.Damage {
		i.mended(problemOf(s.Name, d))
		if !d.Tail {
			i.mends.clip(i.path(s.Name, d.File), int64(d.Offset))
		}
	}
}

func problemOf(stream string, d storefile.Damage) Problem {
	p := Problem{Stream: stream, File: d.File, What: "the stream has " + d.What}
	if d.Meta {
		return p
	}
	p.Seq = d.After + 1
	p.What = fmt.Sprintf("at byte %d, after position %d, a record has %s", d.Offset, d.After, d.What)
	if task := taskOf(d.Subject); (strings.HasPrefix(d.Subject, liveRoot) || strings.HasPrefix(d.Subject, archiveRoot)) && isTask(task) {
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
		return isTask(task) && r.Subject == archiveSubject(task) || isRemovedSubject(r.Subject)
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
	case probeStream:
		return r.Subject == probeSubject
	case snapsStream:
		return strings.HasPrefix(r.Subject, "$O."+snapsBucket+".")
	default:
		return believableOther(stream, r.Subject)
	}
}

// believableOther judges the subjects of journals, and of streams that are not orch's: it only tells what no subject is.
func believableOther(stream, subject string) bool {
	if name, isJournal := strings.CutPrefix(stream, journalPrefix); isJournal {
		return subject == journalRoot+"."+name
	}
	return subject != "" && !strings.ContainsFunc(subject, func(c rune) bool { return c <= ' ' || c >= 0x7f })
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

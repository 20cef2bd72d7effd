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

// stateFile is the server's index of a stream. If the file is missing, the server rebuilds it from the blocks.
const stateFile = "msgs/index.db"

// Inspect reads the files of a data directory, without a server, and reports damage: damaged
// records and stream descriptions, missing streams, and streams that end too early. It changes
// nothing. Of the counts in the report, only Records and Last are set. A node may run at the same time, and a write in progress looks
// like damage; so Inspect reads the files again if the first run finds damage. The error is not nil only if the files
// cannot be read; damage is in the report.
func Inspect(ctx context.Context, dataDir string) (Report, error) {
	first := inspection{dir: dataDir, report: Report{FilesOnly: true}}
	if err := first.run(ctx); err != nil || first.report.Found == 0 {
		return first.report, err
	}
	second := inspection{dir: dataDir, report: Report{FilesOnly: true}}
	err := second.run(ctx)
	return second.report, err
}

// prepareStore inspects the store before a server is started. The server may only open an undamaged store: it would
// truncate files that it cannot read, and allocate memory according to positions that it has not checked. prepareStore
// repairs and logs minor damage. If only records of the archive are damaged, their tasks are lost but the node starts. With
// salvage it also removes damaged records from other streams. It returns DATA_LOSS for any other damage.
//
// prepareStore does not read the known blocks that have not changed. It returns them.
func prepareStore(ctx context.Context, dataDir string, known storefile.Known, salvage bool, log *slog.Logger) (storefile.Known, error) {
	i := inspection{dir: dataDir, known: known}
	if err := i.run(ctx); err != nil {
		return nil, err
	}
	return storefile.TrustedBlocks(i.checked, known), i.prepare(ctx, salvage, log)
}

// prepare refuses, salvages or repairs the store that was inspected.
func (i *inspection) prepare(ctx context.Context, salvage bool, log *slog.Logger) error {
	if i.otherProblems > 0 || len(i.damagedBlocks) > 0 && !salvage && !i.onlyArchive() {
		return i.damageFault()
	}
	if len(i.damagedBlocks) > 0 || salvage {
		if err := i.salvage(ctx, log); err != nil {
			return err
		}
	}
	if err := i.repairs.apply(ctx, i.dir, i.streams(), i.report.Mended, log); err != nil {
		return err
	}
	if i.report.Found > 0 || len(i.report.Mended) > 0 {
		return nil
	}
	if err := writeChecked(i.dir, i.checked); err != nil { // the disk may be full
		log.LogAttrs(ctx, slog.LevelWarn, "the next start reads all blocks of the store again", slog.Any("error", err))
	}
	return nil
}

// inspection is one check of the files of a store, including a comparison with the high-water mark.
type inspection struct {
	dir string
	// known are the blocks that need not be read unless they have changed; checked is what the files contain.
	known   storefile.Known
	checked []storefile.Stream
	mark    mark
	report  Report
	repairs repairs
	// damagedBlocks are the blocks with damaged records that a salvage can remove. otherProblems counts all other problems.
	damagedBlocks []damagedBlock
	otherProblems int
}

// onlyArchive reports whether all damaged blocks belong to the archive.
func (i *inspection) onlyArchive() bool {
	return !slices.ContainsFunc(i.damagedBlocks, func(c damagedBlock) bool { return c.stream != archiveStream })
}

func (i *inspection) streams() string { return storefile.Dir(filepath.Join(i.dir, storeDir)) }

func (i *inspection) addProblem(p Problem) {
	i.otherProblems++
	i.report.add(p)
}

// addDamagedRecord adds the problem of a damaged record, and the block of the record to damagedBlocks if a salvage may
// remove the record.
func (i *inspection) addDamagedRecord(s storefile.Stream, d storefile.Damage, reached uint64) {
	p := problemOf(s.Name, d)
	if d.Meta || !salvageable(s.Name) {
		i.addProblem(p)
		return
	}
	i.report.add(p)
	if c := (damagedBlock{stream: s.Name, file: d.File, reached: reached}); !slices.Contains(i.damagedBlocks, c) {
		i.damagedBlocks = append(i.damagedBlocks, c)
	}
}

func (i *inspection) addMended(p Problem) { i.report.Mended = append(i.report.Mended, p) }

func (i *inspection) path(stream, file string) string {
	return filepath.Join(i.streams(), stream, filepath.FromSlash(file))
}

func (i *inspection) damageFault() *fault.Error {
	first := i.report.Problems[0]
	text := first.String()
	if more := i.report.Found - 1; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return fault.New(fault.DataLoss, "the store is damaged: %s", text).
		WithHint("nothing was started or changed; orch verify names all that is damaged, and orch restore brings a backup back")
}

// run reads the files and fills the report, repairs and damagedBlocks.
func (i *inspection) run(ctx context.Context) error {
	if err := i.readMark(); err != nil {
		return err
	}
	i.readJournals()
	i.readSmall()
	streams, err := storefile.CheckNew(ctx, i.streams(), believable, i.known)
	if ctx.Err() != nil {
		return fault.From(ctx.Err())
	}
	if err != nil {
		return fault.Wrap(fault.CodeOf(err), err, "the files of the store cannot be read")
	}
	i.checked = streams
	for _, s := range streams {
		i.examine(s)
		i.report.Records += s.Records
		if s.Name == liveStream {
			i.report.Last = s.Last
		}
	}
	i.missing(streams)
	return nil
}

// readMark reads the file of the high-water mark, and reports a missing store. The directory of the store is created
// before the credentials: if only the credentials exist, the store is lost.
func (i *inspection) readMark() error {
	err := readMarkFile(filepath.Join(i.dir, highWaterFile), &i.mark)
	switch {
	case fault.Has(err, fault.DataLoss):
		i.addProblem(Problem{File: highWaterFile, What: "it is damaged; if nothing else is, delete it: the store has a copy"})
	case err != nil && !fault.Has(err, fault.NotFound):
		return err
	}
	if exists(filepath.Join(i.dir, authFile)) && !exists(filepath.Join(i.dir, storeDir)) {
		i.addProblem(Problem{File: storeDir, What: "the store is gone"})
	}
	return nil
}

// readSmall checks the small files of the data directory beside the store for damage. It ignores files that cannot be read:
// the code that needs them reports the error.
func (i *inspection) readSmall() {
	var auth credentials
	if fault.Has(readSealed(filepath.Join(i.dir, authFile), &auth), fault.DataLoss) {
		i.addProblem(Problem{File: authFile, What: "the credentials are damaged; delete the file: the next start makes new ones, which workers elsewhere need"})
	}
	lost, err := readLost(i.dir)
	if fault.Has(err, fault.DataLoss) {
		i.addProblem(Problem{File: lostFile, What: "the list of earlier losses is damaged"})
	} else {
		i.report.Lost = lost.orNil()
	}
	var version storeVersion
	if fault.Has(readSealed(filepath.Join(i.dir, versionFile), &version), fault.DataLoss) {
		i.addProblem(Problem{File: versionFile, What: "the version of the store is damaged; if no newer orch has used this directory, delete the file"})
	}
	var worker workerInfo
	if path := filepath.Join(i.dir, workFile); fault.Has(readSealed(path, &worker), fault.DataLoss) {
		i.addMended(Problem{File: workFile, What: "the name of the last worker is damaged; its calls are waited for until their leases end"})
		i.repairs.removed = append(i.repairs.removed, path)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// examine decides how to handle damage and stray files in a stream. Even an undamaged stream may have stray files, and
// the server must not read a file that was not checked.
func (i *inspection) examine(s storefile.Stream) {
	i.examineStrays(s)
	switch {
	case slices.Contains(ownStreams(), s.Name) || slices.Contains(journalStreams(), s.Name):
		i.examineOwn(s)
	case len(s.Damage) == 0:
	case s.Name == sessionsStream:
		i.dropStream(s, "the sessions of MCP clients are damaged; clients open new ones")
	case s.Name == probeStream:
		i.dropStream(s, "what the last start tried there is damaged; it is tried anew")
	case s.Name == messagesStream:
		i.examineMessages(s)
	case isOrchStream(s.Name): // of a newer orch, which needs it
		i.examineOwn(s)
	default:
		i.quarantineStream(s.Name, problemOf(s.Name, s.Damage[0]))
	}
}

// examineStrays plans to remove or quarantine stray files. It does not report files that a running server may have.
func (i *inspection) examineStrays(s storefile.Stream) {
	for _, name := range s.Strays {
		if storefile.Derived(name) {
			i.repairs.removed = append(i.repairs.removed, i.path(s.Name, name))
			continue
		}
		p := Problem{Stream: s.Name, File: name, What: "it is none of the files that orch writes; the start sets it aside"}
		i.addMended(p)
		i.repairs.quarantine(i.path(s.Name, name), p)
	}
}

// quarantineStream plans to move a damaged stream that orch does not need to the quarantine.
func (i *inspection) quarantineStream(stream string, p Problem) {
	p.What += "; nothing of orch's depends on the stream, and the start sets it aside"
	i.addMended(p)
	i.repairs.quarantine(i.path(stream, ""), p)
}

// dropStream plans to remove a damaged stream, which is created again when it is needed.
func (i *inspection) dropStream(s storefile.Stream, what string) {
	i.addMended(Problem{Stream: s.Name, What: what})
	i.repairs.removed = append(i.repairs.removed, i.path(s.Name, ""))
}

// examineOwn reports the damage in a stream that orch needs. Damage after the position in the high-water mark is an
// interrupted write that was never acknowledged; the start repairs it. The positions of journals are written only now and then, so
// damage before their last record is a loss in any case.
func (i *inspection) examineOwn(s storefile.Stream) {
	reached, marked := i.mark.reached(s.Name)
	if !marked && s.Last == 0 && len(s.Damage) == 1 && s.Damage[0].Meta { // its creation was interrupted
		return
	}
	mended, torn := len(i.report.Mended), false
	for _, d := range s.Damage {
		if d.Meta || marked && d.After < reached || !d.Tail && (!marked || isJournal(s.Name)) {
			i.addDamagedRecord(s, d, reached)
			torn = true
		} else {
			i.addMended(problemOf(s.Name, d))
		}
	}
	if s.Name == metaStream && marked && s.Last == 0 {
		i.addMended(Problem{Stream: s.Name, What: "the second copy of the high-water mark is gone"})
	}
	if torn || len(i.report.Mended) > mended {
		i.repairs.reindex = append(i.repairs.reindex, s.Name)
	}
	if marked && s.Last < reached && !i.endsInDamage(s) {
		i.addProblem(Problem{Stream: s.Name, Seq: s.Last + 1, What: fmt.Sprintf("it ends at position %d but had reached %d", s.Last, reached)})
	}
}

// endsInDamage reports whether a stream ends early because its last record is damaged. A salvage removes that record, but
// its position is not used again.
func (i *inspection) endsInDamage(s storefile.Stream) bool {
	return salvageable(s.Name) && slices.ContainsFunc(s.Damage, func(d storefile.Damage) bool { return d.Tail })
}

// examineMessages plans to truncate the stream of messages at the first damage. After a power loss, all messages
// acknowledged before it are in front of the damage. Messages and memberships after the damage are lost, and handled
// messages may be delivered again.
func (i *inspection) examineMessages(s storefile.Stream) {
	if slices.ContainsFunc(s.Damage, func(d storefile.Damage) bool { return d.Meta }) {
		i.dropStream(s, "the messages between agents are damaged; all of them are dropped, and groups have to be joined again")
		return
	}
	i.repairs.reindex = append(i.repairs.reindex, s.Name)
	for _, d := range s.Damage {
		i.addMended(problemOf(s.Name, d))
		if !d.Tail {
			i.repairs.truncate(i.path(s.Name, d.File), int64(d.Offset))
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
	task := taskOf(d.Subject)
	if isGroupSubject(d.Subject) {
		task = events.TaskID(headerValue([]byte(d.Header), groupedHeader))
	}
	if (strings.HasPrefix(d.Subject, liveRoot) || strings.HasPrefix(d.Subject, archiveRoot)) && isTask(task) {
		p.Task = task
	}
	return p
}

// missing reports the streams that are in the high-water mark but not in the store.
func (i *inspection) missing(streams []storefile.Stream) {
	for _, name := range i.mark.names() {
		if !slices.ContainsFunc(streams, func(s storefile.Stream) bool { return s.Name == name }) {
			i.addProblem(Problem{Stream: name, What: "the stream is gone"})
		}
	}
}

// believable implements storefile.Believable: it reports whether the subject of a record is possible in its stream. The
// checksum of a message with a header also detects a shifted subject; checkpoints have a header for that reason.
func believable(stream string, r storefile.Record) bool {
	task := taskOf(r.Subject)
	switch stream {
	case liveStream:
		return isTask(task) && r.Subject == liveSubject(task)
	case archiveStream:
		return isTask(task) && r.Subject == archiveSubject(task) || isRemovedSubject(r.Subject) || isGroupSubject(r.Subject)
	case metaStream:
		return slices.ContainsFunc([]string{markKey, faceKey, exportKey, statsKey}, func(key string) bool { return r.Subject == kvSubject(metaBucket, key) }) ||
			strings.HasPrefix(r.Subject, kvSubject(metaBucket, hookSecret))
	case tokensStream:
		return strings.HasPrefix(r.Subject, kvSubject(tokensBucket, ""))
	case sessionsStream:
		return strings.HasPrefix(r.Subject, kvSubject(sessionsBucket, ""))
	case checkpointsStream:
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

// believableOther checks the subject of a record in a journal, or in a stream that orch has not created, which may have any
// valid subject.
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

// isPart reports whether a subject is that of the description of a large value, or of a chunk, which ends with an id of
// fixed length.
func isPart(subject string) bool {
	const root, idLength = "$O." + blobsBucket + ".", 22
	chunk, isChunk := strings.CutPrefix(subject, root+"C.")
	return isChunk && len(chunk) == idLength || strings.HasPrefix(subject, root+"M.")
}

func kvSubject(bucket, key string) string { return "$KV." + bucket + "." + key }

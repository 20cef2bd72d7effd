package bus

import (
	"cmp"
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// maxProblems limits the problems in a report.
const maxProblems = 1000

// Problem is one damage or inconsistency.
type Problem struct {
	// Seq is the affected position in the stream, 0 if unknown.
	Seq uint64 `json:"seq,omitempty"`
	// Task is the affected task, if known.
	Task events.TaskID `json:"task,omitempty"`
	// Stream is the affected stream; empty means the live log. File is the damaged file, if known. Its path is relative
	// to the stream, or to the data directory if Stream is empty.
	Stream string `json:"stream,omitempty"`
	File   string `json:"file,omitempty"`
	// Value is the affected large value.
	Value string `json:"value,omitempty"`
	// What is a description in one sentence.
	What string `json:"what"`
}

// String returns the problem as one line.
func (p Problem) String() string {
	where := p.Stream
	for _, part := range []string{p.File, string(p.Task)} {
		if part != "" && where != "" {
			where += ", "
		}
		where += part
	}
	if where == "" {
		return p.What
	}
	return where + ": " + p.What
}

// Report is the result of Verify.
type Report struct {
	// Last is the newest position that was checked. Records is the number of undamaged records in the files of an
	// embedded server.
	Last    uint64 `json:"last"`
	Records uint64 `json:"records,omitempty"`
	// FilesOnly is set if only the files were checked, because the server must not read damaged files. The counts
	// below are then 0.
	FilesOnly bool `json:"files_only,omitempty"`
	// Live and Archived count readable commits, Tasks the histories of these commits, Blobs large values.
	Live     uint64 `json:"live"`
	Archived uint64 `json:"archived"`
	Tasks    uint64 `json:"tasks"`
	Blobs    uint64 `json:"blobs"`
	// Newer counts commits that a newer orch has written. They do not count as problems; their content was not checked.
	Newer uint64 `json:"newer,omitempty"`
	// Removed counts the tasks that were removed from the archive because of their age.
	Removed uint64 `json:"removed,omitempty"`
	// Expired counts positions that may have expired from the archive by its configured age.
	Expired uint64 `json:"expired,omitempty"`
	// Problems lists the first 1,000 problems, Found counts all.
	Problems []Problem `json:"problems,omitempty"`
	Found    int       `json:"found"`
	// Mended lists harmless damage, which the next start repairs, such as an interrupted write or a damaged second copy
	// of the high-water mark.
	Mended []Problem `json:"mended,omitempty"`
	// Lost lists the losses that a salvage has accepted. They do not count as problems.
	Lost *Lost `json:"lost,omitempty"`
	// StoreVersion is the version of the store, see VersionInfo; 0 if it is not known.
	StoreVersion int `json:"store_version,omitempty"`

	// limit is the maximum number of listed problems; 0 means maxProblems.
	limit int
	// compact is set if there are compressed or linked commits or groups of archived histories.
	compact bool
}

func (r *Report) add(p Problem) {
	r.Found++
	if len(r.Problems) < cmp.Or(r.limit, maxProblems) {
		r.Problems = append(r.Problems, p)
	}
}

// Verify checks the whole store: every record of its files has a correct checksum, every position of the
// log up to the newest is readable or archived, every history is complete with an unbroken hash chain,
// the log reaches the high-water mark, and every large value that a commit refers to exists and has the right digest.
// Damaged files end the check early, because the server must not read them. Verify calls progress, which may be nil, with
// the number of checked positions and their total. If there is a problem, the store refuses appends from then on. The
// error is not nil only if the store cannot be read; problems are in the report.
func (s *Store) Verify(ctx context.Context, progress func(done, total uint64)) (Report, error) {
	report, err := s.verify(ctx, progress)
	if v, unknown := s.Version(ctx); unknown == nil {
		report.StoreVersion = v.Version
	}
	switch {
	case report.Found > 0:
		s.refuseAppends("%s", report.Problems[0])
	case report.Newer > 0:
		s.loss.CompareAndSwap(nil, fault.New(fault.NewerStore, "a newer orch has written %d commits of the log", report.Newer).
			WithHint("the log is read-only; use the newer orch"))
	}
	return report, err
}

func (s *Store) verify(ctx context.Context, progress func(done, total uint64)) (Report, error) {
	return newVerifier(s, progress).run(ctx)
}

func newVerifier(s *Store, progress func(done, total uint64)) *verifier {
	return &verifier{
		store: s, progress: progress, youngest: math.MaxUint64,
		chains: map[events.TaskID]chain{}, archive: map[events.TaskID]chain{}, grouped: map[events.TaskID]chain{},
		removed: map[events.TaskID]bool{}, values: map[string]events.TaskID{},
	}
}

func (v *verifier) run(ctx context.Context) (Report, error) {
	s := v.store
	if server := s.conn.target.server; server != nil {
		files, err := Inspect(ctx, server.cfg.DataDir)
		files.limit = v.report.limit
		if v.report = files; err != nil || v.report.Found > 0 {
			return v.report, err
		}
		v.report.FilesOnly, v.report.Lost = false, s.lostData.orNil()
	}
	if loss := s.loss.Load(); loss != nil && !s.newer() {
		v.addProblem(0, "", loss.Message)
	}
	var err error
	if v.report.Last, err = s.lastSeq(ctx); err != nil && !fault.Has(err, fault.DataLoss) {
		return v.report, err
	}
	v.seen = make([]uint64, v.report.Last/64+1)
	for seq := range s.lostData.positions() {
		v.markSeen(seq)
	}
	for _, step := range []func(context.Context) error{v.readArchive, v.readLive, v.checkGaps, v.readBlobs} {
		if err := step(ctx); err != nil {
			return v.report, err
		}
	}
	v.report.Tasks = uint64(len(v.chains) + len(v.archive))
	return v.report, nil
}

// chain is the state of the check of one history: the last commit that was read.
type chain struct {
	rev   uint64
	hash  string
	parts int  // messages of an archived history
	whole bool // the last message of an archived history was read
	// imported is set for a history that was imported.
	imported bool
}

// verifier is one run of Verify.
type verifier struct {
	store    *Store
	progress func(done, total uint64)
	report   Report
	seen     []uint64 // one bit per position
	epoch    uint64   // the highest epoch so far
	youngest uint64   // the first position too young to have expired from the archive
	chains   map[events.TaskID]chain
	archive  map[events.TaskID]chain
	grouped  map[events.TaskID]chain // histories in groups of the archive, until addGrouped
	removed  map[events.TaskID]bool
	values   map[string]events.TaskID // the large values that commits refer to
}

func (v *verifier) addProblem(seq uint64, task events.TaskID, what string) {
	v.report.add(Problem{Seq: seq, Task: task, What: what})
}

func (v *verifier) markSeen(seq uint64) {
	if seq <= v.report.Last {
		v.seen[seq/64] |= 1 << (seq % 64)
	}
}

func (v *verifier) isSeen(seq uint64) bool { return v.seen[seq/64]&(1<<(seq%64)) != 0 }

// readArchive checks the archived histories and marks the positions of their commits as seen.
func (v *verifier) readArchive(ctx context.Context) error {
	err := v.each(ctx, archiveStream, v.store.archiveLog, v.readPart)
	v.addGrouped()
	return err
}

// addGrouped adds the histories in groups to the archive. Another copy of one, on the task's own subject, is newer if it is whole.
func (v *verifier) addGrouped() {
	for task, c := range v.grouped {
		if !v.archive[task].whole {
			v.archive[task] = c
		}
	}
	clear(v.grouped)
}

// readPart checks one message of an archived history.
func (v *verifier) readPart(e entry) {
	if isRemovedSubject(e.subject) {
		v.readRemoved(e)
		return
	}
	task := archivedTask(e.subject, e.header)
	chains, c := v.archive, v.archive[task]
	if e.isGrouped() { // its message is a whole history
		chains, c, v.report.compact = v.grouped, chain{}, true
	}
	for commit, err := range unframe(e.Data) {
		if err != nil {
			v.addProblem(0, task, fault.From(err).Message)
			break
		}
		v.report.Archived++
		v.markSeen(commit.Seq)
		v.checkLink(&c, task, commit)
	}
	c.parts++
	c.whole = e.header.Get(partHeader) == strconv.Itoa(c.parts)
	c.imported = e.header.Get(importHeader) != ""
	chains[task] = c
	v.checkArchivedHead(e, task, c.rev)
}

// checkArchivedSince checks a history that may have been archived after the archive was read.
func (v *verifier) checkArchivedSince(ctx context.Context, task events.TaskID) {
	parts, err := v.store.archived(ctx, task)
	if err != nil || parts == nil {
		return // readLive reports that the history lacks its beginning
	}
	delete(v.archive, task) // a part of it may have been read
	for _, e := range parts {
		v.readPart(e)
	}
	v.addGrouped()
}

// checkArchivedHead checks the head in the last message of an archived history. It accepts any other message.
func (v *verifier) checkArchivedHead(e entry, task events.TaskID, rev uint64) {
	h, last, err := archivedHead(e.subject, e.header, e.Seq)
	switch {
	case err != nil:
		v.addProblem(0, task, fault.From(err).Message)
	case last && h.Rev != rev:
		v.addProblem(h.Seq, task, "the header of the archived history has revision "+strconv.FormatUint(h.Rev, 10))
	}
}

// readLive checks the live commits.
func (v *verifier) readLive(ctx context.Context) error {
	if v.store.live == nil {
		return nil
	}
	return v.each(ctx, liveStream, v.store.live, func(e entry) {
		if e.Seq > v.report.Last {
			return
		}
		v.report.Live++
		v.report.compact = v.report.compact || e.packed || commitBefore(e.header) > 0
		v.markSeen(e.Seq)
		task := taskOf(e.subject)
		v.checkEpoch(e, task)
		h, err := decodeHead(task, e.header.Get(headHeader), e.Seq)
		c, chains := v.chains[task], v.chains
		if c.rev == 0 && h.Rev > 1 && !v.archive[task].whole {
			v.checkArchivedSince(ctx, task) // a concurrent archiving may have removed the first live commits
		}
		if a := v.archive[task]; a.whole && c.rev == 0 {
			if err == nil && h.Rev <= a.rev {
				return // left by an interrupted archiving
			}
			c, chains = a, v.archive // a commit that was made after an interrupted archiving
		}
		if err != nil {
			v.addProblem(e.Seq, task, fault.From(err).Message)
		}
		if e.damage != nil {
			v.addProblem(e.Seq, task, fault.From(e.damage).Message)
			c = chain{rev: c.rev + 1}
		} else {
			v.checkLink(&c, task, e.Stored)
		}
		if err == nil && h.Rev != c.rev {
			v.addProblem(e.Seq, task, "the header has revision "+strconv.FormatUint(h.Rev, 10))
		}
		chains[task] = c
		if v.progress != nil {
			v.progress(e.Seq, v.report.Last)
		}
	})
}

// checkEpoch checks that no node of a cluster has appended after the next one became active.
func (v *verifier) checkEpoch(e entry, task events.TaskID) {
	text := e.header.Get(epochHeader)
	if text == "" {
		return
	}
	epoch, err := strconv.ParseUint(text, 10, 64)
	switch {
	case err != nil:
		v.addProblem(e.Seq, task, "the header has epoch "+strconv.Quote(text))
	case epoch < v.epoch:
		v.addProblem(e.Seq, task, "the commit is of epoch "+strconv.FormatUint(epoch, 10)+", after one of epoch "+strconv.FormatUint(v.epoch, 10)+
			": a node appended that was not active any more")
	default:
		v.epoch = epoch
	}
}

// checkLink checks that a commit continues the history of its task.
func (v *verifier) checkLink(c *chain, task events.TaskID, s events.Stored) {
	commit, err := events.Decode(s.Data)
	if err == nil && commit.Task != task {
		err = fault.New(fault.DataLoss, "the commit belongs to task %s", commit.Task)
	}
	if err == nil {
		err = commit.CheckLink(c.rev, c.hash)
	}
	switch {
	case fault.Has(err, fault.NewerStore):
		v.report.Newer++
	case err != nil:
		v.addProblem(s.Seq, task, fault.From(err).Message)
	}
	c.rev++
	if commit != nil {
		for ref := range commit.Refs() {
			v.values[ref] = task
		}
		c.rev = commit.Rev
		v.recordAge(s.Seq, commit.At)
	}
	c.hash = events.Hash(s.Data)
}

// recordAge records the position of a commit that is too young to have expired from the archive.
func (v *verifier) recordAge(seq uint64, at time.Time) {
	if seq == 0 { // of an imported commit
		return
	}
	if age := v.store.cfg.ArchiveAge; age == 0 || time.Since(at) < age {
		v.youngest = min(v.youngest, seq)
	}
}

// each calls use for every readable message of a stream. The server ends a page at a message that it cannot read, as it
// does at the end of the stream. So after an empty page, each continues with the next unseen position up to the last.
func (v *verifier) each(ctx context.Context, name string, stream jetstream.Stream, use func(entry)) error {
	info, err := stream.Info(ctx)
	if err != nil {
		return readFault(err)
	}
	for from := max(info.State.FirstSeq, 1); from <= info.State.LastSeq; {
		page, err := v.store.conn.page(ctx, name, "", from, pageCount)
		if err != nil {
			return err
		}
		for _, e := range page {
			use(e)
			from = e.Seq + 1
		}
		if len(page) > 0 {
			continue
		}
		for from++; name == liveStream && from <= v.report.Last && v.isSeen(from); from++ {
		}
	}
	return nil
}

// checkGaps reports incomplete archived histories and the positions of the log without a readable commit.
func (v *verifier) checkGaps(ctx context.Context) error {
	for task, c := range v.archive {
		if _, live := v.chains[task]; !c.whole && !live && !v.removed[task] && !c.imported { // an interrupted import is repeated or stays invisible
			v.addProblem(0, task, "the archived history is incomplete")
		}
	}
	if !v.complete() { // tasks may have been archived in the meantime
		err := v.each(ctx, archiveStream, v.store.archiveLog, func(e entry) {
			if isRemovedSubject(e.subject) {
				v.readRemoved(e) // a task may have been removed in the meantime
				return
			}
			for commit, err := range unframe(e.Data) {
				if err != nil {
					break // the positions in the rest of the message are reported below
				}
				v.markSeen(commit.Seq)
			}
		})
		if err != nil {
			return err
		}
	}
	for seq := uint64(1); seq <= v.report.Last; seq++ {
		switch {
		case v.isSeen(seq):
		case v.store.cfg.ArchiveAge > 0 && seq < v.youngest:
			v.report.Expired++
		default:
			v.addProblem(seq, "", "the commit at position "+strconv.FormatUint(seq, 10)+" cannot be read and is not archived")
		}
	}
	return nil
}

// complete reports whether all positions were seen.
func (v *verifier) complete() bool {
	for seq := uint64(1); seq <= v.report.Last; seq++ {
		if !v.isSeen(seq) {
			return false
		}
	}
	return true
}

// readBlobs checks the large values against their digests. The server also counts messages that it cannot read: if fewer
// messages can be read, the others are damaged.
func (v *verifier) readBlobs(ctx context.Context) error {
	stream, err := v.store.conn.js.Stream(ctx, blobsStream)
	if err != nil {
		return readFault(err)
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return readFault(err)
	}
	readable := uint64(0)
	if err := v.each(ctx, blobsStream, stream, func(entry) { readable++ }); err != nil {
		return err
	}
	if readable < info.State.Msgs {
		v.addProblem(0, "", strconv.FormatUint(info.State.Msgs-readable, 10)+" parts of large values cannot be read")
	}
	all, err := v.store.blobs.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return readFault(err)
	}
	for _, object := range all {
		if _, err := v.store.Get(ctx, object.Name); err != nil {
			v.lostValue(object.Name, v.values[object.Name], "cannot be read: "+fault.From(err).Message)
		}
		delete(v.values, object.Name)
		v.report.Blobs++
	}
	for ref, task := range v.values {
		v.lostValue(ref, task, "is gone")
	}
	return nil
}

// lostValue reports a missing or damaged value, unless a salvage has accepted its loss.
func (v *verifier) lostValue(ref string, task events.TaskID, what string) {
	if _, accepted := v.store.lostData.Values[ref]; !accepted {
		v.report.add(Problem{Task: task, Value: ref, What: "the value " + ref + " " + what})
	}
}

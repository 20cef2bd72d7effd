package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/orch-dev/orch/bus/storefile"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// salvageable reports whether single records may be removed from a stream, because the loss is limited to known tasks. Other
// streams are needed as a whole: a database needs its whole journal, and the lost record of a token may be its revocation.
func salvageable(stream string) bool {
	return slices.Contains([]string{liveStream, archiveStream, blobsStream, checkpointsStream}, stream)
}

// damagedBlock is a block with damaged records.
type damagedBlock struct {
	stream, file string
	// reached is the position that the stream had reached.
	reached uint64
}

// salvager removes damaged records from the blocks of a store. It first copies the blocks to the quarantine.
type salvager struct {
	i    *inspection
	to   quarantine
	lost *Lost
	log  *slog.Logger
	// losses are written once it is certain that all damaged records can be removed.
	losses []loss
}

// salvage removes damaged records. It writes the list of losses to the disk before it changes the first block, so that the
// next start can continue an interrupted salvage.
func (i *inspection) salvage(ctx context.Context, log *slog.Logger) error {
	lost, err := readLost(i.dir)
	if err != nil {
		return err
	}
	s := salvager{i: i, to: newQuarantine(i.dir), lost: lost, log: log}
	blocks := map[damagedBlock][]byte{}
	for _, c := range i.damagedBlocks {
		if blocks[c], err = s.cleanBlock(c); err != nil {
			return err
		}
	}
	if err := s.writeLosses(ctx); err != nil { // written last: a refused salvage records nothing
		return err
	}
	s.lost.Pending = true
	if err := s.lost.write(i.dir); err != nil {
		return err
	}
	for _, name := range []string{indexFile, listsFile} { // they contain the lost tasks
		if err := removeFile(filepath.Join(i.dir, name)); err != nil {
			return err
		}
	}
	for _, c := range i.damagedBlocks {
		if err := s.replaceBlock(c, blocks[c]); err != nil {
			return err
		}
	}
	return nil
}

// cleanBlock returns the content of a block without its damaged records, and records the losses.
func (s *salvager) cleanBlock(c damagedBlock) ([]byte, error) {
	dir := s.i.path(c.stream, "")
	keepSeq := uint64(0)
	newest, err := storefile.Newest(dir, c.file)
	if newest {
		keepSeq = c.reached
	}
	if err != nil {
		return nil, fault.Wrap(fault.CodeOf(err), err, "the blocks of "+c.stream+" cannot be read")
	}
	content, regions, err := storefile.RemoveDamage(dir, c.file, keepSeq, believable)
	if err != nil {
		return nil, fault.Wrap(fault.CodeOf(err), err, "the block "+c.file+" of "+c.stream+" cannot be read")
	}
	for _, r := range regions {
		if err := s.recordLoss(c, r); err != nil {
			return nil, err
		}
	}
	return content, nil
}

// recordLoss records a loss for each task of the records in a damaged region. DATA_LOSS if the region is in the live log
// and not all of its tasks are known: an unknown task would continue as if its commits had never existed.
func (s *salvager) recordLoss(c damagedBlock, r storefile.Region) error {
	p := Problem{Stream: c.stream, File: c.file, Seq: r.After + 1, What: fmt.Sprintf("%d bytes at byte %d, after position %d, were cut out: a record has %s", len(r.Data), r.Offset, r.After, r.What)}
	tasks, err := tasksOf(r)
	if c.stream == liveStream && err != nil {
		return fault.Wrap(fault.DataLoss, err, "damaged commits cannot be given up: "+p.String()).
			WithHint("the store is as it was; orch restore brings a backup back")
	}
	if c.stream != liveStream && c.stream != archiveStream || len(tasks) == 0 {
		s.losses = append(s.losses, loss{s.quarantinePath(c), p})
	} else {
		for _, p.Task = range tasks {
			s.lost.addTask(p.Task, "a record of its history is damaged ("+c.stream+", "+c.file+")")
			s.losses = append(s.losses, loss{s.quarantinePath(c), p})
		}
	}
	return nil
}

// loss is an entry of the quarantine list.
type loss struct {
	location string
	why      Problem
}

// writeLosses adds the records to be removed to the quarantine list.
func (s *salvager) writeLosses(ctx context.Context) error {
	for _, n := range s.losses {
		s.log.LogAttrs(ctx, slog.LevelError, "record_salvaged", slog.String("problem", n.why.String()))
		if err := s.to.record(n.location, n.why); err != nil {
			return err
		}
	}
	return nil
}

// quarantinePath returns where the copy of a block is, relative to the data directory.
func (s *salvager) quarantinePath(c damagedBlock) string {
	name, err := filepath.Rel(s.i.dir, s.i.path(c.stream, c.file))
	if err != nil {
		name = filepath.Join(c.stream, c.file)
	}
	return s.to.location(name)
}

// replaceBlock copies a damaged block to the quarantine and then overwrites it with content, its undamaged records.
func (s *salvager) replaceBlock(c damagedBlock, content []byte) error {
	path := s.i.path(c.stream, c.file)
	copied := filepath.Join(s.i.dir, s.quarantinePath(c))
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(copied), 0o700)
	}
	if err != nil {
		return writeFault(copied, err)
	}
	if err := writeFile(copied, data); err != nil {
		return err
	}
	if len(content) == 0 {
		return removeFile(path)
	}
	return writeFile(path, content)
}

// tasksOf returns the known tasks of the records in a region, and an error if there may be other tasks.
func tasksOf(r storefile.Region) (tasks []events.TaskID, err error) {
	if r.Unsure {
		err = errors.New("more positions are missing than records can be distinguished")
	}
	for i, piece := range r.Pieces {
		more := tasksIn(piece)
		if len(more) == 0 {
			err = fmt.Errorf("the task of record %d of %d is unknown", i+1, len(r.Pieces))
		}
		tasks = append(tasks, more...)
	}
	slices.Sort(tasks)
	return slices.Compact(tasks), err
}

// tasksIn returns the tasks that a damaged record of a history may belong to. The subject, or a header in a group of the archive, and
// the message each contain a task, and either may be damaged. A damaged subject rarely fits its task, and is then ignored. The piece
// may also contain further records with damaged heads, so tasksIn searches it for more commits. A commit begins with commitStart after a line break, which never occurs inside a commit.
func tasksIn(p storefile.Piece) []events.TaskID {
	const field, commitStart = `"task":"`, "\n" + `{"v":`
	var tasks []events.TaskID
	add := func(task events.TaskID) {
		if isTask(task) {
			tasks = append(tasks, task)
		}
	}
	addFirst := func(data []byte) {
		_, rest, _ := bytes.Cut(data, []byte(field))
		task, _, _ := bytes.Cut(rest, []byte(`"`))
		add(events.TaskID(task))
	}
	subject := p.Subject()
	if task := taskOf(subject); isTask(task) && (subject == liveSubject(task) || subject == archiveSubject(task)) {
		add(task)
	}
	if commit, err := unpackCommit(p.Message(), MaxPayload); err == nil {
		addFirst(commit)
	}
	for _, rest := range bytes.Split(p, []byte(groupedHeader+": "))[1:] {
		task, _, _ := bytes.Cut(rest, []byte("\r"))
		add(events.TaskID(task))
	}
	addFirst(p)
	for _, commit := range bytes.Split(p, []byte(commitStart))[1:] {
		addFirst(commit)
	}
	return tasks
}

// finishSalvage completes a salvage that has removed damaged records: it moves the rest of every incomplete history to the
// quarantine, and records the lost tasks, positions and values. If the check of the whole log still finds a problem, the log
// refuses appends.
func (s *Store) finishSalvage(ctx context.Context) error {
	if s.lostData == nil || !s.lostData.Pending {
		return nil
	}
	dataDir := s.conn.target.server.cfg.DataDir
	report, err := s.verifyAll(ctx)
	if err != nil {
		return err
	}
	gone := map[uint64]bool{}
	for _, p := range report.Problems {
		if p.Seq > 0 {
			gone[p.Seq] = true
		}
		switch {
		case p.Value != "":
			s.lostData.addValue(p.Value, p.Task)
		case p.Task != "":
			s.lostData.addTask(p.Task, p.What)
		}
	}
	to := newQuarantine(dataDir)
	for _, task := range slices.Sorted(maps.Keys(s.lostData.Tasks)) {
		if err := s.abandonTask(ctx, to, task, gone); err != nil {
			return err
		}
	}
	s.lostData.addPositions(gone)
	if report, err = s.verifyAll(ctx); err != nil {
		return err
	}
	for _, p := range report.Problems { // positions of the histories that were just removed
		if p.Seq > 0 && p.Task == "" {
			gone[p.Seq] = true
		}
	}
	s.lostData.addPositions(gone)
	if report, err = s.verifyAll(ctx); err != nil {
		return err
	}
	if report.Found > 0 {
		s.refuseAppends("%s", report.Problems[0])
		return nil
	}
	s.cfg.Logger.LogAttrs(ctx, slog.LevelError, "given_up", slog.Int("tasks", len(s.lostData.Tasks)), slog.Int("commits", len(s.lostData.positions())),
		slog.Int("values", len(s.lostData.Values)))
	s.lostData.Pending = false
	return s.lostData.write(dataDir)
}

// verifyAll is like verify, without a limit on the number of listed problems.
func (s *Store) verifyAll(ctx context.Context) (Report, error) {
	v := newVerifier(s, nil)
	v.report.limit = math.MaxInt
	return v.run(ctx)
}

// abandonTask moves the readable commits of a task from the log to the quarantine, so that an incomplete history is not
// mistaken for a complete one. It adds the positions of these commits to gone.
func (s *Store) abandonTask(ctx context.Context, to quarantine, task events.TaskID, gone map[uint64]bool) error {
	var kept bytes.Buffer
	grouped, err := s.grouped(ctx, task)
	if err != nil && !fault.Has(err, fault.DataLoss) {
		return err
	}
	if grouped != nil {
		keepPart(&kept, grouped.Data, gone)
	}
	for _, source := range []struct{ stream, subject string }{{archiveStream, archiveSubject(task)}, {liveStream, liveSubject(task)}} {
		for e, err := range s.conn.walk(ctx, source.stream, source.subject, 1, math.MaxUint64) {
			if err != nil && fault.Has(err, fault.DataLoss) {
				break
			}
			if err != nil {
				return err
			}
			if source.stream == liveStream {
				gone[e.Seq] = true
				frame(&kept, e.Stored)
				continue
			}
			keepPart(&kept, e.Data, gone)
		}
	}
	if kept.Len() == 0 {
		return nil
	}
	name := string(task) + ".commits"
	path := filepath.Join(to.dataDir, to.location(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return writeFault(path, err)
	}
	if err := writeFile(path, kept.Bytes()); err != nil {
		return err
	}
	if err := to.record(to.location(name), Problem{Task: task, What: "its history is not whole; what was left of it was set aside: " + s.lostData.Tasks[task].What}); err != nil {
		return err
	}
	s.cfg.Logger.LogAttrs(ctx, slog.LevelError, "task_given_up", slog.String("task", string(task)), slog.String("why", s.lostData.Tasks[task].What))
	return errors.Join(s.purge(ctx, s.live, liveSubject(task), everything), s.removeArchived(ctx, task),
		s.settle(liveStream), s.settle(archiveStream))
}

// keepPart adds the readable commits in an archive message to kept, and their positions to gone.
func keepPart(kept *bytes.Buffer, part []byte, gone map[uint64]bool) {
	for c, err := range unframe(part) {
		if err != nil {
			return
		}
		gone[c.Seq] = true
		frame(kept, c)
	}
}

// Salvaged is the result of a salvage.
type Salvaged struct {
	// Cut are the damaged records that were removed.
	Cut []Problem `json:"cut,omitempty"`
	// Lost lists all losses that this or an earlier salvage has accepted; nil if there are none.
	Lost *Lost `json:"lost,omitempty"`
	// Aside is the path of the quarantine directory, with the copies and the list.
	Aside string `json:"aside"`
	// Report is the result of the check of the whole log after the salvage.
	Report Report `json:"report"`
}

// Salvage removes damaged records from the store of a data directory, together with the tasks of these records; all other
// tasks stay. It copies every file that it changes to the quarantine first. Errors: CONFLICT if a node runs on the
// directory, DATA_LOSS if the extent of the damage is unknown.
func Salvage(ctx context.Context, dataDir string, log *slog.Logger) (Salvaged, error) {
	done := Salvaged{Aside: filepath.Join(dataDir, quarantineDir)}
	before, err := Inspect(ctx, dataDir)
	if err != nil {
		return done, err
	}
	server, err := StartServer(ctx, ServerConfig{DataDir: dataDir, Logger: log, Salvage: true})
	if err != nil {
		return done, err
	}
	done.Cut = before.Problems
	done.Report, err = server.salvaged(ctx)
	done.Lost = done.Report.Lost
	return done, errors.Join(err, server.Close(ctx))
}

// salvaged opens the store, which completes the salvage, and returns the check of the whole log.
func (s *Server) salvaged(ctx context.Context) (Report, error) {
	conn, err := s.Connect(ctx)
	if err != nil {
		return Report{}, err
	}
	defer conn.Close()
	store, err := conn.OpenStore(ctx, StoreConfig{Logger: s.cfg.Logger})
	if err != nil {
		return Report{}, err
	}
	report, err := store.Verify(ctx, nil)
	return report, errors.Join(err, store.Close(ctx))
}

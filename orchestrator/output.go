package orchestrator

import (
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/work"
)

const (
	// maxShownOutput bounds the pieces of output that are kept of a task for those who watch it, in bytes: four large ones.
	maxShownOutput = 4 * (work.MaxOutput + pieceSize)
	// pieceSize is what a piece takes beside its text.
	pieceSize = 128
	// watchedFor is how long a task counts as watched after a watcher has heard something.
	watchedFor = 10 * time.Second
)

// shownOutput is what those who watch a task see of the output of its running calls. It is in memory alone.
type shownOutput struct {
	pieces []api.Output
	size   int
	last   uint64
	// until is how long somebody watches.
	until time.Time
}

// newer are the pieces after one.
func (s *shownOutput) newer(heard uint64) []api.Output {
	for i := range s.pieces {
		if s.pieces[i].Seq > heard {
			return append([]api.Output(nil), s.pieces[i:]...)
		}
	}
	return nil
}

// add keeps a piece. Its number follows from the time, so that numbers grow over a restart of the node as well.
func (s *shownOutput) add(p api.Output, now time.Time) {
	s.last = max(s.last+1, uint64(max(0, now.UnixMicro())))
	p.Seq = s.last
	s.pieces = append(s.pieces, p)
	s.size += len(p.Text) + pieceSize
	for s.size > maxShownOutput {
		s.size -= len(s.pieces[0].Text) + pieceSize
		s.pieces = s.pieces[1:]
	}
}

// showOutput keeps a piece of the output of a running call for those who watch, and tells the worker whether to go on. The lock is held.
func (ws *workSource) showOutput(e *entry, p work.CallHeartbeat, now time.Time) (goOn bool) {
	if e.output == nil {
		return false
	}
	if p.Output != nil && len(p.Output.Text) <= 2*work.MaxOutput {
		e.output.add(api.Output{Output: *p.Output, Step: p.Step, Attempt: p.Attempt}, now)
		e.notify()
	}
	if now.Before(e.output.until) {
		return true
	}
	e.output = nil
	return false
}

// watchOutput takes up the wish of a watcher for the output of the calls of a task. The lock is held.
func (rd *reader) watchOutput(e *entry, r api.WatchRequest) []api.Output {
	if e.task.State.Terminal() && e.output == nil {
		return nil
	}
	if e.output == nil {
		e.output = &shownOutput{}
	}
	e.output.until = rd.now().Add(min(r.Wait, maxWait) + watchedFor)
	return e.output.newer(r.AfterOutput)
}

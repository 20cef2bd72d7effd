package orchestrator

import (
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/work"
)

const (
	// maxShownOutput limits the output of a task that is buffered for watchers, in bytes: four large pieces.
	maxShownOutput = 4 * (work.MaxOutput + pieceSize)
	// pieceSize is the size of a piece without its text.
	pieceSize = 128
	// watchedFor is how long a task counts as watched after the last request of a watcher.
	watchedFor = 10 * time.Second
)

// shownOutput holds the recent output of the running calls of a watched task. It is in memory only.
type shownOutput struct {
	pieces []api.Output
	// size is the size of the pieces in bytes, last the number of the newest piece.
	size int
	last uint64
	// until is when the task stops counting as watched.
	until time.Time
}

// piecesAfter returns the pieces with numbers greater than seq.
func (s *shownOutput) piecesAfter(seq uint64) []api.Output {
	for i := range s.pieces {
		if s.pieces[i].Seq > seq {
			return append([]api.Output(nil), s.pieces[i:]...)
		}
	}
	return nil
}

// add appends a piece. Its number is derived from the time, so that numbers also grow across a restart of the node.
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

// showOutput stores a piece of output of a running call if the task is watched, and reports whether it is still watched, so
// that the worker should send more. mu must be held.
func (ws *workSource) showOutput(e *entry, p work.CallHeartbeat, now time.Time) (watched bool) {
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

// watchOutput marks the task as watched, and returns the output after r.AfterOutput. mu must be held.
func (rd *reader) watchOutput(e *entry, r api.WatchRequest) []api.Output {
	if e.task.State.Terminal() && e.output == nil {
		return nil
	}
	if e.output == nil {
		e.output = &shownOutput{}
	}
	e.output.until = rd.now().Add(min(r.Wait, maxWait) + watchedFor)
	return e.output.piecesAfter(r.AfterOutput)
}

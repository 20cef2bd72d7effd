package main

import (
	"io"
	"maps"
	"slices"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
)

// nopDisplay shows nothing.
type nopDisplay struct{}

func (nopDisplay) update(followUpdate) error { return nil }
func (nopDisplay) tick() error               { return nil }
func (nopDisplay) close() error              { return nil }

// plainDisplay writes one line per event, and notes to stderr.
type plainDisplay struct {
	env     *env
	w       io.Writer
	written map[string]writtenProgress

	attempts attempts
}

// writtenProgress is the progress of a step that was last written.
type writtenProgress struct {
	text string
	at   time.Time
}

// progressEvery is the minimum interval between two progress lines of a step.
const progressEvery = time.Second / 2

func (p *plainDisplay) update(n followUpdate) error {
	if n.note != "" {
		p.env.note("%s", n.note)
	}
	for _, c := range n.Commits {
		if err := writeLines(p.w, p.attempts.lines(c)); err != nil {
			return err
		}
	}
	return p.progress(n)
}

// progress writes the progress of steps, at most once per progressEvery for each step.
func (p *plainDisplay) progress(n followUpdate) error {
	if p.written == nil {
		p.written = map[string]writtenProgress{}
	}
	now := p.env.now()
	for _, step := range slices.Sorted(maps.Keys(n.Progress)) {
		text := progress(n.Progress[step])
		if last := p.written[step]; last.text == text || now.Sub(last.at) < progressEvery {
			continue
		}
		p.written[step] = writtenProgress{text, now}
		if err := writeLines(p.w, []string{"      " + screen.Escape(step) + "  " + text}); err != nil {
			return err
		}
	}
	return nil
}

func (*plainDisplay) tick() error  { return nil }
func (*plainDisplay) close() error { return nil }

// jsonDisplay writes each commit as one line of JSON to stdout, and notes to stderr.
type jsonDisplay struct{ env *env }

func (r jsonDisplay) update(n followUpdate) error {
	if n.note != "" {
		r.env.note("%s", n.note)
	}
	for _, c := range n.Commits {
		if err := writeLine(r.env.out, c); err != nil {
			return err
		}
	}
	return nil
}

func (jsonDisplay) tick() error  { return nil }
func (jsonDisplay) close() error { return nil }

// liveDisplay redraws the tree of a task in place.
type liveDisplay struct {
	env   *env
	frame *screen.Frame
	style screen.Style
	task  *api.TaskView
	why   []api.Cause
	note  string
}

// newLiveDisplay returns a live display on a terminal.
func newLiveDisplay(e *env, w io.Writer) *liveDisplay {
	return &liveDisplay{env: e, frame: screen.NewFrame(w, e.size), style: e.style(true)}
}

func (l *liveDisplay) update(n followUpdate) error {
	l.note = n.note
	if n.task != nil {
		l.task, l.why = n.task, n.why
	}
	if l.task == nil {
		return nil
	}
	for i, s := range l.task.Steps {
		if p, ok := n.Progress[s.Key]; ok {
			l.task.Steps[i].Progress = &p
		}
	}
	return l.tick()
}

func (l *liveDisplay) tick() error {
	if l.task == nil {
		return nil
	}
	return l.frame.Draw(l.lines())
}

// close draws the complete tree as the last frame, which stays on the terminal.
func (l *liveDisplay) close() error {
	if l.task == nil {
		return nil
	}
	l.note = ""
	return l.frame.Last(l.lines())
}

func (l *liveDisplay) lines() []string {
	lines := treeRenderer{l.style, l.env.now()}.task(*l.task)
	if c := mainCause(l.why); c != nil {
		lines = append(lines, "  "+l.style.Warn(screen.Escape(c.Sentence)))
		if c.Next != "" {
			lines = append(lines, "    "+l.style.Dim("try: "+screen.Escape(c.Next)))
		}
	}
	if l.note != "" {
		lines = append(lines, l.style.Warn(screen.Escape(l.note)))
	}
	return lines
}

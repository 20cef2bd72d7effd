package main

import (
	"io"
	"maps"
	"slices"
	"time"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/orchestrator"
)

// silent shows nothing.
type silent struct{}

func (silent) update(news) error { return nil }
func (silent) tick() error       { return nil }
func (silent) close() error      { return nil }

// plainLines writes one line for each event, and notes to stderr.
type plainLines struct {
	app  *app
	w    io.Writer
	said map[string]said
}

// said is the progress of a step that was written last.
type said struct {
	text string
	at   time.Time
}

// sayEvery is the least time between two lines with the progress of a step.
const sayEvery = time.Second / 2

func (p *plainLines) update(n news) error {
	if n.note != "" {
		p.app.note("%s", n.note)
	}
	for _, c := range n.Commits {
		if err := writeLines(p.w, eventLines(c)); err != nil {
			return err
		}
	}
	return p.progress(n)
}

// progress writes the progress of steps that moved on, now and then.
func (p *plainLines) progress(n news) error {
	if p.said == nil {
		p.said = map[string]said{}
	}
	now := p.app.now()
	for _, step := range slices.Sorted(maps.Keys(n.Progress)) {
		text := progress(n.Progress[step])
		if last := p.said[step]; last.text == text || now.Sub(last.at) < sayEvery {
			continue
		}
		p.said[step] = said{text, now}
		if err := writeLines(p.w, []string{"      " + screen.Escape(step) + "  " + text}); err != nil {
			return err
		}
	}
	return nil
}

func (*plainLines) tick() error  { return nil }
func (*plainLines) close() error { return nil }

// rawLines writes each commit as one line of JSON to stdout, and notes to stderr.
type rawLines struct{ app *app }

func (r rawLines) update(n news) error {
	if n.note != "" {
		r.app.note("%s", n.note)
	}
	for _, c := range n.Commits {
		if err := writeLine(r.app.out, c); err != nil {
			return err
		}
	}
	return nil
}

func (rawLines) tick() error  { return nil }
func (rawLines) close() error { return nil }

// live redraws the tree of a task in place.
type live struct {
	app   *app
	frame *screen.Frame
	style screen.Style
	task  *orchestrator.TaskView
	why   []orchestrator.Cause
	note  string
}

// newLive returns a live display on a terminal.
func newLive(a *app, w io.Writer) *live {
	return &live{app: a, frame: screen.NewFrame(w, a.size), style: a.style(true)}
}

func (l *live) update(n news) error {
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

func (l *live) tick() error {
	if l.task == nil {
		return nil
	}
	return l.frame.Draw(l.lines())
}

// close leaves the whole tree as the last frame.
func (l *live) close() error {
	if l.task == nil {
		return nil
	}
	l.note = ""
	return l.frame.Last(l.lines())
}

func (l *live) lines() []string {
	lines := drawing{l.style, l.app.now()}.task(*l.task)
	if len(l.why) > 0 { // the first cause is the most important one
		lines = append(lines, "  "+l.style.Warn(screen.Escape(l.why[0].Sentence)))
		if next := l.why[0].Next; next != "" {
			lines = append(lines, "    "+l.style.Dim("try: "+screen.Escape(next)))
		}
	}
	if l.note != "" {
		lines = append(lines, l.style.Warn(screen.Escape(l.note)))
	}
	return lines
}

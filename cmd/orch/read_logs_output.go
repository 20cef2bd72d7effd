package main

import (
	"fmt"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
)

// callOutput shows the output of running calls between the log entries of their task.
type callOutput struct {
	log *logBuilder
	// waiting contains the pieces that are not written yet, in order.
	waiting []api.Output
	// ends contains the end offset of the last written piece, by attempt.
	ends map[string]int64
}

// beforeEnd writes the remaining output of the calls that end with a commit. It is called before their results are written.
func (o *callOutput) beforeEnd(c api.CommitView) error {
	for _, e := range c.Events {
		var step string
		switch d := e.Data.(type) {
		case *events.Succeeded:
			step = d.Step
		case *events.StepError:
			step = d.Step
		case *events.Retrying:
			step = d.Step
		default:
			continue
		}
		if err := o.write(func(p api.Output) bool { return p.Step == step }); err != nil {
			return err
		}
	}
	return nil
}

// rest writes the remaining pieces.
func (o *callOutput) rest() error { return o.write(func(api.Output) bool { return true }) }

func (o *callOutput) write(of func(api.Output) bool) error {
	var later []api.Output
	for _, p := range o.waiting {
		if !of(p) {
			later = append(later, p)
			continue
		}
		if err := o.piece(p); err != nil {
			return err
		}
	}
	o.waiting = later
	return nil
}

func (o *callOutput) piece(p api.Output) error {
	if o.ends == nil {
		o.ends = map[string]int64{}
	}
	key := fmt.Sprintf("%s#%d", p.Step, p.Attempt)
	if left := p.From - o.ends[key]; left > 0 {
		if err := o.line(p.Step, fmt.Sprintf("… %d bytes are left out", left)); err != nil {
			return err
		}
	}
	o.ends[key] = p.To
	for line := range strings.Lines(strings.ReplaceAll(p.Text, "\r\n", "\n")) {
		if err := o.line(p.Step, strings.TrimSuffix(line, "\n")); err != nil {
			return err
		}
	}
	return nil
}

func (o *callOutput) line(step, text string) error {
	if i := strings.LastIndexByte(strings.TrimSuffix(text, "\r"), '\r'); i >= 0 {
		text = text[i+1:] // on a terminal, the rest overwrites the text before \r
	}
	return o.log.write(logEntry{At: o.log.env.now(), State: o.log.state, Level: "OUTPUT", Step: step, Message: step + ": " + text})
}

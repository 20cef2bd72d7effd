package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// clock is the format of times: UTC with milliseconds.
const clock = "2006-01-02T15:04:05.000Z"

func stamp(t time.Time) string { return t.UTC().Format(clock) }

// eventDescription is the description of an event for people.
type eventDescription struct {
	// kind is the kind of the event, as it is displayed.
	kind string
	// step is the step key, "" for events about the task.
	step string
	// text contains the details. It is not escaped.
	text string
}

// describe returns the description of an event.
func describe(e events.Event) eventDescription {
	f := describeStep(e)
	f.kind = kindOf(e)
	return f
}

// kindOf returns the kind of an event for people. An event file.read is not described as reading, because it records that the
// task knows the content of a file, after reading or writing it.
func kindOf(e events.Event) string {
	if e.Kind == events.FileRead {
		return "file.known"
	}
	return string(e.Kind)
}

func describeStep(e events.Event) eventDescription {
	switch d := e.Data.(type) {
	case *events.Ready:
		return eventDescription{step: d.Step, text: d.Tool + attemptText(d.Attempt)}
	case *events.Called:
		return eventDescription{step: d.Step, text: "by " + d.Worker + attemptText(d.Attempt)}
	case *events.Succeeded:
		return eventDescription{step: d.Step, text: durationText(d.Duration)}
	case *events.StepError:
		return eventDescription{step: d.Step, text: errorText(d.Error)}
	case *events.Retrying:
		if d.Round > 0 {
			return eventDescription{step: d.Step, text: fmt.Sprintf("round %d is not as awaited; again at %s", d.Round, stamp(d.At))}
		}
		return eventDescription{step: d.Step, text: fmt.Sprintf("%s%s; again at %s", errorText(d.Error), handedOn(d.Handed), stamp(d.At))}
	case *events.Skipped:
		return eventDescription{step: d.Step, text: d.Reason}
	case *events.InDoubt:
		return eventDescription{step: d.Step, text: d.Reason + mayRun(d.Until)}
	case *events.Resolved:
		return eventDescription{step: d.Step, text: "as " + d.As + " by " + d.By}
	case *events.Expanded:
		return eventDescription{step: d.Step, text: screen.Plural(len(d.Items), "item")}
	case *events.Divided:
		return eventDescription{step: d.Step, text: fmt.Sprintf("%s in parts of %d", screen.Plural(d.Total, "item"), d.Size)}
	case *events.Charged:
		return eventDescription{step: d.Step, text: string(d.Child) + ": " + spentText(d.Cost)}
	case *events.Part:
		return eventDescription{step: d.Step, text: fmt.Sprintf("%s from %d", screen.Plural(d.Count, "item"), d.First)}
	case *events.Waiting:
		return eventDescription{step: d.Step, text: waitingReason(d)}
	case *events.Spawned:
		if d.Agent != "" {
			return eventDescription{step: d.Step, text: d.Agent + " as task " + string(d.Child)}
		}
		return eventDescription{step: d.Step, text: "task " + string(d.Child)}
	case *events.Reused:
		return eventDescription{step: d.Step, text: "result of " + string(d.From)}
	case *events.Parked:
		return eventDescription{step: d.Step, text: waitsFor(d)}
	case *events.Noted:
		return eventDescription{step: d.Step, text: "goes on elsewhere" + attemptText(d.Attempt) + ": " + clipNote(d.Note)}
	case *events.Question:
		return eventDescription{step: d.Step, text: fmt.Sprintf("%s until %s: %s, %s", d.ID, stamp(d.ExpiresAt), d.Kind, d.Key)}
	case *events.Approval:
		return eventDescription{step: d.Step, text: fmt.Sprintf("%s until %s: %s", d.ID, stamp(d.ExpiresAt), cmp.Or(d.Rationale, d.Description))}
	case *events.Refused:
		return eventDescription{step: d.Step, text: fmt.Sprintf("from %s%s: %s", d.Worker, attemptText(d.Attempt), d.Reason)}
	case *events.Logged:
		return eventDescription{step: d.Step, text: d.Level + " " + d.Message}
	case *events.Agent, *events.Turn, *events.Answered, *events.LostTurn, *events.RefusedTurn, *events.Extended, *events.Told:
		return eventDescription{step: events.StepOf(d), text: describeAgent(d)}
	default:
		return eventDescription{text: describeTask(e)}
	}
}

// describeAgent returns the details of an event of an agent.
func describeAgent(p events.Payload) string {
	switch d := p.(type) {
	case *events.Agent:
		return strings.Join(d.ModelNames(), ", then ")
	case *events.Turn:
		text := fmt.Sprintf("turn %d%s", d.Turn, reservedText(d.Reserved))
		if d.Summarizes > 0 {
			text += fmt.Sprintf("; it summarizes turns 1 to %d", d.Summarizes)
		}
		return text
	case *events.Answered:
		text := fmt.Sprintf("turn %d: %d + %d tokens", d.Turn, d.Usage.Request(), d.Usage.Output)
		if d.NanoUSD > 0 {
			text += ", $" + events.Dollars(d.NanoUSD)
		}
		if d.Calls > 0 {
			text += ", " + screen.Plural(d.Calls, "call")
		}
		return text
	case *events.LostTurn:
		return fmt.Sprintf("turn %d: the answer was lost, and may have been billed%s", d.Turn, reservedText(d.Cost))
	case *events.RefusedTurn:
		return fmt.Sprintf("turn %d: the request is too long; from now on it has about %d tokens at most", d.Turn, d.CompactAt)
	case *events.Extended:
		return "by approval " + d.Approval
	case *events.Told:
		return describeTold(d)
	default:
		return ""
	}
}

// describeTold says who has said something to an agent. The text may be large, and is in the conversation.
func describeTold(d *events.Told) string {
	switch {
	case d.Text.IsZero():
		return d.By + " ends the chat"
	case d.End:
		return d.By + " says something, and ends the chat"
	default:
		return d.By + " says something"
	}
}

// reservedText says what a turn costs at most.
func reservedText(s events.Spent) string {
	if s.NanoUSD == 0 {
		return fmt.Sprintf(", at most %d tokens", s.Tokens)
	}
	return ", at most $" + events.Dollars(s.NanoUSD)
}

// mayRun returns a text about the time until which a call in doubt may still run.
func mayRun(until time.Time) string {
	if until.IsZero() {
		return ""
	}
	return "; it may run until " + stamp(until)
}

func describeTask(e events.Event) string {
	switch d := e.Data.(type) {
	case *events.Submitted:
		return d.Name
	case *events.Moved:
		if d.Error != nil {
			return errorText(d.Error)
		}
		return d.Reason
	case *events.Paused:
		return d.Reason
	case *events.CancelRequested:
		return d.Reason
	case *events.Ending:
		if d.Error == nil {
			return ""
		}
		return errorText(d.Error)
	case *events.Signal:
		return d.Name
	case *events.Met:
		return string(d.Task) + " is " + d.State
	case *events.Read:
		return fmt.Sprintf("%s (sha256 %.12s)", d.Path, d.SHA256)
	case *events.Changed:
		return d.How + " " + d.Path
	case *events.Checkpointed:
		return d.Name + " " + d.ID
	case *events.Restored:
		return d.ID
	case *events.Decision:
		return strings.TrimSuffix(d.ID+" by "+d.Approver+": "+d.Reason, ": ")
	case *events.Used:
		return d.ID + " by " + string(d.By)
	case *events.Elapsed:
		return d.ID
	case *events.Answer:
		return strings.TrimSuffix(d.ID+" by "+d.By+": "+d.Action, ": ")
	case *events.Unanswered:
		return d.ID + ": " + d.Reason
	default:
		return ""
	}
}

// waitsFor returns a text about what a parked step waits for.
func waitsFor(d *events.Parked) string {
	if len(d.Questions) > 0 {
		return "waits for answers to " + strings.Join(d.Questions, ", ")
	}
	return "waits for approval " + d.Approval
}

// longestNote limits the bytes of a note or another value on a line. The history as JSON contains all of it.
const longestNote = 120

func clipNote(note json.RawMessage) string {
	if len(note) <= longestNote {
		return string(note)
	}
	return strings.ToValidUTF8(string(note[:longestNote]), "") + "…"
}

// valueText returns the beginning of the arguments or of the result of a call in an event; "" for none.
func valueText(e events.Event) string {
	var v events.Value
	switch d := e.Data.(type) {
	case *events.Ready:
		v = d.Args
	case *events.Succeeded:
		v = d.Output
	}
	switch {
	case v.Ref() != "":
		return fmt.Sprintf(" (%d bytes)", v.Size())
	case v.IsZero(), string(v.Raw) == "{}", string(v.Raw) == "null":
		return ""
	default:
		return " " + clipNote(v.Raw)
	}
}

// handedOn returns a text about the data that an agent hands over with a call.
func handedOn(v events.Value) string {
	switch {
	case v.IsZero():
		return ""
	case len(v.Raw) == 0:
		return ", with data"
	}
	return ", with " + clipNote(v.Raw)
}

func attemptText(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(", attempt %d", n)
}

func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return "in " + screen.Duration(d)
}

func errorText(e *fault.Error) string {
	if e == nil {
		return "no error given"
	}
	return e.Error()
}

func waitingReason(d *events.Waiting) string {
	var parts []string
	if d.Signal != "" {
		parts = append(parts, "for signal "+d.Signal)
	}
	if d.Until != nil {
		parts = append(parts, "until "+stamp(*d.Until))
	}
	return strings.Join(parts, " ")
}

// line formats the description as one escaped line.
func (f eventDescription) line(rev uint64, at time.Time) string {
	parts := []string{fmt.Sprintf("%4d  %s  %-23s", rev, stamp(at), f.kind)}
	for _, part := range []string{f.step, f.text} {
		if part != "" {
			parts = append(parts, screen.Escape(part))
		}
	}
	return strings.TrimRight(strings.Join(parts, "  "), " ")
}

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// treeRenderer draws a task as a tree of its steps.
type treeRenderer struct {
	style screen.Style
	now   time.Time
}

// task returns a line for the task and one for each step.
func (d treeRenderer) task(t api.TaskView) []string {
	end := d.now
	if t.EndedAt != nil {
		end = *t.EndedAt
	}
	head := d.state(t.State) + "  " + d.style.Bold(screen.Escape(t.Name)) + "  " +
		d.style.Dim(string(t.ID)+"  "+screen.Duration(end.Sub(t.CreatedAt)))
	if t.Paused {
		head += "  " + d.style.Warn("paused")
	}
	if t.Reason != "" {
		head += "  " + screen.Line(t.Reason)
	}
	lines := []string{head}
	width := 0
	for _, s := range t.Steps {
		width = max(width, 2*depth(s.Key)+len(leafName(s.Key)))
	}
	for _, s := range t.Steps {
		lines = append(lines, d.step(s, min(width, 40)))
	}
	return lines
}

// depth returns the nesting depth of a step key: 0 for "read", 1 for "each[3].read" and for "each[0..999]", a part.
func depth(key string) int {
	if isPart(key) {
		return 1
	}
	if _, call := statemachine.SplitCall(key); call != "" {
		return strings.Count(key, ".") - 1
	}
	return strings.Count(key, ".")
}

// isPart reports whether a step key names a part of a for_each.
func isPart(key string) bool { return strings.HasSuffix(key, "]") }

// leafName returns the last part of a step key, with its index: "[3] read" for "each[3].read". The tree shows the for_each above.
func leafName(key string) string {
	if isPart(key) {
		return key[strings.LastIndex(key, "["):]
	}
	if _, call := statemachine.SplitCall(key); call != "" {
		return call
	}
	at := strings.LastIndex(key, ".")
	if at < 0 {
		return key
	}
	if open := strings.LastIndex(key[:at], "["); open >= 0 {
		return key[open:at] + " " + key[at+1:]
	}
	return key[at+1:]
}

func (d treeRenderer) step(s api.StepView, width int) string {
	indent := strings.Repeat("  ", depth(s.Key))
	name := fmt.Sprintf("%-*s", width, indent+screen.Escape(leafName(s.Key)))
	parts := []string{"  " + d.mark(s.State) + " " + name}
	what := s.Tool
	if what == "" {
		what = s.Kind
	}
	parts = append(parts, d.style.Dim(fmt.Sprintf("%-16s", screen.Escape(what))), d.timing(s))
	if s.For != nil {
		parts = append(parts, d.agent(s))
	}
	if s.Tries > 1 {
		parts = append(parts, d.style.Warn(fmt.Sprintf("attempt %d", s.Tries)))
	}
	if s.Progress != nil && !s.State.Terminal() {
		parts = append(parts, d.style.Active(progress(*s.Progress)))
	}
	if why := d.why(s); why != "" {
		parts = append(parts, why)
	}
	return strings.TrimRight(strings.Join(parts, "  "), " ")
}

// agent describes a call for agents, and the agent that executes or has executed it.
func (d treeRenderer) agent(s api.StepView) string {
	who := "no agent yet"
	if s.Worker != "" {
		who = s.Worker
	}
	return strings.TrimRight(screen.Escape(who)+"  "+d.style.Dim(screen.Line(s.Title)), " ")
}

// timing returns the time that the step took, or has been running.
func (d treeRenderer) timing(s api.StepView) string {
	text := ""
	switch {
	case s.State.Terminal() && s.Duration > 0:
		text = screen.Duration(s.Duration)
	case s.State == statemachine.StepRunning && s.Since != nil:
		text = screen.Duration(d.now.Sub(*s.Since).Truncate(time.Second / 10))
	}
	return fmt.Sprintf("%6s", text)
}

// why returns what the step waits for, or its error.
func (d treeRenderer) why(s api.StepView) string {
	var parts []string
	if s.Error != nil {
		parts = append(parts, d.style.Bad(screen.Line(s.Error.Error())))
	}
	if s.Signal != "" && !s.State.Terminal() {
		parts = append(parts, "waits for signal "+screen.Escape(s.Signal))
	}
	if s.State == statemachine.StepParked && s.Reason == "" { // a step that waits for answers has a Reason
		parts = append(parts, "waits for approval "+s.Approval)
	}
	if s.Due != nil && !s.State.Terminal() {
		verb := "ends"
		if s.State == statemachine.StepPending {
			verb = "again"
		}
		parts = append(parts, verb+" "+dueText(d.now, *s.Due))
	}
	if s.Child != "" {
		parts = append(parts, d.style.Dim(string(s.Child)))
	}
	if s.Reason != "" {
		parts = append(parts, d.style.Dim(screen.Line(s.Reason)))
	}
	return strings.Join(parts, ", ")
}

func dueText(now, at time.Time) string {
	switch left := at.Sub(now).Round(time.Second); {
	case left <= 0:
		return "now"
	case left < time.Minute:
		return fmt.Sprintf("in %ds", int(left.Seconds()))
	default:
		return "in " + screen.Duration(left)
	}
}

// progress formats MCP progress, with a bar if the total is known.
func progress(p work.Progress) string {
	text := ""
	if p.Total > 0 {
		const width = 10
		full := int(min(max(p.Done/p.Total, 0), 1) * width)
		text = "[" + strings.Repeat("=", full) + strings.Repeat(" ", width-full) + fmt.Sprintf("] %g/%g", p.Done, p.Total)
	} else if p.Done > 0 {
		text = fmt.Sprintf("%g", p.Done)
	}
	return strings.TrimSpace(text + " " + screen.Escape(p.Message))
}

func (d treeRenderer) mark(s statemachine.StepState) string {
	switch s {
	case statemachine.StepSucceeded:
		return d.style.Good("✓")
	case statemachine.StepFailed:
		return d.style.Bad("✗")
	case statemachine.StepInDoubt:
		return d.style.Bad("?")
	case statemachine.StepRunning:
		return d.style.Active("▸")
	case statemachine.StepReady, statemachine.StepParked:
		return d.style.Warn("•")
	case statemachine.StepSkipped, statemachine.StepCancelled:
		return d.style.Dim("-")
	case statemachine.StepPending:
		return d.style.Dim("·")
	default:
		return " "
	}
}

func (d treeRenderer) state(s statemachine.State) string {
	switch s {
	case statemachine.Done, statemachine.Completed:
		return d.style.Good(string(s))
	case statemachine.Failed:
		return d.style.Bad(string(s))
	case statemachine.Blocked, statemachine.AwaitingApproval:
		return d.style.Warn(string(s))
	case statemachine.Cancelled:
		return d.style.Dim(string(s))
	case statemachine.NeedsAction, statemachine.Assigned, statemachine.Planning, statemachine.InProgress:
		return d.style.Active(string(s))
	default:
		return string(s)
	}
}

// showTask writes a task in the selected output format.
func (e *env) showTask(t api.TaskView) error {
	return e.emit(view{data: t, names: []string{string(t.ID)}, text: func(w io.Writer) error {
		lines := treeRenderer{e.style(e.outTTY), e.now()}.task(t)
		lines = append(lines, properties(t)...)
		lines = append(lines, errorTexts(t)...)
		if len(t.Output) > 0 {
			lines = append(append(lines, "", "outputs:"), indent(screen.Object(t.Output))...)
		}
		return writeLines(w, lines)
	}})
}

// errorTexts returns the full texts of the errors of a task. The tree shows only their beginnings. They are the error of the
// task, and errors of steps that it does not contain.
func errorTexts(t api.TaskView) []string {
	var lines []string
	taskError := ""
	if t.Error != nil {
		taskError = t.Error.Error()
		lines = append(append(lines, ""), textLines("error: "+taskError)...)
		if t.Error.Hint != "" {
			lines = append(lines, textLines("hint: "+t.Error.Hint)...)
		}
	}
	for _, s := range t.Steps {
		if s.Error == nil || screen.Line(s.Error.Error()) == screen.Escape(s.Error.Error()) || strings.Contains(taskError, s.Error.Message) {
			continue
		}
		lines = append(append(lines, ""), textLines("error of "+s.Key+": "+s.Error.Error())...)
	}
	return lines
}

// properties returns a line for each property of a task that has a value.
func properties(t api.TaskView) []string {
	lines := []string{""}
	add := func(name, value string) {
		if value != "" {
			lines = append(lines, name+": "+screen.Escape(value))
		}
	}
	add("summary", t.Summary)
	if s := t.Schedule; s != nil {
		add("schedule", s.Name+" at "+stamp(s.Time))
	}
	if h := t.Hook; h != nil {
		text := h.Name + ", delivery " + h.ID
		if h.Hops > 0 {
			text += ", after " + screen.Plural(h.Hops, "destination")
		}
		add("hook", text)
	}
	add("created", stamp(t.CreatedAt))
	add("updated", stamp(t.UpdatedAt))
	if t.Deadline != nil {
		add("deadline", stamp(*t.Deadline))
	}
	add("imported", importText(t))
	add("priority", t.Priority)
	add("queue", t.Queue)
	var marks []string
	for _, key := range slices.Sorted(maps.Keys(t.Labels)) {
		marks = append(marks, key+"="+t.Labels[key])
	}
	add("labels", strings.Join(marks, " "))
	add("parent", string(t.Parent))
	add("retry of", string(t.RetryOf))
	if t.ForkOf != "" {
		add("fork of", fmt.Sprintf("%s at revision %d", t.ForkOf, t.ForkAt))
	}
	for _, id := range t.DependsOn {
		add("waits for", string(id))
	}
	for _, h := range t.Holds {
		text := "by " + h.By + " since " + stamp(h.At) + ": " + h.Reason
		if h.Task != t.ID {
			text += " (" + string(h.Task) + ")"
		}
		add("held", text)
	}
	for _, c := range t.Checkpoints {
		add("checkpoint", c.ID+"  "+c.Name+"  "+stamp(c.At))
	}
	if len(t.Inputs) > 0 && string(t.Inputs) != "{}" {
		lines = append(append(lines, "inputs:"), indent(screen.Object(t.Inputs))...)
	}
	return lines
}

// importText says how a task was imported; "" for a task of this node.
func importText(t api.TaskView) string {
	if t.Imported == nil {
		return ""
	}
	i := t.Imported
	return "by " + i.By + " on " + stamp(i.At) + ", as of revision " + screen.Number(int(t.Rev)) + ", signed by " + i.Fingerprint + "; only read" //nolint:gosec // a count
}

func indent(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = "  " + line
	}
	return out
}

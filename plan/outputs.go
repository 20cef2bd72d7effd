package plan

import (
	"cmp"
	"slices"
	"strings"
)

// stepStates returns the step states that an expression can see.
func stepStates() []string {
	return []string{"pending", "ready", "running", "succeeded", "failed", "skipped", "parked", "in_doubt", "cancelled"}
}

// resultOf returns the shape of steps.<id>.
func (l *linker) resultOf(s *Step) *shape {
	if l.results[s] == nil { // a plan may refer to it many times
		l.results[s] = &shape{fields: map[string]*shape{"output": l.outputOf(s), "state": oneOfWords(stepStates()...)}}
	}
	return l.results[s]
}

// outputOf returns the shape of the output of a step.
func (l *linker) outputOf(s *Step) *shape {
	switch s.Kind {
	case KindTool:
		return l.toolOutput(s.Tool)
	case KindSet:
		return shapeOfTemplate(s.Set)
	case KindApprove:
		return l.answerOf(s.Approve)
	case KindAgent:
		return s.Agent.outputShape()
	case KindForEach:
		fields := map[string]*shape{"error": nil, s.As: nil}
		for _, child := range unfold(s.Do) {
			fields[child.ID] = l.outputOf(child)
		}
		return arrayOf(object(fields))
	case KindSwitch:
		return s.chosenShape()
	case KindRun:
		return shapeOfTemplate(orEmpty(s.Run.Outputs))
	case KindWait:
		if s.Wait.Signal == "" {
			return object(nil) // it is always null
		}
	}
	return nil
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// answerOf returns the shape of the output of an approve step.
func (l *linker) answerOf(a *Approve) *shape {
	text := &shape{kinds: []string{"string"}}
	fields := map[string]*shape{
		"approval_id": text, "status": oneOfWords("granted", "rejected", "expired"), "approver": text, "reason": text, "decided_at": text,
		"form": object(nil), // without a form it is null
	}
	if a.Form != nil {
		fields["form"] = shapeOfSchema(a.Form)
	}
	return object(fields)
}

// toolOutput returns the shape of a tool's output, from its schema.
func (l *linker) toolOutput(name string) *shape {
	if l.opt.Tool == nil || name == "" {
		return nil
	}
	return &shape{later: func() *shape {
		s, read := l.toolShapes[name]
		if read {
			return s
		}
		if info, ok := l.opt.Tool(name); ok && info.Output != nil {
			s = shapeOfSchema(info.Output())
		}
		l.toolShapes[name] = s
		return s
	}}
}

// stepNamed returns the step that an id refers to in the scope, or nil.
func (s *scope) stepNamed(id string) *Step {
	named := func(step *Step) bool { return step.ID == id }
	for _, steps := range [][]*Step{s.siblings, unfold(s.linker.steps(cmp.Or(s.linker.sections[id], sectionSteps)))} {
		if i := slices.IndexFunc(steps, named); i >= 0 {
			return steps[i]
		}
	}
	return nil
}

// inputsShape returns the shape of the inputs of the plan. It does not report unknown names; references.input does.
func (l *linker) inputsShape() *shape {
	if l.inputsCache == nil {
		l.inputsCache = &shape{}
		if known := shapeOfSchema(l.plan.Inputs); l.plan.Inputs != nil && known != nil {
			l.inputsCache.fields = known.fields
		}
	}
	return l.inputsCache
}

// suggestWord returns a hint for a string that is not in words.
func (p location) suggestWord(text string, words []string) string {
	for _, word := range words {
		if slices.Contains(otherWords()[word], strings.ToLower(text)) {
			return "did you mean " + word + "?"
		}
	}
	return p.suggest(text, words, "it is one of "+strings.Join(words, ", "))
}

// otherWords maps the states of steps and approvals to the names that other programs use for them.
func otherWords() map[string][]string {
	return map[string][]string{
		"granted":   {"approved", "approve", "accepted", "allowed", "yes", "ok"},
		"rejected":  {"denied", "declined", "refused", "no"},
		"expired":   {"timeout", "timed_out", "timedout"},
		"succeeded": {"success", "successful", "ok", "done", "completed", "complete", "passed"},
		"failed":    {"failure", "error", "errored"},
		"cancelled": {"canceled", "aborted"},
		"running":   {"started", "in_progress"},
	}
}

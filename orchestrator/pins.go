package orchestrator

import (
	"path/filepath"
	"slices"
	"strconv"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// This file holds the programs that a plan names (`allow.programs`). Their content is noted in the first event of the task: what a
// program has become since then nobody has submitted.

// maxPinned bounds the programs that a plan names.
const maxPinned = 100

// pin returns the programs that a plan names, with their content. A child, and a task that goes on for another one, has those of
// the task that it comes from, and who may open nothing by a plan has none.
func (cp *compiler) pin(names []string, extra submitExtra) ([]events.Program, error) {
	if len(names) == 0 || slices.ContainsFunc(extra.within, func(a events.Allow) bool { return len(a.Programs) == 0 }) {
		return nil, nil
	}
	if len(names) > maxPinned {
		return nil, tooMany("allow.programs", len(names), maxPinned)
	}
	var pins []events.Program
	for i, name := range names {
		if !filepath.IsAbs(name) {
			name = filepath.Join(cp.cfg.Root, name)
		}
		p, err := cp.cfg.Program(name)
		switch {
		case extra.comesFromAnother():
			pins = append(pins, samePath(extra.programs, p.Path)...)
		case err != nil:
			f := *fault.From(err)
			f.Field = "allow.programs[" + strconv.Itoa(i) + "]"
			return nil, &f
		default:
			pins = append(pins, p)
		}
	}
	return pins, nil
}

// samePath returns those programs that have a path; none when it is not known.
func samePath(all []events.Program, path string) []events.Program {
	return slices.DeleteFunc(slices.Clone(all), func(p events.Program) bool { return path == "" || p.Path != path })
}

// comesFromAnother reports whether the task is a child, or goes on for another one.
func (x submitExtra) comesFromAnother() bool { return x.parent != nil || x.origin != "" }

// programsOf are the programs that the plan of a task opens.
func programsOf(sub *events.Submitted) []events.Program {
	if sub.Allow == nil {
		return nil
	}
	return sub.Allow.Programs
}

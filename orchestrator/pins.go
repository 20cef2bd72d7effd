package orchestrator

import (
	"path/filepath"
	"slices"
	"strconv"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// The programs that a plan names (`allow.programs`) are pinned: the first event of the task records the hashes of their
// content. A file that changes later is no longer the program that was submitted.

// maxPinned limits the programs that a plan names.
const maxPinned = 100

// pin returns the programs that a plan names, with the hashes of their content. A child task, or a task that continues another
// task, gets the programs that were pinned for that task. If an entry of extra.within allows no programs, pin returns none.
func (cp *compiler) pin(names []string, root string, extra *submitExtra) ([]events.Program, error) {
	if len(names) == 0 || slices.ContainsFunc(extra.within, func(a events.Allow) bool { return len(a.Programs) == 0 }) {
		return nil, nil
	}
	if len(names) > maxPinned {
		return nil, tooMany("allow.programs", len(names), maxPinned)
	}
	var pins []events.Program
	for i, name := range names {
		if !filepath.IsAbs(name) {
			name = filepath.Join(root, name)
		}
		p, err := cp.cfg.Program(root, name)
		switch {
		case extra.fromAnotherTask():
			pins = append(pins, programsAt(extra.programs, p.Path)...)
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

// programsAt returns the programs whose path is path, or none if path is empty.
func programsAt(all []events.Program, path string) []events.Program {
	return slices.DeleteFunc(slices.Clone(all), func(p events.Program) bool { return path == "" || p.Path != path })
}

// fromAnotherTask reports whether the task is a child, or continues another task.
func (x *submitExtra) fromAnotherTask() bool { return x.parent != nil || x.origin != "" }

// programsOf returns the programs that were pinned for a task.
func programsOf(sub *events.Submitted) []events.Program {
	if sub.Allow == nil {
		return nil
	}
	return sub.Allow.Programs
}

package plan

import (
	"maps"
	"slices"
)

// Tools returns the sorted names of all tools that the plan and its sub-plans may call.
func (p *Plan) Tools() []string {
	names := map[string]bool{}
	p.collectTools(names)
	return slices.Sorted(maps.Keys(names))
}

func (p *Plan) collectTools(names map[string]bool) {
	for _, steps := range [][]*Step{p.Steps, p.Verify, p.Always} {
		collectTools(steps, names)
	}
}

func collectTools(steps []*Step, names map[string]bool) {
	for _, s := range steps {
		if s.Tool != "" {
			names[s.Tool] = true
		}
		if s.Verify != nil {
			names[s.Verify.Tool] = true
		}
		collectTools(s.inner(), names)
		if s.Run != nil {
			s.Run.collectTools(names)
		}
	}
}

// toolNames parses `limits.tools`. It may name tools that only another node has.
func (c cursor) toolNames() []string {
	names := c.texts()
	if len(names) == 0 || slices.Contains(names, "") {
		c.report("the list names the tools that may be called", "leave it out to allow any")
	}
	return names
}

// Queues returns the sorted names of the work queues in the plan and its sub-plans.
func (p *Plan) Queues() []string {
	names := map[string]bool{}
	p.collectQueues(names)
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}

func (p *Plan) collectQueues(names map[string]bool) {
	if p.Defaults != nil {
		names[p.Defaults.Queue] = true
	}
	for _, steps := range [][]*Step{p.Steps, p.Verify, p.Always} {
		collectQueues(steps, names)
	}
}

func collectQueues(steps []*Step, names map[string]bool) {
	for _, s := range steps {
		names[s.Queue] = true
		collectQueues(s.inner(), names)
		if s.Run != nil {
			s.Run.collectQueues(names)
		}
	}
}

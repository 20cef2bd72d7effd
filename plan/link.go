package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// The sections of a plan that contain steps.
const (
	sectionSteps  = "steps"
	sectionVerify = "verify"
	sectionAlways = "always"
)

// linker turns a plan into a program: it resolves references and compiles expressions.
type linker struct {
	*loader

	plan        *Plan
	at          location
	inputs      *inputs
	sections    map[string]string // the section of each top-level id
	parents     map[string]string // the for_each of each id within a `do`
	inputsCache *shape            // cached result of inputsShape
	results     map[*Step]*shape  // the shapes of results, by step
}

// link checks the references between the steps of a plan and returns its program. The program is complete only if there
// are no problems.
func (l *loader) link(p *Plan) *Program {
	lk := &linker{loader: l, plan: p, at: l.planLocations[p], sections: map[string]string{}, parents: map[string]string{}, results: map[*Step]*shape{}}
	lk.inputs = lk.linkInputs()
	lk.declare()
	pr := &Program{plan: p, inputs: lk.inputs, byID: map[string]*Node{}}
	pr.steps = lk.section(sectionSteps, p.Steps, pr)
	pr.verify = lk.section(sectionVerify, p.Verify, pr)
	pr.always = lk.section(sectionAlways, p.Always, pr)
	pr.idempotencyKey = lk.idempotency(p)
	if p.Concurrency != nil {
		pr.concurrencyKey = lk.scope("the concurrency key", rootInputs, rootTask, rootSchedule, rootHook).field(p.Concurrency.Key, lk.at.field("concurrency").field("key"))
	}
	if p.Limits.Key != "" {
		pr.limitKey = lk.early("the key of the limits").field(p.Limits.Key, lk.at.field("limits").field("key"))
	}
	pr.allow = lk.allow(p.Allow)
	outputs := lk.scope("the outputs", rootInputs, rootSteps, rootTask, rootSchedule, rootHook)
	outputs.stepProblem = func(id string) (string, string) { return lk.refProblem(id, sectionVerify, nil) }
	values := p.Outputs
	if values == nil {
		values = map[string]any{}
	}
	pr.outputs = outputs.field(values, lk.at.field("outputs"))
	lk.checkTools()
	return pr
}

// idempotency compiles the idempotency key of a plan; nil for none.
func (l *linker) idempotency(p *Plan) *field {
	switch key := l.early("the idempotency key"); {
	case p.Idempotency != nil && p.IdempotencyKey != "":
		l.at.field("idempotency").report("a plan has `idempotency` or `idempotency_key`, not both", "")
		return nil
	case p.Idempotency != nil:
		return key.field(p.Idempotency.Key, l.at.field("idempotency").field("key"))
	case p.IdempotencyKey != "":
		return key.field(p.IdempotencyKey, l.at.field("idempotency_key"))
	}
	return nil
}

// allow compiles the entries of `allow`. It returns nil when no entry is a template.
func (l *linker) allow(a *Allow) *field {
	if a == nil {
		return nil
	}
	templates, lists := false, map[string]any{}
	for name, list := range a.lists() {
		var entries []any
		for _, entry := range list {
			entries = append(entries, entry)
			templates = templates || strings.Contains(entry, opening)
		}
		if entries != nil {
			lists[name] = entries
		}
	}
	if !templates {
		return nil
	}
	return l.early("`allow`").field(lists, l.at.field("allow"))
}

// declare registers all step ids and reports duplicates.
func (l *linker) declare() {
	for _, section := range []string{sectionSteps, sectionVerify, sectionAlways} {
		for _, s := range unfold(l.steps(section)) {
			if first, twice := l.sections[s.ID]; twice && s.ID != "" {
				l.stepLocations[s].field("id").report("the id "+quote(s.ID)+" occurs here for the second time", "the first is in "+first)
				continue
			}
			l.sections[s.ID] = section
		}
	}
	for _, section := range []string{sectionSteps, sectionVerify, sectionAlways} {
		for _, s := range unfold(l.steps(section)) {
			l.declareChildren(s)
		}
	}
}

func (l *linker) declareChildren(s *Step) {
	seen := map[string]bool{}
	for _, child := range unfold(s.Do) {
		where := l.stepLocations[child].field("id")
		switch {
		case child.ID == "":
		case seen[child.ID]:
			where.report("the id "+quote(child.ID)+" occurs here for the second time", "")
		case l.sections[child.ID] != "":
			where.report("the id "+quote(child.ID)+" is that of an outer step", "give it another one")
		default:
			l.parents[child.ID] = s.ID
		}
		seen[child.ID] = true
	}
}

func (l *linker) steps(section string) []*Step {
	switch section {
	case sectionVerify:
		return l.plan.Verify
	case sectionAlways:
		return l.plan.Always
	default:
		return l.plan.Steps
	}
}

// scope returns the scope of a field in which names are visible.
func (l *linker) scope(owner string, names ...string) *scope {
	return &scope{linker: l, owner: owner, names: names, steps: map[string]bool{}, uses: map[string]bool{}, inputs: map[string]bool{}}
}

// early returns the scope of a field that is evaluated before the task exists: it sees the inputs, the
// schedule or the hook, and the fields of task that are already known.
func (l *linker) early(owner string) *scope {
	sc := l.scope(owner, rootInputs, rootTask, rootSchedule, rootHook)
	sc.members = map[string][]string{rootTask: {"created", "name", "root"}}
	return sc
}

// section links the steps of a section.
func (l *linker) section(name string, steps []*Step, pr *Program) []*Node {
	steps = unfold(steps)
	nodes := make([]*Node, 0, len(steps))
	for _, s := range steps {
		at := l.stepLocations[s]
		sc := l.scope("step "+quote(s.ID), rootInputs, rootSteps, rootTask, rootSchedule, rootHook)
		sc.stepProblem = func(id string) (string, string) { return l.refProblem(id, name, nil) }
		n := l.node(s, at, sc)
		l.children(n, at, sc, name)
		n.inputs = sc.inputs
		n.Needs = l.needs(n, at, sc.steps, func(id string) bool { return l.sections[id] == name })
		nodes = append(nodes, n)
		pr.byID[s.ID] = n
	}
	l.completeNeeds(nodes)
	return nodes
}

// completeNeeds adds the implied needs of the steps of a list, and reports needs that cannot be met.
func (l *linker) completeNeeds(nodes []*Node) {
	l.checkExclusive(nodes)
	l.branchNeeds(nodes)
	l.covers(nodes)
	l.checkCycles(nodes)
	linkDependants(nodes)
}

// linkDependants sets Position and Dependants of the nodes of a list.
func linkDependants(nodes []*Node) {
	byID := index(nodes)
	for i, n := range nodes {
		n.Position = i
		for _, need := range n.Needs {
			if needed := byID[need]; needed != nil {
				needed.Dependants = append(needed.Dependants, i)
			}
		}
	}
}

// refProblem returns why a section cannot refer to a step, or "" if it can. siblings are the steps of a `do`.
func (l *linker) refProblem(id, section string, siblings []*Step) (problem, hint string) {
	if slices.ContainsFunc(siblings, func(s *Step) bool { return s.ID == id }) {
		return "", ""
	}
	order := []string{sectionSteps, sectionVerify, sectionAlways}
	found, known := l.sections[id]
	switch parent := l.parents[id]; {
	case known && slices.Index(order, found) <= slices.Index(order, section):
		return "", ""
	case known:
		return fmt.Sprintf("the step %q of `%s` is not visible here", id, found), "`" + found + "` runs later"
	case parent != "":
		return fmt.Sprintf("the step %q is only visible within %q", id, parent),
			"the results of all items are in steps." + parent + ".output"
	default:
		return "there is no step " + quote(id), l.suggestStep(id, ids(siblings))
	}
}

// suggestStep suggests a step for an unknown id.
func (l *linker) suggestStep(id string, more []string) string {
	if l.at.doc.full() {
		return ""
	}
	return suggest(id, append(sortedKeys(l.sections), more...))
}

func ids(steps []*Step) []string {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s.ID
	}
	return names
}

// children links the steps of a `do`. Their references to outer steps become references of the for_each.
func (l *linker) children(n *Node, at location, outer *scope, section string) {
	if n.Kind != KindForEach {
		return
	}
	l.checkAs(n.Step, at)
	known := outer.known
	if n.Matrix != nil {
		known = nil // sc.members contains its fields
	}
	steps := unfold(n.Do)
	sibling := func(id string) bool { return slices.Contains(ids(steps), id) }
	for _, s := range steps {
		here := l.stepLocations[s]
		sc := l.scope("step "+quote(s.ID), rootInputs, rootSteps, rootTask, rootSchedule, rootHook, n.As, rootIndex)
		sc.members = map[string][]string{n.As: members(n.Matrix)}
		sc.siblings, sc.vars = steps, map[string]*shape{n.As: known.item()}
		sc.stepProblem = func(id string) (string, string) {
			if id == n.ID {
				return "a step cannot refer to the for_each around it", ""
			}
			return l.refProblem(id, section, steps)
		}
		if s.Kind == KindApprove && len(s.Approve.Covers) > 0 {
			here.field("approve").field("covers").report("an approve step within a for_each covers no calls", "ask once, before the for_each, and cover that")
		}
		child := l.node(s, here, sc)
		inner := map[string]bool{}
		for id := range sc.steps {
			if sibling(id) {
				inner[id] = true
			} else {
				outer.steps[id] = true
			}
		}
		maps.Copy(outer.inputs, sc.inputs)
		child.Needs = l.needs(child, here, inner, sibling)
		n.Children = append(n.Children, child)
	}
	l.completeNeeds(n.Children)
}

// checkAs reports an item name that has another meaning in expressions.
func (l *linker) checkAs(s *Step, at location) {
	if slices.Contains(l.languages.words(), s.As) || s.As == rootSecrets && l.plan.Secrets != nil {
		at.field("as").report("the name "+quote(s.As)+" is taken in expressions", "choose another one, such as item")
	}
}

// needs returns the union of the declared needs and the ids that expressions refer to.
func (l *linker) needs(n *Node, at location, referred map[string]bool, sameLevel func(string) bool) []string {
	var declared []string
	for i, id := range n.Step.Needs {
		problem, hint := l.needProblem(id, n.ID, sameLevel)
		if problem != "" {
			at.field("needs").item(i).report(problem, hint)
			continue
		}
		declared = append(declared, id)
	}
	for id := range referred {
		if !sameLevel(id) {
			delete(referred, id)
		}
	}
	return union(declared, referred)
}

// needProblem returns why the step needing cannot need the step id, or "" if it can.
func (l *linker) needProblem(id, needing string, sameLevel func(string) bool) (problem, hint string) {
	section, known := l.sections[id]
	switch parent := l.parents[id]; {
	case sameLevel(id) && id != needing:
		return "", ""
	case id == needing:
		return fmt.Sprintf("the steps need each other: %s -> %s", id, id), ""
	case known:
		return fmt.Sprintf("the step %q is on another level, in `%s`", id, section), "needs name steps of the same list"
	case parent != "":
		return fmt.Sprintf("the step %q is within %q", id, parent), "need " + parent + " instead"
	default:
		return "there is no step " + quote(id), l.suggestStep(id, sortedKeys(l.parents))
	}
}

// node compiles the fields of one step.
func (l *linker) node(s *Step, at location, sc *scope) *Node {
	n := &Node{Step: s}
	if s.If != "" {
		n.cond = sc.expressionField(s.If, at.field("if"))
	}
	if s.With != nil {
		n.args = sc.field(l.secretArgs(n, at.field("with")), at.field("with"))
		l.checkSecrets(n, at)
	}
	switch s.Kind {
	case KindTool:
		l.verifyCall(n, at.field("verify"), sc)
		l.compileConditions(n, at)
	case KindForEach:
		n.items = l.itemsOf(s, at, sc)
		l.checkItems(n, at)
	case KindWait:
		n.wait = l.waiting(s.Wait, at.field("wait"), sc)
		if s.Wait.HasDefault {
			n.fallback = sc.field(s.Wait.Default, at.field("wait").field("default"))
		}
	case KindApprove:
		n.question = sc.field(s.Approve.templates(), at.field("approve"))
		if s.Approve.Default != nil {
			n.fallback = sc.field(s.Approve.Default, at.field("approve").field("default"))
		}
	case KindAgent:
		n.persona = sc.field(s.Agent.templates(), at.field("agent"))
	case KindRun:
		n.Sub = l.link(s.Run)
		if n.Sub.allow != nil {
			l.planLocations[s.Run].field("allow").report("the `allow` of a sub-plan is literal, for its inputs are known only when it runs", "nobody has seen then what it would open")
		}
		l.checkRun(n, at)
	case KindSwitch:
		n.switchValue = sc.expressionField(s.Switch, at.field("switch"))
		l.checkCases(s, at, sc.known)
	case KindSet:
		n.set = sc.field(s.Set, at.field("set"))
	}
	return n
}

// itemsOf compiles the items of a for_each or a matrix.
func (l *linker) itemsOf(s *Step, at location, sc *scope) *field {
	if s.Matrix == nil {
		source, ok := s.ForEach.(string)
		if !ok && s.ForEach != nil {
			return sc.field(s.ForEach, at.field("for_each"))
		}
		return sc.expressionField(source, at.field("for_each"))
	}
	l.checkMatrix(s.Matrix, at.field("matrix"))
	return sc.field(s.Matrix, at.field("matrix"))
}

func (l *linker) verifyCall(n *Node, at location, sc *scope) {
	v := n.Verify
	if v == nil {
		return
	}
	if v.With != nil {
		withArgs := *sc
		withArgs.names = append(slices.Clone(sc.names), rootArgs)
		n.verifyArgs = withArgs.field(v.With, at.field("with"))
	}
	if v.Expect != "" {
		n.verifyExpect = l.outputScope(n, v.Tool, rootOutput).expressionField(v.Expect, at.field("expect"))
	}
}

// outputScope returns the scope of an expression about the output of a tool.
func (l *linker) outputScope(n *Node, tool string, names ...string) *scope {
	sc := l.scope("step "+quote(n.ID), names...)
	sc.vars = map[string]*shape{rootOutput: l.toolOutput(tool)}
	return sc
}

// compileConditions compiles `expect`, `until` and `retry.when`.
func (l *linker) compileConditions(n *Node, at location) {
	if n.Expect != "" {
		n.expected = l.outputScope(n, n.Tool, rootOutput).expressionField(n.Expect, at.field("expect"))
	}
	if n.Until != "" {
		n.until = l.outputScope(n, n.Tool, rootOutput, rootRound).expressionField(n.Until, at.field("until"))
	}
	if n.Retry != nil && n.Retry.When != "" {
		n.retryWhen = l.outputScope(n, n.Tool, rootError, rootOutput, rootAttempt).expressionField(n.Retry.When, at.field("retry").field("when"))
	}
}

func (l *linker) waiting(w *Wait, at location, sc *scope) *field {
	switch {
	case w.For != "":
		return sc.field(w.For, at.field("for"))
	case w.Signal != "":
		return sc.field(w.Signal, at.field("signal"))
	}
	if _, err := time.Parse(time.RFC3339, w.Until); err == nil {
		return &field{template: literal{w.Until}}
	}
	return sc.expressionField(w.Until, at.field("until"))
}

// checkCycles reports each cycle of needs at its first step.
func (l *linker) checkCycles(nodes []*Node) {
	const (
		open = iota + 1
		done
	)
	byID, state := index(nodes), map[string]int{}
	var trace []string
	var visit func(id string)
	visit = func(id string) {
		switch n := byID[id]; {
		case n == nil || state[id] == done:
			return
		case state[id] == open:
			circle := append(slices.Clone(trace[slices.Index(trace, id):]), id)
			l.stepLocations[n.Step].report("the steps need each other: "+strings.Join(circle, " -> "), "")
			return
		}
		state[id] = open
		trace = append(trace, id)
		for _, need := range byID[id].Needs {
			visit(need)
		}
		trace = trace[:len(trace)-1]
		state[id] = done
	}
	for _, n := range nodes {
		visit(n.ID)
	}
}

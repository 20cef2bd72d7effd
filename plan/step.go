package plan

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// list parses a list of steps.
func (l *loader) list(c cursor, nesting int) []*Step {
	items := c.list()
	steps := make([]*Step, 0, len(items))
	for _, item := range items {
		if l.steps++; l.steps == MaxStepCount+1 {
			item.report(fmt.Sprintf("the plan has more than %d steps", MaxStepCount), "use for_each for repeated work")
			l.broken = true
		}
		if l.steps > MaxStepCount {
			break
		}
		steps = append(steps, l.step(item, nesting))
	}
	return steps
}

// children parses the steps of a `do`.
func (l *loader) children(c cursor, nesting int) []*Step {
	steps := l.list(c, nesting)
	if len(steps) == 0 {
		c.report("for_each needs `do` with at least one step", "")
	}
	return steps
}

// step parses one step.
func (l *loader) step(c cursor, nesting int) *Step {
	s := &Step{OnError: OnErrorFail}
	l.stepLocations[s] = c.location
	if c.node.Kind != yaml.MappingNode {
		c.report("a step is an object, but this is "+c.kind(), "")
		return s
	}
	s.findKind(c)
	fields := s.commonFields()
	maps.Copy(fields, l.kindFields(s, nesting))
	fields["compensate"] = unsupported("does not run `compensate`", "use `always` with an `if`")
	s.read(c, fields)
	s.complete(c)
	for _, child := range unfold(s.Do) {
		if child.Kind == KindForEach {
			l.stepLocations[child].report("a for_each within a for_each is not supported", "put the inner one into a plan and use `run`")
		}
	}
	return s
}

// allKinds lists the keys that determine the kind of a step.
func allKinds() []Kind {
	return []Kind{KindTool, KindForEach, KindWait, KindRun, KindSet, KindApprove, KindSwitch, KindAgent}
}

// kindOf returns the kind that a key determines, or "".
func kindOf(key string) Kind {
	switch k := Kind(key); {
	case key == "matrix":
		return KindForEach
	case slices.Contains(allKinds(), k):
		return k
	default:
		return ""
	}
}

// findKind sets the kind of the step. It reports a step without a kind or with several kinds.
func (s *Step) findKind(c cursor) {
	var found []string
	for i := 0; i+1 < len(c.node.Content); i += 2 {
		key := c.node.Content[i].Value
		if k := kindOf(key); k != "" {
			s.Kind = k
			found = append(found, key)
		}
	}
	switch {
	case len(found) > 1:
		c.report("a step has exactly one kind, this has "+strings.Join(found, " and "), "make it several steps")
	case len(found) == 0:
		c.report("the step has no kind", "give it one of tool, for_each, matrix, switch, wait, run, set, approve, agent")
	}
}

// commonFields returns the parsers of the fields of every step, by name.
func (s *Step) commonFields() map[string]func(cursor) {
	return map[string]func(cursor){
		"id":       func(c cursor) { s.ID = c.id() },
		"needs":    func(c cursor) { s.Needs = c.oneOrMore() },
		"if":       func(c cursor) { s.If = c.expression() },
		"timeout":  func(c cursor) { s.Timeout = c.duration() },
		"on_error": func(c cursor) { s.OnError = OnError(c.oneOf("fail", "continue", "skip_dependents")) },
	}
}

// kindFields returns the parsers of the fields that only steps of this kind have, by name.
func (l *loader) kindFields(s *Step, nesting int) map[string]func(cursor) {
	switch s.Kind {
	case KindTool:
		return s.toolFields()
	case KindForEach:
		s.As, s.OnItemError = "item", OnErrorFail
		return map[string]func(cursor){
			"for_each":      func(c cursor) { s.ForEach = c.items() },
			"matrix":        func(c cursor) { s.Matrix = c.matrix() },
			"as":            func(c cursor) { s.As = c.id() },
			"max_parallel":  func(c cursor) { s.MaxParallel = c.count(1000) },
			"on_item_error": func(c cursor) { s.OnItemError = OnError(c.oneOf("fail", "continue")) },
			"collect":       func(c cursor) { s.Collect = c.collect() },
			"do":            func(c cursor) { s.Do = l.children(c, nesting) },
		}
	case KindWait:
		return map[string]func(cursor){"wait": func(c cursor) { s.Wait = c.wait() }}
	case KindRun:
		return map[string]func(cursor){
			"run":  func(c cursor) { s.Run = l.run(c, nesting+1) },
			"with": func(c cursor) { s.With = c.arguments() },
		}
	case KindApprove:
		return map[string]func(cursor){"approve": func(c cursor) { s.Approve = c.approve() }}
	case KindAgent:
		return map[string]func(cursor){"agent": func(c cursor) { s.Agent = c.agent() }}
	case KindSwitch:
		return l.switchFields(s, nesting)
	case KindSet:
		return map[string]func(cursor){"set": func(c cursor) { s.Set = c.values() }}
	default:
		return map[string]func(cursor){}
	}
}

func (s *Step) toolFields() map[string]func(cursor) {
	fields := map[string]func(cursor){
		"tool":         func(c cursor) { s.Tool = c.tool() },
		"with":         func(c cursor) { s.With = c.arguments() },
		"effect":       func(c cursor) { s.Effect = Effect(c.oneOf("read", "idempotent", "write", "destructive")) },
		"verify":       func(c cursor) { s.Verify = c.stepVerify() },
		"expect":       func(c cursor) { s.Expect = c.expression() },
		"heartbeat":    func(c cursor) { s.Heartbeat = c.duration() },
		"start_within": func(c cursor) { s.StartWithin = c.duration() },
		"retry":        func(c cursor) { s.Retry = c.retry() },
		"queue":        func(c cursor) { s.Queue = c.queue() },
		"approval":     func(c cursor) { s.Approval = c.approval() },
	}
	maps.Copy(fields, s.roundFields())
	return fields
}

// read parses the entries of a step; it reports a field of another kind differently from a typo.
func (s *Step) read(c cursor, fields map[string]func(cursor)) {
	for _, key := range kindKeys() {
		if fields[key] == nil {
			fields[key] = func(c cursor) { s.reportForeign(c, key) }
		}
	}
	c.object(fields)
}

// kindKeys lists the keys that only some kinds of steps have.
func kindKeys() []string {
	return []string{
		"tool", "with", "effect", "verify", "expect", "heartbeat", "start_within", "retry", "queue", "approval", "until", "max_rounds", "delay",
		"for_each", "matrix", "as", "max_parallel", "on_item_error", "collect", "do", "wait", "run", "set", "approve", "agent", "switch", "cases", "default",
	}
}

// reportForeign reports a field that belongs to another kind of step. A key that determines a kind is reported by
// findKind.
func (s *Step) reportForeign(c cursor, key string) {
	if s.Kind != "" && kindOf(key) == "" {
		c.report(fmt.Sprintf("a %s step has no `%s`", s.Kind, key), "")
	}
}

// complete reports missing fields of a step.
func (s *Step) complete(c cursor) {
	if !c.has("id") {
		c.report("the step has no `id`", "ids name steps in needs and expressions")
	}
	s.completeRounds(c)
	if s.Matrix != nil && !c.has("as") {
		s.As = defaultMatrix
	}
	if s.Kind == KindForEach && !c.has("do") {
		c.report("for_each needs `do` with at least one step", "")
	}
	if s.Kind == KindSwitch && !c.has("cases") {
		c.report("switch needs at least one case", "such as `cases: {prod: [...], test: [...]}`")
	}
	if s.Kind == KindSet && len(s.Set) == 0 {
		c.report("set needs at least one value", "")
	}
}

func (c cursor) id() string {
	s := c.text()
	if !isID(s) && c.node.Kind == yaml.ScalarNode && c.node.Tag != "!!null" {
		c.report("the id "+quote(s)+" has a wrong form", "lower-case letters, digits and _, the first a letter, at most 63")
	}
	return s
}

// expression returns the source of a field that is always an expression.
func (c cursor) expression() string {
	s := stripDelimiters(c.text())
	if s == "" && c.node.Tag != "!!null" {
		c.report("the expression is empty", "")
	}
	return s
}

// collect parses which items are in the output of a for_each.
func (c cursor) collect() Collect {
	which := c.oneOf("all", string(CollectFailed), string(CollectNone))
	if which == "all" {
		return ""
	}
	return Collect(which)
}

// items returns the items of a for_each: an expression, or a list.
func (c cursor) items() any {
	if c.node.Kind == yaml.SequenceNode {
		return c.value()
	}
	return c.expression()
}

// tool parses the name of a tool: up to 128 letters, digits and . _ / - :
func (c cursor) tool() string {
	s := c.text()
	for _, r := range []byte(s) {
		if !strings.ContainsRune("._/-:", rune(r)) && !isAlphanumeric(r) {
			c.report("the tool name "+quote(s)+" has a wrong form", "")
			return s
		}
	}
	if len(s) > 128 || (s == "" && c.node.Tag == "!!str") {
		c.report("the name of a tool has 1 to 128 characters", "")
	}
	return s
}

func isAlphanumeric(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
}

// arguments returns an object of templates, or one expression for an object.
func (c cursor) arguments() any {
	if c.node.Kind == yaml.ScalarNode && c.node.Tag == "!!str" && isExpression(c.node.Value) {
		return c.node.Value
	}
	if c.node.Kind != yaml.MappingNode {
		c.report("is "+c.kind()+", but an object of arguments is expected", "")
		return nil
	}
	return c.value()
}

func (c cursor) stepVerify() *StepVerify {
	v := &StepVerify{}
	c.object(map[string]func(cursor){
		"tool":   func(c cursor) { v.Tool = c.tool() },
		"with":   func(c cursor) { v.With = c.arguments() },
		"expect": func(c cursor) { v.Expect = c.expression() },
	})
	if v.Tool == "" || v.Expect == "" {
		c.report("verify needs `tool` and `expect`", "expect is true when the call happened: `expect: output.exists`")
	}
	return v
}

func (c cursor) wait() *Wait {
	w := &Wait{}
	c.object(map[string]func(cursor){
		"for":     func(c cursor) { w.For = c.text(); c.fixedDuration() },
		"until":   func(c cursor) { w.Until = c.expression() },
		"signal":  func(c cursor) { w.Signal = c.text() },
		"timeout": func(c cursor) { w.Timeout = c.duration() },
		"default": func(c cursor) { w.Default, w.HasDefault = c.value(), true },
	})
	given := 0
	for _, s := range []string{w.For, w.Until, w.Signal} {
		if s != "" {
			given++
		}
	}
	if given != 1 {
		c.report("wait needs exactly one of for, until and signal", "")
	}
	if w.Signal == "" && (w.Timeout != 0 || w.HasDefault) {
		c.report("timeout and default belong to `wait: {signal: …}`", "")
	}
	if w.HasDefault && w.Timeout == 0 {
		c.report("a default without a timeout is never used", "add `timeout`")
	}
	return w
}

// fixedDuration checks a duration that is not computed.
func (c cursor) fixedDuration() {
	if c.node.Value != "" && !strings.Contains(c.node.Value, opening) {
		c.duration()
	}
}

// run parses a sub-plan, inline or from a file.
func (l *loader) run(c cursor, nesting int) *Plan {
	if nesting > MaxNesting {
		c.report(fmt.Sprintf("plans run plans more than %d deep", MaxNesting), "does a plan run itself?")
		l.broken = true
		return &Plan{}
	}
	if c.node.Kind == yaml.MappingNode {
		return l.plan(c, nesting)
	}
	doc := l.file(c)
	if doc == nil {
		l.broken = true
		return &Plan{}
	}
	return l.plan(cursor{location{doc: doc}, doc.root}, nesting)
}

// file reads the document of a `run: ./other.yaml`.
func (l *loader) file(c cursor) *document {
	name := c.text()
	switch {
	case name == "":
		return nil
	case l.opt.ReadFile == nil:
		c.report("the plan in "+quote(name)+" cannot be read here", "write the sub-plan inline below `run`")
		return nil
	case !path.IsAbs(name):
		name = path.Join(path.Dir(c.doc.file), name)
	}
	src, err := l.opt.ReadFile(name)
	if err != nil {
		hint := ""
		if strings.ContainsAny(c.node.Value, " \n|;") {
			hint = "`run` names the file of a plan; a command is `tool: BASH_EXECUTE` with `with: {command: ...}`"
		}
		c.report(fmt.Sprintf("the plan %s cannot be read: %s", quote(name), err), hint)
		return nil
	}
	if l.bytes += len(src); l.bytes > MaxNormalised {
		c.report(fmt.Sprintf("the sub-plans have more than %d bytes together", MaxNormalised), "")
		return nil
	}
	return readDocument(name, src, sourceBounds(), c.doc.problems, c.doc.warn)
}

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// checkTools checks the plan against the descriptions of its tools.
func (l *linker) checkTools() {
	var allowed []string
	for _, name := range l.plan.Limits.Tools {
		if name = l.properName(name); !slices.Contains(allowed, name) {
			allowed = append(allowed, name)
		}
	}
	l.plan.Limits.Tools = allowed
	for i, s := range l.plan.Verify {
		at := l.at.field(sectionVerify).item(i)
		if s.Kind != KindTool && s.Kind != "" {
			at.report(fmt.Sprintf("a step of `verify` calls a tool, this is a %s step", s.Kind), "move it to `steps`")
		}
	}
	for _, section := range []string{sectionSteps, sectionVerify, sectionAlways} {
		anyState := section == sectionVerify || section == sectionAlways && len(l.plan.Verify) > 0
		l.checkToolsOf(l.steps(section), anyState)
	}
}

func (l *linker) checkToolsOf(steps []*Step, anyState bool) {
	for _, s := range steps {
		if s.Kind == KindTool {
			l.checkTool(s, l.stepLocations[s], anyState)
		}
		if s.Kind == KindAgent {
			l.checkAgent(s, l.stepLocations[s], anyState)
		}
		l.checkToolsOf(s.inner(), anyState)
		if s.Run != nil && anyState {
			l.checkSub(s.Run)
		}
	}
}

// checkSub checks the tools of a sub-plan that runs while the task is COMPLETED. All of them must run in any state.
func (l *linker) checkSub(p *Plan) {
	sub := &linker{loader: l.loader, plan: p, at: l.planLocations[p]}
	for _, section := range []string{sectionSteps, sectionVerify, sectionAlways} {
		sub.checkToolsOf(sub.steps(section), true)
	}
}

func (l *linker) checkTool(s *Step, at location, anyState bool) {
	if s.Verify != nil {
		s.Verify.Tool = l.properName(s.Verify.Tool)
		if info, ok := l.lookUp(s.Verify.Tool, at.field("verify").field("tool")); ok {
			l.checkArguments(s.Verify.With, info, at.field("verify"))
			l.checkSplices(s.Verify.With, info, at.field("verify"))
			checkPaths(s.Verify.With, info, at.field("verify"))
		}
	}
	s.Tool = l.properName(s.Tool)
	info, ok := l.lookUp(s.Tool, at.field("tool"))
	if ok && info.Direct {
		at.field("tool").report("the tool "+s.Tool+" is not a step of a task", "a registered agent calls it over MCP or /rpc, with its own credential")
	}
	if ok {
		l.checkArguments(s.With, info, at)
		l.checkSplices(s.With, info, at)
		checkPaths(s.With, info, at)
		if anyState && !info.AnyState {
			at.field("tool").report("the tool "+s.Tool+" does not run while the task is COMPLETED",
				"`verify`, and `always` beside a `verify`, need tools that run in any state; move the call to `steps`")
		}
	}
	l.checkRetry(s, cmp.Or(s.Effect, effectOf(s.With, info)), at)
}

// effectOf returns the effect of a call as far as it follows from the arguments without expressions: what the gate will say if the others
// do not matter.
func effectOf(with any, info ToolInfo) Effect {
	given, ok := with.(map[string]any)
	if !ok || info.EffectOf == nil {
		return info.Effect
	}
	known := map[string]any{}
	for name, v := range given {
		if plain, fixed := plainOf(v); fixed {
			known[name] = plain
		}
	}
	raw, err := encode(known)
	if err != nil {
		return info.Effect
	}
	return cmp.Or(info.EffectOf(raw), info.Effect)
}

// properName returns the canonical name of a tool for an alias, such as server.tool.
func (l *linker) properName(name string) string {
	if l.opt.Tool == nil || name == "" {
		return name
	}
	info, _ := l.opt.Tool(name)
	return cmp.Or(info.Name, name)
}

// lookUp returns the description of a tool. It reports a tool that does not exist or that `limits.tools` does not list.
func (l *linker) lookUp(name string, at location) (ToolInfo, bool) {
	if allowed := l.plan.Limits.Tools; name != "" && len(allowed) > 0 && !slices.Contains(allowed, name) {
		at.report("the tool "+quote(name)+" is not among `limits.tools` of the plan", "add it there, or leave the list out")
	}
	if l.opt.Tool == nil || name == "" {
		return ToolInfo{}, false
	}
	info, ok := l.opt.Tool(name)
	if !ok {
		var names []string
		if l.opt.ToolNames != nil {
			names = l.opt.ToolNames()
		}
		at.report("there is no tool "+quote(name), at.suggest(name, names, HintTools))
	}
	return info, ok
}

// checkArguments checks arguments against the inputs of a tool: first the names, then the literal values.
func (l *linker) checkArguments(with any, info ToolInfo, at location) {
	before := len(l.problems)
	checkNamed(with, info, at)
	if len(l.problems) == before {
		l.checkLiterals(with, info, at.field("with"))
	}
}

func checkNamed(with any, info ToolInfo, at location) {
	if _, computed := with.(string); computed {
		return
	}
	given, _ := with.(map[string]any)
	for _, name := range info.Required {
		if _, ok := given[name]; !ok {
			at.field("with").report("the argument "+quote(name)+" is missing", "")
		}
	}
	for _, name := range sortedKeys(given) {
		if info.Properties != nil && !slices.Contains(info.Properties, name) {
			at.field("with").field(name).report("the tool has no argument "+quote(name),
				at.suggest(name, info.Properties, "it has "+strings.Join(info.Properties, ", ")))
		}
	}
}

// checkRetry reports retry classes that never apply to the effect of the call. Classes from the defaults are not
// reported: they may be for other steps.
func (l *linker) checkRetry(s *Step, effect Effect, at location) {
	if s.Retry == nil || effect == "" || repeatable(effect) {
		return
	}
	if d := l.plan.Defaults; d != nil && d.Retry != nil && slices.Equal(s.Retry.On, d.Retry.On) {
		return
	}
	for i, class := range s.Retry.On {
		if LeavesDoubt(class) {
			at.field("retry").field("on").item(i).report(fmt.Sprintf("a %s call is not repeated after %s, for it may have happened", effect, class),
				"declare `effect: idempotent` if a repeat does no harm")
		}
	}
}

// checkRun checks the inputs of a run step against the inputs of its sub-plan.
func (l *linker) checkRun(n *Node, at location) {
	if _, computed := n.With.(string); computed {
		return
	}
	given, _ := n.With.(map[string]any)
	takes := n.Sub.inputs
	for _, name := range sortedKeys(given) {
		if !takes.knows(name) {
			at.field("with").field(name).report("the plan has no input "+quote(name), at.suggest(name, takes.names(), takes.inputsHint()))
		}
	}
	for _, name := range takes.required {
		property := takes.schema.Properties[name]
		if _, ok := given[name]; !ok && (property == nil || property.Default == nil) {
			at.field("with").report("the input "+quote(name)+" of the plan is missing", "")
		}
	}
	if !l.opt.Accepted {
		checkFields(takes.schema, given, at.field("with"))
	}
}

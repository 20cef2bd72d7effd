package plan_test

import "strings"

func problemTable() []problemCase {
	var all []problemCase
	for _, part := range [][]problemCase{syntaxCases(), topCases(), stepCases(), levelCases(), expressionCases(), toolCases()} {
		all = append(all, part...)
	}
	return all
}

func syntaxCases() []problemCase {
	return []problemCase{
		{"empty", "", ``},
		{"bad yaml", "orch: v1\nsteps: [", ``},
		{"two documents", "orch: v1\nsteps:\n  - {id: a, set: {x: 1}}\n---\norch: v1\n", ``},
		{"no object", "- a", ``},
		{"duplicate key", "orch: v1\norch: v1\nsteps:\n  - {id: a, set: {x: 1}}\n", ``},
		{"duplicate json key", `{"orch": "v1", "steps": [{"id": "a", "set": {"x": 1, "x": 2}}]}`, ``},
		{"merge key", "orch: v1\nsteps:\n  - &a {id: a, set: {x: 1}}\n  - {<<: *a, id: b}\n", ``},
		{"laughs", laughs(), ``},
		{"self alias", "orch: v1\nsteps: &a\n  - *a\n", ``},
		{"deep", "orch: v1\nsteps: " + strings.Repeat("[", 80) + strings.Repeat("]", 80), ``},
		{"octal", steps("id: a", "set: {x: 0755}"), ``},
		{"nan", steps("id: a", "set: {x: .nan}"), ``},
		{"tag", steps("id: a", "set: {x: !!binary aGk=}"), ``},
	}
}

func laughs() string {
	src := "orch: v1\nsteps:\n  - id: a\n    set:\n      a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n"
	for i := range 8 {
		n := string(rune('0' + i + 1))
		old := "*a" + string(rune('0'+i))
		src += "      a" + n + ": &a" + n + " [" + strings.Repeat(old+",", 9) + old + "]\n"
	}
	return src
}

func topCases() []problemCase {
	const one = "steps: [{id: a, set: {x: 1}}]\n"
	return []problemCase{
		{"no orch", one, ``},
		{"wrong version", "orch: v2\n" + one, ``},
		{"no steps", "orch: v1\n", ``},
		{"empty steps", "orch: v1\nsteps: []\n", ``},
		{"unknown key", "orch: v1\nstep: []\n" + one, ``},
		{"servers", "orch: v1\nservers: {}\n" + one, ``},
		{"compensate", "orch: v1\ncompensate: []\n" + one, ``},
		{"priority", "orch: v1\npriority: hgh\n" + one, ``},
		{"label key", "orch: v1\nlabels: {Team: x}\n" + one, ``},
		{"label value", "orch: v1\nlabels: {team: " + strings.Repeat("x", 257) + "}\n" + one, ``},
		{"labels null", "orch: v1\nlabels:\n" + one, ``},
		{"max_steps", "orch: v1\nlimits: {max_steps: 0, deadline: -5s}\n" + one, ``},
		{"concurrency", "orch: v1\nconcurrency: {limit: 1, on_conflict: wait}\n" + one, ``},
		{"inputs shorthand", "orch: v1\ninputs: {repo: {type: string}}\n" + one, ``},
		{"inputs type", "orch: v1\ninputs: {type: array}\n" + one, ``},
		{"inputs schema", "orch: v1\ninputs: {properties: {a: {type: strin}}}\n" + one, ``},
		{"inputs ref", "orch: v1\ninputs: {properties: {a: {$ref: 'file:///etc/passwd'}}}\n" + one, ``},
		{"key sees steps", "orch: v1\nidempotency_key: ${{ steps.a.state }}\n" + one, ``},
		{"key sees no task", "orch: v1\nidempotency_key: ${{ task.id }}\n" + one, ``},
		{"outputs of always", "orch: v1\noutputs: {x: '${{ steps.z.output }}'}\nalways: [{id: z, set: {x: 1}}]\n" + one, ``},
		{"retry", "orch: v1\ndefaults: {retry: {max_attempts: 0, factor: 0.5, on: [timeouts], initial: 5s, max: 1s}}\n" + one, ``},
	}
}

func stepCases() []problemCase {
	return []problemCase{
		{"no object", steps("just text"), ``},
		{"no kind", steps("id: a"), ``},
		{"two kinds", steps("id: a", "set: {x: 1}", "wait: {for: 1s}"), ``},
		{"agent", steps("id: a", "agent: claude", "prompt: hi"), ``},
		{"approve", steps("id: a", "approve: {}"), ``},
		{"compensate", steps("id: a", "set: {x: 1}", "compensate: {}"), ``},
		{"no id", steps("set: {x: 1}"), ``},
		{"wrong id", steps("id: A-1", "set: {x: 1}"), ``},
		{"foreign field", steps("id: a", "set: {x: 1}", "effect: read"), ``},
		{"typo", steps("id: a", "set: {x: 1}", "neds: []"), ``},
		{"duration", steps("id: a", "set: {x: 1}", "timeout: 5 minutes"), ``},
		{"on_error", steps("id: a", "set: {x: 1}", "on_error: ignore"), ``},
		{"with list", steps("id: a", "tool: LOG_WRITE", "with: [1]"), ``},
		{"with text", steps("id: a", "tool: LOG_WRITE", "with: x"), ``},
		{"tool name", steps("id: a", "tool: 'A B'"), ``},
		{"wait none", steps("id: a", "wait: {}"), ``},
		{"wait two", steps("id: a", "wait: {for: 1s, signal: x}"), ``},
		{"wait for", steps("id: a", "wait: {for: soon}"), ``},
		{"wait timeout", steps("id: a", "wait: {for: 1s, timeout: 1s}"), ``},
		{"wait default", steps("id: a", "wait: {signal: x, default: 1}"), ``},
		{"no do", steps("id: a", "for_each: '[1]'"), ``},
		{"empty do", steps("id: a", "for_each: '[1]'", "do: []"), ``},
		{"nested for_each", steps("id: a", "for_each: '[1]'", "do:", "  - id: b", "    for_each: '[1]'", "    do: [{id: c, set: {x: 1}}]"), ``},
		{"as", steps("id: a", "for_each: '[1]'", "as: steps", "do: [{id: c, set: {x: 1}}]"), ``},
		{"as builtin", steps("id: a", "for_each: '[1]'", "as: filter", "do: [{id: c, set: {x: 1}}]"), ``},
		{"max_parallel", steps("id: a", "for_each: '[1]'", "max_parallel: 0", "do: [{id: c, set: {x: 1}}]"), ``},
		{"verify expect", steps("id: a", "tool: FILE_WRITE", "with: {file_path: a, content: b}", "verify: {tool: FILE_READ, with: {file_path: a}}"), ``},
		{"run missing", steps("id: a", "run: ./nothing.yaml"), ``},
		{"run inline", steps("id: a", "run: {orch: v1, steps: [{id: x, set: {y: '${{ inputs.z }}'}}]}"), ``},
		{"run inputs", steps("id: a", "run:", "  orch: v1", "  inputs: {properties: {path: {}}, required: [path]}",
			"  steps: [{id: x, set: {y: 1}}]", "with: {pth: 1}"), ``},
		{"many steps", head + strings.Repeat("  - {id: a, set: {x: 1}}\n", 1001), ``},
	}
}

func levelCases() []problemCase {
	return []problemCase{
		{"same id", steps("id: a", "set: {x: 1}") + "  - {id: a, set: {x: 1}}\n", ``},
		{"same id in always", steps("id: a", "set: {x: 1}") + "always:\n  - {id: a, set: {x: 1}}\n", ``},
		{"child has outer id", steps("id: a", "for_each: '[1]'", "do: [{id: a, set: {x: 1}}]"), ``},
		{"children alike", steps("id: a", "for_each: '[1]'", "do: [{id: b, set: {x: 1}}, {id: b, set: {x: 1}}]"), ``},
		{"unknown need", steps("id: a", "needs: [bee]", "set: {x: 1}") + "  - {id: been, set: {x: 1}}\n", ``},
		{"need twice", steps("id: a", "needs: [b, b]", "set: {x: 1}") + "  - {id: b, set: {x: 1}}\n", ``},
		{"need itself", steps("id: a", "needs: [a]", "set: {x: 1}"), ``},
		{"need of another level", steps("id: a", "for_each: '[1]'", "do: [{id: b, needs: [c], set: {x: 1}}]") + "  - {id: c, set: {x: 1}}\n", ``},
		{"need of a child", steps("id: a", "for_each: '[1]'", "do: [{id: b, set: {x: 1}}]") + "  - {id: c, needs: [b], set: {x: 1}}\n", ``},
		{"circle", steps("id: a", "needs: [b]", "set: {x: 1}") + "  - {id: b, set: {x: '${{ steps.c.output }}'}}\n  - {id: c, if: steps.a.state != '', set: {x: 1}}\n", ``},
		{"circle of one", steps("id: a", "set: {x: '${{ steps.a.output }}'}"), ``},
		{"circle in do", steps("id: a", "for_each: '[1]'", "do:", "  - {id: b, needs: [c], set: {x: 1}}", "  - {id: c, needs: [b], set: {x: 1}}"), ``},
		{"circle through do", steps("id: a", "for_each: '[1]'", "do: [{id: b, set: {x: '${{ steps.c.output }}'}}]") +
			"  - {id: c, needs: [a], set: {x: 1}}\n", ``},
		{"child refers to its for_each", steps("id: a", "for_each: '[1]'", "do: [{id: b, set: {x: '${{ steps.a.output }}'}}]"), ``},
		{"reference to a child", steps("id: a", "for_each: '[1]'", "do: [{id: b, set: {x: 1}}]") + "  - {id: c, set: {x: '${{ steps.b.output }}'}}\n", ``},
		{"reference to verify", steps("id: a", "set: {x: '${{ steps.v.output }}'}") + "verify:\n  - {id: v, tool: GIT_STATUS}\n", ``},
		{"verify refers to always", steps("id: a", "set: {x: 1}") +
			"verify:\n  - {id: v, tool: GIT_STATUS, if: steps.z.state == ''}\nalways:\n  - {id: z, set: {x: 1}}\n", ``},
	}
}

func expressionCases() []problemCase {
	const in = "inputs: {properties: {repo: {}}}\n"
	return []problemCase{
		{"unknown step", steps("id: a", "set:", "  x: ${{ steps.b.output }}"), ``},
		{"unknown step in the middle", steps("id: abc", "set:", "  x: one ${{ 1 }} and ${{ 1 + steps.acb.output }}"), ``},
		{"unknown input", in + steps("id: a", "set: {x: '${{ inputs.rep }}'}"), ``},
		{"no inputs", steps("id: a", "set: {x: '${{ inputs.rep }}'}"), ``},
		{"block text", steps("id: a", "set:", "  x: |", "    first", "    second ${{ foo }}"), ``},
		{"bare", steps("id: a", "if: foo == 1", "set: {x: 1}"), ``},
		{"marked", steps("id: a", "if: ${{ foo == 1 }}", "set: {x: 1}"), ``},
		{"empty", steps("id: a", "if: ${{ }}", "set: {x: 1}"), ``},
		{"syntax", steps("id: a", "if: 1 +", "set: {x: 1}"), ``},
		{"types", steps("id: a", "if: 1 + \"x\"", "set: {x: 1}"), ``},
		{"field", steps("id: a", "set: {x: 1}") + "  - {id: b, set: {x: '${{ steps.a.outputs }}'}}\n", ``},
		{"task field", steps("id: a", "set: {x: '${{ task.workspce }}'}"), ``},
		{"function", steps("id: a", "set: {x: '${{ tojson(1) }}'}"), ``},
		{"now", steps("id: a", "set: {x: '${{ now() }}'}"), ``},
		{"env", steps("id: a", "set: {x: '${{ $env }}'}"), ``},
		{"steps alone", steps("id: a", "set: {x: '${{ len(steps) }}'}"), ``},
		{"steps computed", in + steps("id: a", "set: {x: '${{ steps[inputs.repo] }}'}"), ``},
		{"error is never null", steps("id: a", "set: {x: 1}") + "  - {id: b, if: steps.a.error != nil, set: {x: 1}}\n", ``},
		{"not closed", steps("id: a", "set:", "  x: ${{ filter(inputs, # > 1) }}"), ``},
		{"long", steps("id: a", "set: {x: '${{ "+strings.Repeat("1+", 2048)+"1 }}'}"), ``},
		{"many nodes", steps("id: a", "set: {x: '${{ "+strings.Repeat("1+", 1000)+"1 }}'}"), ``},
		{"item outside", steps("id: a", "for_each: '[item]'", "do: [{id: b, set: {x: 1}}]"), ``},
		{"expect", steps("id: a", "tool: GIT_STATUS", "verify: {tool: GIT_STATUS, expect: inputs.x}"), ``},
		{"json", `{"orch": "v1", "steps": [` + "\n" + ` {"id": "a", "set": {"x": "${{ nope }}"}}]}`, ``},
	}
}

func toolCases() []problemCase {
	return []problemCase{
		{"unknown tool", steps("id: a", "tool: GIT_STATS"), ``},
		{"missing argument", steps("id: a", "tool: FILE_READ", "with: {offset: 1}"), ``},
		{"missing arguments", steps("id: a", "tool: FILE_READ"), ``},
		{"unknown argument", steps("id: a", "tool: FILE_READ", "with: {file_path: a, ofset: 1}"), ``},
		{"verify kind", steps("id: a", "set: {x: 1}") + "verify:\n  - {id: v, set: {x: 1}}\n", ``},
		{"verify state", steps("id: a", "set: {x: 1}") + "verify:\n  - {id: v, tool: BASH_EXECUTE, with: {command: ls}}\n", ``},
		{"always state", steps("id: a", "set: {x: 1}") +
			"verify:\n  - {id: v, tool: GIT_STATUS}\nalways:\n  - {id: z, tool: BASH_EXECUTE, with: {command: ls}}\n", ``},
		{"always state deep", steps("id: a", "set: {x: 1}") + "verify:\n  - {id: v, tool: GIT_STATUS}\nalways:\n" +
			"  - {id: z, for_each: '[1]', do: [{id: y, run: {orch: v1, steps: [{id: x, tool: BASH_EXECUTE, with: {command: ls}}]}}]}\n", ``},
		{"retry in doubt", steps("id: a", "tool: BASH_EXECUTE", "with: {command: ls}", "retry: {on: [tool_error, timeout]}"), ``},
		{"verify tool", steps("id: a", "tool: GIT_STATUS", "verify: {tool: GIT_STATSU, expect: 'true'}"), ``},
	}
}

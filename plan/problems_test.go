package plan_test

import "strings"

func problemTable() []problemCase {
	var all []problemCase
	for _, part := range [][]problemCase{syntaxCases(), topCases(), stepCases(), approvalCases(), coverCases(), roundCases(), matrixCases(), switchCases(), elsewhereCases(), secretCases(), levelCases(), expressionCases(), toolCases()} {
		all = append(all, part...)
	}
	return all
}

func syntaxCases() []problemCase {
	return []problemCase{
		{"empty", "", "p.yaml:1:1: the plan is empty (`orch plan new` writes one to start from)"},
		{"bad yaml", "orch: v1\nsteps: [", `p.yaml:2:1: this is not valid YAML: did not find expected node content`},
		{"two documents", "orch: v1\nsteps:\n  - {id: a, set: {x: 1}}\n---\norch: v1\n", `p.yaml:4:1: a file holds one plan, and this is a second document`},
		{"no object", "- a", "p.yaml:1:1: a plan is an object, but this is a list (`orch plan new` writes one to start from)"},
		{"duplicate key", "orch: v1\norch: v1\nsteps:\n  - {id: a, set: {x: 1}}\n", `p.yaml:2:1: orch: the key "orch" occurs here for the second time (the first is in line 1)`},
		{"duplicate json key", `{"orch": "v1", "steps": [{"id": "a", "set": {"x": 1, "x": 2}}]}`, `p.yaml:1:54: steps[0].set.x: the key "x" occurs here for the second time (the first is in line 1)`},
		{"merge key", "orch: v1\nsteps:\n  - &a {id: a, set: {x: 1}}\n  - {<<: *a, id: b}\n", `p.yaml:4:5: steps[1]: the step has no kind (give it one of tool, for_each, matrix, switch, wait, run, set, approve, agent)
p.yaml:4:6: steps[1].<<: merge keys are not supported (write the fields out)`},
		{"laughs", laughs(), `p.yaml:5:24: the plan has more than 200000 values (aliases count as often as they are used)`},
		{"long laughs", "orch: v1\nsummary: &a " + strings.Repeat("x", 200_000) + "\nlabels: {a: *a, b: *a, c: *a, d: *a, e: *a, f: *a}\n", `p.yaml:2:10: the plan has more than 1048576 bytes of text (aliases count as often as they are used)`},
		{"self alias", "orch: v1\nsteps: &a\n  - *a\n", `p.yaml:2:8: values are nested more than 64 deep`},
		{"deep", "orch: v1\nsteps: " + strings.Repeat("[", 80) + strings.Repeat("]", 80), `p.yaml:2:72: values are nested more than 64 deep`},
		{"octal", steps("id: a", "set: {x: 0755}"), `p.yaml:4:14: steps[0].set.x: 0755 is an octal number for some programs and a decimal for others (quote it, or write 0o755)`},
		{"nan", steps("id: a", "set: {x: .nan}"), `p.yaml:4:14: steps[0].set.x: .nan has no form in JSON (quote it to make it a text)`},
		{"tag", steps("id: a", "set: {x: !!binary aGk=}"), `p.yaml:4:14: steps[0].set.x: the tag "!!binary" is not supported`},
	}
}

func laughs() string {
	var src strings.Builder
	src.WriteString("orch: v1\nsteps:\n  - id: a\n    set:\n      a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n")
	for i := range 8 {
		n := string(rune('0' + i + 1))
		old := "*a" + string(rune('0'+i))
		src.WriteString("      a" + n + ": &a" + n + " [" + strings.Repeat(old+",", 9) + old + "]\n")
	}
	return src.String()
}

func topCases() []problemCase {
	const one = "steps: [{id: a, set: {x: 1}}]\n"
	return []problemCase{
		{"no orch", one, "p.yaml:1:1: the key `orch` is missing (begin the plan with `orch: v1`)"},
		{"wrong version", "orch: v2\n" + one, "p.yaml:1:7: orch: the format \"v2\" is unknown (this version of orch reads `orch: v1`)"},
		{"no steps", "orch: v1\n", "p.yaml:1:1: the key `steps` is missing (a plan has at least one step)"},
		{"empty steps", "orch: v1\nsteps: []\n", `p.yaml:2:8: steps: a plan has at least one step`},
		{"unknown key", "orch: v1\nstep: []\n" + one, `p.yaml:2:1: step: unknown key "step" (did you mean steps?)`},
		{"servers", "orch: v1\nservers: {}\n" + one, "p.yaml:2:10: servers: this version of orch does not start MCP servers of a plan (configure the server on the node: `orch mcp install`)"},
		{"compensate", "orch: v1\ncompensate: []\n" + one, "p.yaml:2:13: compensate: this version of orch does not run `compensate` (use `always` with an `if`)"},
		{"priority", "orch: v1\npriority: hgh\n" + one, `p.yaml:2:11: priority: "hgh" is none of critical, high, normal, low (did you mean high?)`},
		{"label key", "orch: v1\nlabels: {Team: x}\n" + one, `p.yaml:2:10: labels.Team: the label "Team" has a wrong form (lower-case letters, digits and . _ / -, at most 63, the first a letter or digit)`},
		{"label value", "orch: v1\nlabels: {team: " + strings.Repeat("x", 257) + "}\n" + one, `p.yaml:2:16: labels.team: has more than 256 characters`},
		{"labels null", "orch: v1\nlabels:\n" + one, `p.yaml:2:8: labels: is empty, but an object is expected`},
		{"limits.tools", "orch: v1\nlimits: {tools: [GREP_SEARCH]}\nsteps: [{id: a, tool: FILE_READ, with: {file_path: x}}]\n", `p.yaml:3:23: steps[0].tool: the tool "FILE_READ" is not among ` + "`limits.tools` of the plan (add it there, or leave the list out)"},
		{"no limits.tools", "orch: v1\nlimits: {tools: []}\n" + one, "p.yaml:2:17: limits.tools: the list names the tools that may be called (leave it out to allow any)"},
		{"max_steps", "orch: v1\nlimits: {max_steps: 0, deadline: -5s}\n" + one, `p.yaml:2:21: limits.max_steps: must be a whole number from 1 to 1000000
p.yaml:2:34: limits.deadline: the duration "-5s" is negative (write it like 90s, 10m or 1d12h)`},
		{"limits.key", "orch: v1\nlimits: {key: ''}\n" + one, "p.yaml:2:15: limits.key: the key is empty (such as `key: ${{ inputs.customer }}`; leave it out for none)"},
		{"limits.key sees no steps", "orch: v1\nlimits: {key: '${{ steps.a.state }}'}\n" + one, "p.yaml:2:20: limits.key: the expression `steps.a.state` is wrong: unknown name steps (texts need quotes; names here are inputs, task, schedule, hook)"},
		{"concurrency", "orch: v1\nconcurrency: {limit: 1, on_conflict: wait}\n" + one, "p.yaml:2:14: concurrency: a concurrency limit needs a `key` (such as `key: deploy-${{ inputs.service }}`)\np.yaml:2:38: concurrency.on_conflict: \"wait\" is none of queue, reject, cancel_running"},
		{"inputs shorthand", "orch: v1\ninputs: {repo: {type: string}}\n" + one, "p.yaml:2:9: inputs: inputs is a JSON Schema (put the fields below `properties`)"},
		{"inputs type", "orch: v1\ninputs: {type: array}\n" + one, `p.yaml:2:16: inputs.type: the inputs of a plan are an object`},
		{"inputs schema", "orch: v1\ninputs: {properties: {a: {type: strin}}}\n" + one, `p.yaml:2:9: inputs: this is not a valid JSON Schema: /properties/a/type: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'`},
		{"inputs ref", "orch: v1\ninputs: {properties: {a: {$ref: 'file:///etc/passwd'}}}\n" + one, `p.yaml:2:9: inputs: this is not a valid JSON Schema: failing loading "file:///etc/passwd": a schema cannot refer to file:///etc/passwd`},
		{"key sees steps", "orch: v1\nidempotency_key: ${{ steps.a.state }}\n" + one, "p.yaml:2:22: idempotency_key: the expression `steps.a.state` is wrong: unknown name steps (texts need quotes; names here are inputs, task, schedule, hook)"},
		{"key sees no task", "orch: v1\nidempotency_key: ${{ task.id }}\n" + one, "p.yaml:2:22: idempotency_key: task has no \"id\" (it has created, name, root)"},
		{"outputs of always", "orch: v1\noutputs: {x: '${{ steps.z.output }}'}\nalways: [{id: z, set: {x: 1}}]\n" + one, "p.yaml:2:19: outputs.x: the step \"z\" of `always` is not visible here (`always` runs later)"},
		{"retry", "orch: v1\ndefaults: {retry: {max_attempts: 0, factor: 0.5, on: [timeouts], initial: 5s, max: 1s}}\n" + one, `p.yaml:2:34: defaults.retry.max_attempts: must be a whole number from 1 to 100
p.yaml:2:45: defaults.retry.factor: must be a number from 1 to 100
p.yaml:2:55: defaults.retry.on[0]: "timeouts" is none of timeout, transport, tool_error, unexpected, rate_limited, heartbeat_lost, worker_lost, denied, expired, invalid_args, tool_not_found, budget, child (did you mean timeout?)
p.yaml:2:84: defaults.retry.max: the longest delay is shorter than the initial one`},
	}
}

func stepCases() []problemCase {
	return []problemCase{
		{"no object", steps("just text"), `p.yaml:3:5: steps[0]: a step is an object, but this is a text`},
		{"no kind", steps("id: a"), `p.yaml:3:5: steps[0]: the step has no kind (give it one of tool, for_each, matrix, switch, wait, run, set, approve, agent)`},
		{"two kinds", steps("id: a", "set: {x: 1}", "wait: {for: 1s}"), `p.yaml:3:5: steps[0]: a step has exactly one kind, this has set and wait (make it several steps)`},
		{"agent", steps("id: a", "agent: claude"), "p.yaml:4:12: steps[0].agent: is a text, but an object is expected (such as `agent: {model: openai/gpt-5, prompt: ..., tools: [FILE_READ]}`)"},
		{"agent without model", steps("id: a", "agent: {prompt: hi}"), "p.yaml:4:12: steps[0].agent: agent needs a `model` (PROVIDER/NAME, such as openai/gpt-5; `orch models list` shows the providers)"},
		{"agent without prompt", steps("id: a", "agent: {model: m/x}"), "p.yaml:4:12: steps[0].agent: agent needs a `prompt` (it says what the agent is to do)"},
		{"agent turns", steps("id: a", "agent: {model: m/x, prompt: hi, max_turns: 0}"), "p.yaml:4:48: steps[0].agent.max_turns: must be a whole number from 1 to 10000"},
		{"agent pattern", steps("id: a", "agent: {model: m/x, prompt: hi, tools: ['FILE_[']}"), "p.yaml:4:45: steps[0].agent.tools[0]: the pattern \"FILE_[\" has a wrong form (a name such as FILE_READ, or a pattern such as FILE_* or !FILE_DELETE)"},
		{"agent tool", steps("id: a", "agent: {model: m/x, prompt: hi, tools: [LOG_WRIT]}"), "p.yaml:4:45: steps[0].agent.tools[0]: there is no tool \"LOG_WRIT\" (`orch tools list` shows them)"},
		{"agent budget", steps("id: a", "agent: {model: m/x, prompt: hi, budget: {}}"), "p.yaml:4:45: steps[0].agent.budget: the budget has no limit (give it one of usd, tokens, calls, wall)"},
		{"agent budget of nothing", steps("id: a", "agent: {model: m/x, prompt: hi, budget: {usd: 0}}"), "p.yaml:4:51: steps[0].agent.budget.usd: must be a number from 1e-06 to 1e+06"},
		{"agent result", steps("id: a", "agent: {model: m/x, prompt: hi, result: {type: 3}}"), "p.yaml:4:45: steps[0].agent.result: the result is not a JSON Schema: /type: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'"},
		{"agent output", head + "  - {id: a, agent: {model: m/x, prompt: hi}}\n  - {id: b, set: {x: '${{ steps.a.output.result }}'}}\n", "p.yaml:4:42: steps[1].set.x: `steps.a.output` has no field \"result\" (it has calls, text, tokens, turns, usd)"},
		{"approve", steps("id: a", "approve: {}"), "p.yaml:4:14: steps[0].approve: approve needs a `description` (it is what people read before they decide)"},
		{"compensate", steps("id: a", "set: {x: 1}", "compensate: {}"), "p.yaml:5:17: steps[0].compensate: this version of orch does not run `compensate` (use `always` with an `if`)"},
		{"empty id", steps(`id: ""`, "set: {x: 1}"), `p.yaml:3:9: steps[0].id: the id "" has a wrong form (lower-case letters, digits and _, the first a letter, at most 63)`},
		{"null id", steps("id:", "set: {x: 1}"), `p.yaml:3:8: steps[0].id: is empty, but a text is expected`},
		{"no id", steps("set: {x: 1}"), "p.yaml:3:5: steps[0]: the step has no `id` (ids name steps in needs and expressions)"},
		{"wrong id", steps("id: A-1", "set: {x: 1}"), `p.yaml:3:9: steps[0].id: the id "A-1" has a wrong form (lower-case letters, digits and _, the first a letter, at most 63)`},
		{"no wait of a call", steps("id: a", "set: {x: 1}", "start_within: 1m"), "p.yaml:5:19: steps[0].start_within: a set step has no `start_within`"},
		{"foreign field", steps("id: a", "set: {x: 1}", "effect: read"), "p.yaml:5:13: steps[0].effect: a set step has no `effect`"},
		{"another word", steps("id: a", "set: {x: 1}", "depends-on: []"), `p.yaml:5:5: steps[0].depends-on: unknown key "depends-on" (did you mean needs?)`},
		{"typo", steps("id: a", "set: {x: 1}", "neds: []"), `p.yaml:5:5: steps[0].neds: unknown key "neds" (did you mean needs?)`},
		{"duration", steps("id: a", "set: {x: 1}", "timeout: 5 minutes"), `p.yaml:5:14: steps[0].timeout: "5 minutes" is not a duration (write it like 90s, 10m or 1d12h)`},
		{"negative duration", steps("id: a", "tool: LOG_WRITE", "with: {level: info, message: x}", "start_within: -5s", "timeout: -1d"), `p.yaml:6:19: steps[0].start_within: the duration "-5s" is negative (write it like 90s, 10m or 1d12h)
p.yaml:7:14: steps[0].timeout: the duration "-1d" is negative (write it like 90s, 10m or 1d12h)`},
		{"long duration", steps("id: a", "tool: LOG_WRITE", "with: {level: info, message: x}", "start_within: 999999h", "heartbeat: 3651d"), `p.yaml:6:19: steps[0].start_within: the duration "999999h" is longer than 3650d, the longest there can be (write it like 90s, 10m or 1d12h)
p.yaml:7:16: steps[0].heartbeat: the duration "3651d" is longer than 3650d, the longest there can be (write it like 90s, 10m or 1d12h)`},
		{"on_error", steps("id: a", "set: {x: 1}", "on_error: ignore"), `p.yaml:5:15: steps[0].on_error: "ignore" is none of fail, continue, skip_dependents`},
		{"with list", steps("id: a", "tool: LOG_WRITE", "with: [1]"), `p.yaml:5:11: steps[0].with: is a list, but an object of arguments is expected
p.yaml:5:11: steps[0].with: the argument "level" is missing
p.yaml:5:11: steps[0].with: the argument "message" is missing`},
		{"with text", steps("id: a", "tool: LOG_WRITE", "with: x"), `p.yaml:5:11: steps[0].with: is a text, but an object of arguments is expected
p.yaml:5:11: steps[0].with: the argument "level" is missing
p.yaml:5:11: steps[0].with: the argument "message" is missing`},
		{"tool name", steps("id: a", "tool: 'A B'"), "p.yaml:4:11: steps[0].tool: the tool name \"A B\" has a wrong form\np.yaml:4:11: steps[0].tool: there is no tool \"A B\" (`orch tools list` shows them)"},
		{"wait none", steps("id: a", "wait: {}"), `p.yaml:4:11: steps[0].wait: wait needs exactly one of for, until and signal`},
		{"wait two", steps("id: a", "wait: {for: 1s, signal: x}"), `p.yaml:4:11: steps[0].wait: wait needs exactly one of for, until and signal`},
		{"wait for", steps("id: a", "wait: {for: soon}"), `p.yaml:4:17: steps[0].wait.for: "soon" is not a duration (write it like 90s, 10m or 1d12h)`},
		{"wait timeout", steps("id: a", "wait: {for: 1s, timeout: 1s}"), "p.yaml:4:11: steps[0].wait: timeout and default belong to `wait: {signal: …}`"},
		{"wait default", steps("id: a", "wait: {signal: x, default: 1}"), "p.yaml:4:11: steps[0].wait: a default without a timeout is never used (add `timeout`)"},
		{"no do", steps("id: a", "for_each: '[1]'"), "p.yaml:3:5: steps[0]: for_each needs `do` with at least one step"},
		{"empty do", steps("id: a", "for_each: '[1]'", "do: []"), "p.yaml:5:9: steps[0].do: for_each needs `do` with at least one step"},
		{"nested for_each", steps("id: a", "for_each: '[1]'", "do:", "  - id: b", "    for_each: '[1]'", "    do: [{id: c, set: {x: 1}}]"), "p.yaml:6:9: steps[0].do[0]: a for_each within a for_each is not supported (put the inner one into a plan and use `run`)"},
		{"as", steps("id: a", "for_each: '[1]'", "as: steps", "do: [{id: c, set: {x: 1}}]"), `p.yaml:5:9: steps[0].as: the name "steps" is taken in expressions (choose another one, such as item)`},
		{"as builtin", steps("id: a", "for_each: '[1]'", "as: filter", "do: [{id: c, set: {x: 1}}]"), `p.yaml:5:9: steps[0].as: the name "filter" is taken in expressions (choose another one, such as item)`},
		{"max_parallel", steps("id: a", "for_each: '[1]'", "max_parallel: 0", "do: [{id: c, set: {x: 1}}]"), `p.yaml:5:19: steps[0].max_parallel: must be a whole number from 1 to 1000`},
		{"verify expect", steps("id: a", "tool: FILE_WRITE", "with: {file_path: a, content: b}", "verify: {tool: FILE_READ, with: {file_path: a}}"), "p.yaml:6:13: steps[0].verify: verify needs `tool` and `expect` (expect is true when the call happened: `expect: output.exists`)"},
		{"run missing", steps("id: a", "run: ./nothing.yaml"), `p.yaml:4:10: steps[0].run: the plan "nothing.yaml" cannot be read: open nothing.yaml: no such file or directory`},
		{"run inline", steps("id: a", "run: {orch: v1, steps: [{id: x, set: {y: '${{ inputs.z }}'}}]}"), `p.yaml:4:51: steps[0].run.steps[0].set.y: there is no input "z" (declare it below inputs.properties)`},
		{"run inputs", steps("id: a", "run:", "  orch: v1", "  inputs: {properties: {path: {}}, required: [path]}",
			"  steps: [{id: x, set: {y: 1}}]", "with: {pth: 1}"), `p.yaml:8:11: steps[0].with: the input "path" of the plan is missing
p.yaml:8:17: steps[0].with.pth: the plan has no input "pth" (did you mean path?)`},
		{"many steps", head + strings.Repeat("  - {id: a, set: {x: 1}}\n", 10_001), `p.yaml:10003:5: steps[10000]: the plan has more than 10000 steps (use for_each for repeated work)`},
	}
}

func levelCases() []problemCase {
	return []problemCase{
		{"same id", steps("id: a", "set: {x: 1}") + "  - {id: a, set: {x: 1}}\n", `p.yaml:5:10: steps[1].id: the id "a" occurs here for the second time (the first is in steps)`},
		{"same id in always", steps("id: a", "set: {x: 1}") + "always:\n  - {id: a, set: {x: 1}}\n", `p.yaml:6:10: always[0].id: the id "a" occurs here for the second time (the first is in steps)`},
		{"child has outer id", steps("id: a", "for_each: '[1]'", "do: [{id: a, set: {x: 1}}]"), `p.yaml:5:15: steps[0].do[0].id: the id "a" is that of an outer step (give it another one)`},
		{"children alike", steps("id: a", "for_each: '[1]'", "do: [{id: b, set: {x: 1}}, {id: b, set: {x: 1}}]"), `p.yaml:5:37: steps[0].do[1].id: the id "b" occurs here for the second time`},
		{"unknown need", steps("id: a", "needs: [bee]", "set: {x: 1}") + "  - {id: been, set: {x: 1}}\n", `p.yaml:4:13: steps[0].needs[0]: there is no step "bee" (did you mean been?)`},
		{"need twice", steps("id: a", "needs: [b, b]", "set: {x: 1}") + "  - {id: b, set: {x: 1}}\n", `p.yaml:4:16: steps[0].needs[1]: "b" occurs in the list twice`},
		{"need itself", steps("id: a", "needs: [a]", "set: {x: 1}"), `p.yaml:4:13: steps[0].needs[0]: the steps need each other: a -> a`},
		{"need of another level", steps("id: a", "for_each: '[1]'", "do: [{id: b, needs: [c], set: {x: 1}}]") + "  - {id: c, set: {x: 1}}\n", "p.yaml:5:26: steps[0].do[0].needs[0]: the step \"c\" is on another level, in `steps` (needs name steps of the same list)"},
		{"need of a child", steps("id: a", "for_each: '[1]'", "do: [{id: b, set: {x: 1}}]") + "  - {id: c, needs: [b], set: {x: 1}}\n", `p.yaml:6:21: steps[1].needs[0]: the step "b" is within "a" (need a instead)`},
		{"circle", steps("id: a", "needs: [b]", "set: {x: 1}") + "  - {id: b, set: {x: '${{ steps.c.output }}'}}\n  - {id: c, if: steps.a.state != '', set: {x: 1}}\n", `p.yaml:3:5: steps[0]: the steps need each other: a -> b -> c -> a`},
		{"circle of one", steps("id: a", "set: {x: '${{ steps.a.output }}'}"), `p.yaml:3:5: steps[0]: the steps need each other: a -> a`},
		{"circle in do", steps("id: a", "for_each: '[1]'", "do:", "  - {id: b, needs: [c], set: {x: 1}}", "  - {id: c, needs: [b], set: {x: 1}}"), `p.yaml:6:9: steps[0].do[0]: the steps need each other: b -> c -> b`},
		{"circle through do", steps("id: a", "for_each: '[1]'", "do: [{id: b, set: {x: '${{ steps.c.output }}'}}]") +
			"  - {id: c, needs: [a], set: {x: 1}}\n", `p.yaml:3:5: steps[0]: the steps need each other: a -> c -> a`},
		{"child refers to its for_each", steps("id: a", "for_each: '[1]'", "do: [{id: b, set: {x: '${{ steps.a.output }}'}}]"), `p.yaml:5:32: steps[0].do[0].set.x: a step cannot refer to the for_each around it`},
		{"reference to a child", steps("id: a", "for_each: '[1]'", "do: [{id: b, set: {x: 1}}]") + "  - {id: c, set: {x: '${{ steps.b.output }}'}}\n", `p.yaml:6:27: steps[1].set.x: the step "b" is only visible within "a" (the results of all items are in steps.a.output)`},
		{"reference to verify", steps("id: a", "set: {x: '${{ steps.v.output }}'}") + "verify:\n  - {id: v, tool: GIT_STATUS}\n", "p.yaml:4:19: steps[0].set.x: the step \"v\" of `verify` is not visible here (`verify` runs later)"},
		{"verify refers to always", steps("id: a", "set: {x: 1}") +
			"verify:\n  - {id: v, tool: GIT_STATUS, if: steps.z.state == ''}\nalways:\n  - {id: z, set: {x: 1}}\n", "p.yaml:6:35: verify[0].if: the step \"z\" of `always` is not visible here (`always` runs later)"},
	}
}

func expressionCases() []problemCase {
	const in = "inputs: {properties: {repo: {}}}\n"
	return []problemCase{
		{"unknown step", steps("id: a", "set:", "  x: ${{ steps.b.output }}"), `p.yaml:5:14: steps[0].set.x: there is no step "b"`},
		{"unknown step in the middle", steps("id: abc", "set:", "  x: one ${{ 1 }} and ${{ 1 + steps.acb.output }}"), `p.yaml:5:35: steps[0].set.x: there is no step "acb" (did you mean abc?)`},
		{"unknown input", in + steps("id: a", "set: {x: '${{ inputs.rep }}'}"), `p.yaml:5:19: steps[0].set.x: there is no input "rep" (did you mean repo?)`},
		{"no inputs", steps("id: a", "set: {x: '${{ inputs.rep }}'}"), `p.yaml:4:19: steps[0].set.x: there is no input "rep" (declare it below inputs.properties)`},
		{"block text", steps("id: a", "set:", "  x: |", "    first", "    second ${{ foo }}"), "p.yaml:7:20: steps[0].set.x: the expression `foo` is wrong: unknown name foo (texts need quotes; names here are inputs, steps, task, schedule, hook)"},
		{"bare", steps("id: a", "if: foo == 1", "set: {x: 1}"), "p.yaml:4:9: steps[0].if: the expression `foo == 1` is wrong: unknown name foo (texts need quotes; names here are inputs, steps, task, schedule, hook)"},
		{"marked", steps("id: a", "if: ${{ foo == 1 }}", "set: {x: 1}"), "p.yaml:4:13: steps[0].if: the expression `foo == 1` is wrong: unknown name foo (texts need quotes; names here are inputs, steps, task, schedule, hook)"},
		{"empty", steps("id: a", "if: ${{ }}", "set: {x: 1}"), `p.yaml:4:9: steps[0].if: the expression is empty`},
		{"syntax", steps("id: a", "if: 1 +", "set: {x: 1}"), "p.yaml:4:11: steps[0].if: the expression `1 +` is wrong: unexpected token EOF"},
		{"types", steps("id: a", "if: 1 + \"x\"", "set: {x: 1}"), "p.yaml:4:11: steps[0].if: the expression `1 + \"x\"` is wrong: invalid operation: + (mismatched types int and string)"},
		{"field", steps("id: a", "set: {x: 1}") + "  - {id: b, set: {x: '${{ steps.a.outputs }}'}}\n", "p.yaml:5:35: steps[1].set.x: the expression `steps.a.outputs` is wrong: unknown field outputs (did you mean output?)"},
		{"task field", steps("id: a", "set: {x: '${{ task.workspce }}'}"), "p.yaml:4:24: steps[0].set.x: the expression `task.workspce` is wrong: unknown field workspce (did you mean workspace?)"},
		{"function", steps("id: a", "set: {x: '${{ tojson(1) }}'}"), "p.yaml:4:19: steps[0].set.x: the expression `tojson(1)` is wrong: unknown name tojson (did you mean toJSON?)"},
		{"now", steps("id: a", "set: {x: '${{ now() }}'}"), "p.yaml:4:19: steps[0].set.x: the expression `now()` is wrong: unknown name now (expressions know no clock; pass the time as an input)"},
		{"env", steps("id: a", "set: {x: '${{ $env }}'}"), `p.yaml:4:19: steps[0].set.x: $env is not available (name what is needed)`},
		{"steps alone", steps("id: a", "set: {x: '${{ len(steps) }}'}"), "p.yaml:4:23: steps[0].set.x: `steps` alone cannot be used (name a step: steps.<id>.output)"},
		{"steps computed", in + steps("id: a", "set: {x: '${{ steps[inputs.repo] }}'}"), "p.yaml:5:19: steps[0].set.x: `steps` alone cannot be used (name a step: steps.<id>.output)"},
		{"error is never null", steps("id: a", "set: {x: 1}") + "  - {id: b, if: steps.a.error != nil, set: {x: 1}}\n", `p.yaml:5:31: steps[1].if: the error of a step is never null (compare its state: steps.x.state == "failed")`},
		{"not closed", steps("id: a", "set:", "  x: ${{ filter(inputs, # > 1) }}"), "p.yaml:5:10: steps[0].set.x: the ${{ is not closed by }} (in YAML ` #` begins a comment: quote the text; `$${{` stands for a literal `${{`)"},
		{"long", steps("id: a", "set: {x: '${{ "+strings.Repeat("1+", 2048)+"1 }}'}"), "p.yaml:4:14: steps[0].set.x: an expression has at most 4096 bytes, this has 4099 (compute parts of it in a `set` step)"},
		{"many nodes", steps("id: a", "set: {x: '${{ "+strings.Repeat("1+", 1000)+"1 }}'}"), "p.yaml:4:1020: steps[0].set.x: the expression `1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+…` is wrong: compilation failed: expression exceeds maximum allowed nodes"},
		{"item outside", steps("id: a", "for_each: '[item]'", "do: [{id: b, set: {x: 1}}]"), "p.yaml:4:17: steps[0].for_each: the expression `[item]` is wrong: unknown name item (texts need quotes; names here are inputs, steps, task, schedule, hook)"},
		{"allow", "orch: v1\nallow: {endpoints: ['${{ inputs.url }}', '${{ steps.a.output }}']}\nsteps: [{id: a, set: {x: 1}}]\n", `p.yaml:2:26: allow.endpoints[0]: there is no input "url" (declare it below inputs.properties)
p.yaml:2:47: allow.endpoints[1]: the expression ` + "`steps.a.output`" + ` is wrong: unknown name steps (texts need quotes; names here are inputs, task, schedule, hook)`},
		{"allow of a sub-plan", steps("id: a", "run: {orch: v1, inputs: {additionalProperties: true}, allow: {paths: ['${{ inputs.x }}']}, steps: [{id: b, set: {x: 1}}]}"), "p.yaml:4:66: steps[0].run.allow: the `allow` of a sub-plan is literal, for its inputs are known only when it runs (nobody has seen then what it would open)"},
		{"expect of a tool", steps("id: a", "tool: GIT_STATUS", "expect: outptu.clean"), "p.yaml:5:13: steps[0].expect: the expression `outptu.clean` is wrong: unknown name outptu (did you mean output?)"},
		{"expect of a set", steps("id: a", "set: {x: 1}", "expect: output.x == 1"), "p.yaml:5:13: steps[0].expect: a set step has no `expect`"},
		{"retry when", steps("id: a", "tool: GIT_STATUS", "retry: {when: error.classe == 'denied'}"), "p.yaml:5:25: steps[0].retry.when: the expression `error.classe == 'denied'` is wrong: unknown field classe (did you mean class?)"},
		{"expect", steps("id: a", "tool: GIT_STATUS", "verify: {tool: GIT_STATUS, expect: inputs.x}"), "p.yaml:5:40: steps[0].verify.expect: the expression `inputs.x` is wrong: unknown name inputs (texts need quotes; names here are output)"},
		{"json", `{"orch": "v1", "steps": [` + "\n" + ` {"id": "a", "set": {"x": "${{ nope }}"}}]}`, "p.yaml:2:32: steps[0].set.x: the expression `nope` is wrong: unknown name nope (did you mean none?)"},
	}
}

func toolCases() []problemCase {
	return []problemCase{
		{"unknown tool", steps("id: a", "tool: GIT_STATS"), `p.yaml:4:11: steps[0].tool: there is no tool "GIT_STATS" (did you mean GIT_STATUS?)`},
		{"missing argument", steps("id: a", "tool: FILE_READ", "with: {offset: 1}"), `p.yaml:5:11: steps[0].with: the argument "file_path" is missing`},
		{"missing arguments", steps("id: a", "tool: FILE_READ"), `p.yaml:3:5: steps[0].with: the argument "file_path" is missing`},
		{"unknown argument", steps("id: a", "tool: FILE_READ", "with: {file_path: a, ofset: 1}"), `p.yaml:5:33: steps[0].with.ofset: the tool has no argument "ofset" (did you mean offset?)`},
		{"verify kind", steps("id: a", "set: {x: 1}") + "verify:\n  - {id: v, set: {x: 1}}\n", "p.yaml:6:5: verify[0]: a step of `verify` calls a tool, this is a set step (move it to `steps`)"},
		{"verify state", steps("id: a", "set: {x: 1}") + "verify:\n  - {id: v, tool: BASH_EXECUTE, with: {command: ls}}\n", "p.yaml:6:19: verify[0].tool: the tool BASH_EXECUTE does not run while the task is COMPLETED (`verify`, and `always` beside a `verify`, need tools that run in any state; move the call to `steps`)"},
		{"always state", steps("id: a", "set: {x: 1}") +
			"verify:\n  - {id: v, tool: GIT_STATUS}\nalways:\n  - {id: z, tool: BASH_EXECUTE, with: {command: ls}}\n", "p.yaml:8:19: always[0].tool: the tool BASH_EXECUTE does not run while the task is COMPLETED (`verify`, and `always` beside a `verify`, need tools that run in any state; move the call to `steps`)"},
		{"always state deep", steps("id: a", "set: {x: 1}") + "verify:\n  - {id: v, tool: GIT_STATUS}\nalways:\n" +
			"  - {id: z, for_each: '[1]', do: [{id: y, run: {orch: v1, steps: [{id: x, tool: BASH_EXECUTE, with: {command: ls}}]}}]}\n", "p.yaml:8:81: always[0].do[0].run.steps[0].tool: the tool BASH_EXECUTE does not run while the task is COMPLETED (`verify`, and `always` beside a `verify`, need tools that run in any state; move the call to `steps`)"},
		{"retry in doubt", steps("id: a", "tool: BASH_EXECUTE", "with: {command: ls}", "retry: {on: [tool_error, timeout]}"), "p.yaml:6:30: steps[0].retry.on[1]: a write call is not repeated after timeout, for it may have happened (declare `effect: idempotent` if a repeat does no harm)"},
		{"verify tool", steps("id: a", "tool: GIT_STATUS", "verify: {tool: GIT_STATSU, expect: 'true'}"), `p.yaml:5:20: steps[0].verify.tool: there is no tool "GIT_STATSU" (did you mean GIT_STATUS?)`},
	}
}

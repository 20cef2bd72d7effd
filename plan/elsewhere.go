package plan

import "strings"

// This file maps keys and names of other workflow formats to those of a plan, for hints.

// normalKey returns a key in lower case without dashes and underscores.
func normalKey(key string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(key))
}

// keyAdvice returns the hint for a key of another format that corresponds to no single key of a plan. It returns "" for
// any other key.
func keyAdvice(key string) string {
	const (
		shell    = "call a tool: `tool: BASH_EXECUTE` with `with: {command: ...}`"
		schedule = "a plan has no schedule: let cron or a timer run `orch submit`"
		template = "name a tool (`tool`), or a plan of its own (`run`)"
	)
	return map[string]string{
		"command": shell, "script": shell, "shell": shell, "exec": shell, "executor": shell, "cmd": shell,
		"schedule": schedule, "cron": schedule, "on": schedule, "triggers": schedule,
		"template": template, "templateref": template, "entrypoint": template, "container": template, "image": template,
		"env":                   "a BASH_EXECUTE step has `env` among its arguments: `with: {env: {NAME: value}}`",
		"workingdirectory":      "it is an argument of BASH_EXECUTE: `with: {working_directory: ...}`",
		"dir":                   "it is an argument of BASH_EXECUTE: `with: {working_directory: ...}`",
		"failfast":              "a for_each or a matrix goes on after a failed item with `on_item_error: continue`",
		"timeoutminutes":        "write `timeout: 10m`",
		"timeoutsec":            "write `timeout: 90s`",
		"activedeadlineseconds": "write `timeout: 90s`",
		"repeatpolicy":          "write `until: <expression>`, `max_rounds` and `delay`",
		"suspend":               "write `wait: {for: 10m}` or `wait: {signal: name}`, or ask with `approve`",
		"sleep":                 "write `wait: {for: 10m}`",
		"runson":                "name the workers by `queue`",
		"secrets":               secretPlaces,
		"handleron":             "write the steps below `always`, with an `if` over the states of others",
	}[normalKey(key)]
}

// nameAdvice returns the hint for a name that expressions of another format use.
func nameAdvice(name string) string {
	const (
		input = "pass it as an input: inputs.<name>"
		ends  = "steps below `always` run however the task ends; before, `on_error` says what a failure means, and steps.<id>.state how a step ended"
	)
	return map[string]string{
		"now":    "expressions know no clock; pass the time as an input",
		"github": input, "params": input, "vars": input, "env": input, "workflow": input, "runner": input, "arguments": input,
		"always": ends, "success": ends, "failure": ends, "cancelled": ends,
		"needs": "write steps.<id>.output or steps.<id>.state", "jobs": "write steps.<id>.output or steps.<id>.state",
		"tasks":   "write steps.<id>.output or steps.<id>.state",
		"secrets": secretPlaces,
		"null":    "the null of JSON is written nil",
	}[name]
}

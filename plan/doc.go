// Package plan parses, checks and compiles plans: files that define the steps of a task.
//
// [Parse] reads YAML or JSON, reports every problem at once with file, line and column, and returns a [Plan] in normal
// form. [Compile] turns the normal form into a [Program]. The orchestrator gets the order of the steps and the values of
// their expressions from the program. The package is pure: it uses no clock, files or network.
//
// # Steps
//
// A step has exactly one kind: tool, for_each (or matrix), switch, wait, run, set or approve. Its needs are the steps in
// its `needs` and the steps that its expressions refer to. It starts when all its needs are done.
//
//   - A need is done when it succeeded or was skipped, or when it failed with `on_error: continue`.
//     A skipped step has no output (null), so refer to it with `?.` and `??`.
//   - If a step with `on_error: skip_dependents` fails, all steps that depend on it are skipped and the
//     task continues. If a step with `fail` (the default) fails, the task fails.
//   - The output of a for_each step is a list with one entry per item, in the order of the items. An
//     entry is an object that maps the ids of `do` to their outputs (null for a step without output).
//   - `verify` steps run while the task is COMPLETED, `always` steps in every end state. Both may
//     refer to `steps`, but `steps` may not refer to them.
//
// # Expressions
//
// A string that consists only of `${{ x }}` has the JSON type of x. In a longer string the value of x becomes text; a
// list, an object or null is then an error (write toJSON(x) or x ?? ""). `$${{` stands for a literal `${{`. The fields
// if, for_each, switch, expect, until and when are bare expressions: they are always expressions, and the `${{ }}` around
// them may be left out.
//
// The language is that of github.com/expr-lang/expr without everything that depends on time or on map order. Visible
// names: inputs, steps.<id>.output, .state, .error.code, .error.message (both empty without an error), .attempts,
// task.id, .name, .workspace, .root, .attempt, .created, schedule.name, .time,
// hook.name, .delivery, .headers, .body, and in `do` the item under its `as` name and index.
//
// An exit status of a command that is not 0, or a failed test, is a result and not an error. fail(message) fails the
// step, so that a plan can turn such a result into an error:
// `${{ steps.make.output.exit_code == 0 ? true : fail("make failed") }}`.
package plan

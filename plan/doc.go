// Package plan parses, checks and compiles plans: the files that say which steps a task runs.
//
// [Parse] reads YAML or JSON, reports every problem at once with file, line and column, and returns a [Plan] in normal
// form. [Compile] turns the normal form into a [Program], which the orchestrator asks for the order of the steps and
// for the values of their expressions. The package is pure: it uses no clock, files or network.
//
// # Steps
//
// A step has exactly one kind: tool, for_each, wait, run or set. It starts when all its needs are
// done; needs are those that it declares and the steps that its expressions refer to.
//
//   - A need is done when it succeeded or was skipped, or when it failed with `on_error: continue`.
//     A skipped step has no output (null), so refer to it with `?.` and `??`.
//   - With `on_error: skip_dependents` a failed step marks all that depend on it as skipped and the
//     task goes on; with `fail` (the default) the task fails.
//   - The output of a for_each step is a list with one entry an item, in the order of the items; an
//     entry is an object that maps the ids of `do` to their outputs (null where a step has none).
//   - `verify` steps run while the task is COMPLETED, `always` steps in every end state. Both may
//     refer to `steps`; the reverse is refused.
//
// # Expressions
//
// `${{ x }}` alone keeps the JSON type of x; mixed with text it becomes part of a string, where
// lists, objects and null are refused (write toJSON(x) or x ?? ""). `$${{` stands for a literal
// `${{`. The fields if, for_each, until and expect are expressions by nature: the `${{ }}` around
// them may be left out. The language is that of github.com/expr-lang/expr without anything that
// depends on time or on map order. Visible names: inputs, steps.<id>.output, .state, .error.code,
// .error.message (both empty without an error), .attempts, task.id, .name, .workspace, .root,
// .attempt, and in `do` the item under its `as` name and index.
//
// A command's exit status other than 0, or a failed test, is a result and not an error. fail(message)
// ends its step with an error, so that a plan can say what it expects:
// `${{ steps.make.output.exit_code == 0 ? true : fail("make failed") }}`.
package plan

package shell

import (
	"context"
	"encoding/json"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/orch-dev/orch/classify/shell"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/tools"
)

type shellExecIn struct {
	Command string   `json:"command" jsonschema:"The command to run: grep, sed, awk, find, cat, head, tail, wc, sort, uniq, cut, tr, diff, file, stat, ls, du or rg" minLength:"1"`
	Args    []string `json:"args,omitempty" jsonschema:"Arguments; no shell reads them. Relative paths start at the root"`
}

type shellExecOut struct {
	ExitCode  int    `json:"exit_code" jsonschema:"Exit status; 128+n after signal n"`
	Stdout    string `json:"stdout" jsonschema:"Standard output, at most the first 1 MiB; bytes that are not UTF-8 are replaced"`
	Stderr    string `json:"stderr" jsonschema:"Standard error, at most the first 1 MiB"`
	Truncated bool   `json:"truncated" jsonschema:"Output beyond 1 MiB was dropped"`
}

// shellExec is shell_exec (S4-050 to S4-060, A-98, A-99). Its commands only read: package policy rejects arguments
// that would make them write, run programs or leave the root.
var shellExec = shellExecTool{tools.Define(tools.Spec{
	Name:    "shell_exec",
	Title:   "Run a read-only command",
	Purpose: "Execute a whitelisted command directly, without a shell, in the root",
	Conditions: []string{
		"The command is one of grep, sed, awk, find, cat, head, tail, wc, sort, uniq, cut, tr, diff, file, stat, ls, du, rg",
		"Every path that an argument names lies in the root",
		"Arguments that write, run programs or wait for more input are refused",
	},
	Effect:   tools.Read,
	Gate:     tools.AnyState,
	Approval: tools.NoApproval,
	Errors:   []string{"CommandNotAllowed", "OutsideRoot", "PROTECTED_PATH", "VALIDATION_ERROR", "EXEC_FAILED", "TIMEOUT"},
}, func(ctx context.Context, env *tools.Env, in shellExecIn) (shellExecOut, error) {
	operands, err := shell.ReadOnlyArgs(in.Command, in.Args)
	if err != nil {
		return shellExecOut{}, err
	}
	if err := confine(ctx, env, operands); err != nil {
		return shellExecOut{}, err
	}
	res, err := env.Exec.Run(ctx, proc.Command{
		Name: in.Command, Args: in.Args, Dir: env.Root.Name(), Env: environment(env.Workspace),
		Sandbox: proc.Sandbox{Read: env.Reach()}, Output: env.Output,
	})
	if err != nil {
		return shellExecOut{}, withOutput(err, res)
	}
	stdout, cutOut := truncateJSON(res.Stdout)
	stderr, cutErr := truncateJSON(res.Stderr)
	return shellExecOut{ExitCode: res.ExitCode, Stdout: stdout, Stderr: stderr, Truncated: res.Truncated || cutOut || cutErr}, nil
})}

// shellExecTool adds the text form of results that the specification requires (S4-055).
type shellExecTool struct{ tools.Tool }

// Text returns the three parts of a result, each after its name (S4-055).
func (shellExecTool) Text(out json.RawMessage) string {
	var o shellExecOut
	if json.Unmarshal(out, &o) != nil {
		return string(out)
	}
	return "exit_code: " + strconv.Itoa(o.ExitCode) + "\nstdout:\n" + o.Stdout + "\nstderr:\n" + o.Stderr
}

// confine checks that every path that a command would open lies in the root, links included.
func confine(ctx context.Context, env *tools.Env, operands []shell.Operand) error {
	w := linkWalk{root: env.Root, seen: map[string]bool{}}
	for _, o := range operands {
		path := o.Path
		if !filepath.IsAbs(path) {
			// Not joined: a .. after a link is relative to the target of the link.
			path = env.Root.Name() + "/" + path
		}
		rel, err := env.Root.Resolve(path)
		if err == nil && o.Follow {
			err = w.follow(ctx, rel)
		}
		if err != nil {
			return fault.From(err).WithField(fieldOf(o))
		}
	}
	return nil
}

func fieldOf(o shell.Operand) string {
	if o.Arg < 0 {
		return "args"
	}
	return "args[" + strconv.Itoa(o.Arg) + "]"
}

// linkWalk searches for links that leave the root.
type linkWalk struct {
	root *pathguard.Root
	seen map[string]bool
}

// follow visits a directory and the directories to which links in it point. It returns OUTSIDE_ROOT or PROTECTED_PATH
// for a link with such a target. It ignores paths that cannot be opened: the command reports those itself.
func (w linkWalk) follow(ctx context.Context, rel string) error {
	if info, err := w.root.Stat(rel); err != nil || !info.IsDir() || w.seen[rel] {
		return nil //nolint:nilerr // the command itself reports a path that it cannot open
	}
	w.seen[rel] = true
	return w.root.Walk(ctx, rel, func(at string, entry fs.DirEntry) error {
		if entry.Type()&fs.ModeSymlink == 0 {
			return nil
		}
		target, err := w.root.Resolve(w.root.Abs(at))
		if fault.Has(err, fault.OutsideRoot) || fault.Has(err, fault.ProtectedPath) {
			return fault.New(fault.CodeOf(err), "the link %s, which the command would follow, leads to a forbidden path", at).
				WithReason(fault.From(err).Reason).WithHint("use options that do not follow links")
		}
		if err != nil {
			return nil //nolint:nilerr // the command cannot follow the link either
		}
		return w.follow(ctx, target)
	})
}

// Package shell is the family of tools that run shell commands (S0 rules).
package shell

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"github.com/orch-dev/orch/classify/shell"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/tools"
)

// Tools returns the tools of the family.
func Tools() []tools.Tool { return []tools.Tool{bashExecute, shellExec} }

// maxTime is the longest timeout that a caller may request.
const maxTime = time.Hour

type bashExecuteIn struct {
	Command string `json:"command" jsonschema:"Shell command to execute with bash; standard input is empty and there is no terminal" minLength:"1"`
	Timeout int64  `json:"timeout,omitempty" jsonschema:"Timeout in milliseconds" default:"120000" minimum:"1" maximum:"3600000"`
	// Env and Argv pass values to a command without parsing by a shell.
	Env              map[string]string `json:"env,omitempty" jsonschema:"Variables of the command, in addition to those of the node; it reads them as \"$NAME\""`
	Argv             []string          `json:"argv,omitempty" jsonschema:"Positional parameters of the command; it reads them as \"$1\", \"$2\" or \"$@\""`
	WorkingDirectory string            `json:"working_directory,omitempty" jsonschema:"Absolute path of the working directory; default: the project of a session, else the workspace of the task"`
}

type bashExecuteOut struct {
	Stdout     string `json:"stdout" jsonschema:"Standard output, at most the first 1 MiB; bytes that are not UTF-8 are replaced"`
	Stderr     string `json:"stderr" jsonschema:"Standard error, at most the first 1 MiB"`
	ExitCode   int    `json:"exit_code" jsonschema:"Exit status; 128+n after signal n"`
	DurationMS int64  `json:"duration_ms" jsonschema:"Duration in milliseconds"`
	Truncated  bool   `json:"truncated" jsonschema:"Output beyond 1 MiB was dropped"`
}

// bashExecute is BASH_EXECUTE (S0-080 to S0-086, A-29 to A-31). Package policy decides before the tool runs whether a
// command is destructive or interactive.
var bashExecute = tools.Define(tools.Spec{
	Name:    "BASH_EXECUTE",
	Title:   "Run a shell command",
	Purpose: "Execute shell command",
	Conditions: []string{
		"Task state: IN_PROGRESS",
		"Non-destructive commands: no approval",
		"Destructive commands: requires approval",
		"No interactive commands",
	},
	Effect:      tools.Write,
	Gate:        tools.InProgress,
	Approval:    tools.IfDestructive,
	Paths:       []tools.Path{{Field: "working_directory", Access: tools.ReadPath}},
	Command:     "command",
	Environment: "env",
	Secrets:     map[string]bool{"env": false},
	Timeout:     maxTime,
	Errors:      []string{"TIMEOUT", "EXEC_FAILED", "OUTSIDE_ROOT", "NOT_FOUND", "INVALID_PATH", "APPROVAL_REQUIRED", "VALIDATION_ERROR"},
}, func(ctx context.Context, env *tools.Env, in bashExecuteIn) (bashExecuteOut, error) {
	dir, err := workingDirectory(env, in.WorkingDirectory)
	if err != nil {
		return bashExecuteOut{}, err
	}
	variables, err := in.environment(env.Workspace)
	if err != nil {
		return bashExecuteOut{}, err
	}
	sandbox := env.Sandbox
	if folder, ok := shell.OnlyGit(in.Command); ok && len(in.Env)+len(in.Argv) == 0 {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder)
		}
		sandbox = func(...string) proc.Sandbox { return env.GitSandbox(filepath.Clean(folder)) }
	}
	seen := map[string]int64{}
	res, err := env.Exec.Run(ctx, proc.Command{
		Name:    "bash",
		Args:    append([]string{"--noprofile", "--norc", "-c", in.Command, "bash"}, in.Argv...),
		Dir:     dir,
		Env:     variables,
		Secrets: env.Secrets,
		Sandbox: sandbox(),
		Timeout: time.Duration(in.Timeout) * time.Millisecond,
		Output:  env.Output,
		OnOutput: func(stream string, n int64) {
			seen[stream] = n
			env.Progress(float64(seen["stdout"]+seen["stderr"]), 0, "bytes of output")
		},
	})
	if err != nil {
		return bashExecuteOut{}, withOutput(err, res)
	}
	stdout, cutOut := truncateJSON(res.Stdout)
	stderr, cutErr := truncateJSON(res.Stderr + repositoryHint(res))
	return bashExecuteOut{
		Stdout: stdout, Stderr: stderr, ExitCode: res.ExitCode,
		DurationMS: res.Duration.Milliseconds(), Truncated: res.Truncated || cutOut || cutErr,
	}, nil
})

// repositoryHint explains why a script could not write in a repository, or returns "".
func repositoryHint(res proc.Result) string {
	if res.ExitCode == 0 || !strings.Contains(res.Stderr, "Read-only file system") || !strings.Contains(res.Stderr, ".git/") {
		return ""
	}
	return "orch: .git is writable only for commands that run nothing but git; run git in a separate command\n"
}

// environment returns the environment variables of the command.
func (in bashExecuteIn) environment(workspace string) (map[string]string, error) {
	variables := environment(workspace)
	for _, name := range slices.Sorted(maps.Keys(in.Env)) {
		if !syntax.ValidName(name) {
			return nil, fault.New(fault.ValidationError, "%q is not a valid name of a variable", name).WithField("env").
				WithHint("names have letters, digits and underscores, and begin with no digit")
		}
		if strings.ContainsRune(in.Env[name], 0) {
			return nil, fault.New(fault.ValidationError, "the value contains a NUL").WithField("env." + name)
		}
		variables[name] = in.Env[name]
	}
	for i, value := range in.Argv {
		if strings.ContainsRune(value, 0) {
			return nil, fault.New(fault.ValidationError, "the value contains a NUL").WithField("argv[" + strconv.Itoa(i) + "]")
		}
	}
	return variables, nil
}

// environment returns the variables that a command gets in addition to the environment of the node.
// GIT_CEILING_DIRECTORIES stops git from searching for a repository above the workspace, where it would find that of
// the user.
func environment(workspace string) map[string]string {
	temp := filepath.Join(workspace, "temp")
	return map[string]string{"HOME": temp, "TMPDIR": temp, "GIT_CEILING_DIRECTORIES": filepath.Dir(workspace)}
}

// workingDirectory returns the real path of an existing directory inside the root (S0-085).
func workingDirectory(env *tools.Env, path string) (string, error) {
	if path == "" {
		path = env.Start()
	}
	dir, err := env.Root.ExistingDir(path)
	if err != nil {
		return "", fault.From(err).WithField("working_directory")
	}
	return dir, env.StillAt("working_directory", dir)
}

// withOutput adds the last output of a stopped command to its error (S0-082).
func withOutput(err error, res proc.Result) error {
	const limit = 2048 // bytes of each stream
	e := fault.From(err)
	for _, stream := range []struct{ name, text string }{{"stdout", res.Stdout}, {"stderr", res.Stderr}} {
		if text := stream.text; text != "" {
			if len(text) > limit {
				text = "…" + strings.ToValidUTF8(text[len(text)-limit:], "")
			}
			e.Message += "\n" + stream.name + " so far:\n" + text
		}
	}
	return e
}

package build

import (
	"cmp"
	"context"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/tools"
)

type buildExecuteIn struct {
	BuildCommand string `json:"build_command,omitempty" jsonschema:"Build command override, run by bash in the workspace of the task; default: detected by Makefile, go.mod, Cargo.toml or the build script of package.json"`
	Target       string `json:"target,omitempty" jsonschema:"Build target: a target of make, a Go package, a script of package.json or a binary of Cargo; with build_command it is appended as the last word" pattern:"^[A-Za-z0-9_.@][A-Za-z0-9_.:/@+-]*$" maxLength:"200"`
}

type buildExecuteOut struct {
	Success   bool     `json:"success" jsonschema:"The build ended with status 0"`
	Artifacts []string `json:"artifacts" jsonschema:"Absolute paths of the files that the build made or changed, at most 100"`
	Errors    []string `json:"errors" jsonschema:"Errors that the build reported, at most 100"`
	Warnings  []string `json:"warnings" jsonschema:"Warnings that the build reported, at most 100"`
	ExitCode  int      `json:"exit_code" jsonschema:"Exit status; 128+n after signal n"`
}

// buildExecute is BUILD_EXECUTE (S0-135, S0-136). The policy checks its command like a command of BASH_EXECUTE.
func buildExecute() tools.Tool {
	return tools.DefineIntent(tools.Spec{
		Name:    "BUILD_EXECUTE",
		Title:   "Build",
		Purpose: "Execute build process",
		Conditions: []string{
			"Task state: IN_PROGRESS",
			"Build configuration exists",
			"Destructive build commands: requires approval",
		},
		Effect:    tools.Write,
		Gate:      tools.InProgress,
		Approval:  tools.ByIntent,
		InProject: true,
		Timeout:   maxTime,
		Errors:    []string{"EXEC_FAILED", "TIMEOUT", "APPROVAL_REQUIRED", "VALIDATION_ERROR"},
	}, buildIntent, build)
}

func buildIntent(_ context.Context, env *tools.Env, in buildExecuteIn) (tools.Intent, error) {
	p, err := intentProject(env)
	if err != nil {
		return tools.Intent{}, err
	}
	command, _, err := p.buildCommand(in)
	return tools.Intent{Command: command}, err
}

// build runs the build command and collects the changed files and the messages.
func build(ctx context.Context, env *tools.Env, in buildExecuteIn) (buildExecuteOut, error) {
	p, err := newProject(env)
	if err != nil {
		return buildExecuteOut{}, err
	}
	command, program, err := p.buildCommand(in)
	if err != nil {
		return buildExecuteOut{}, err
	}
	if program != "" {
		if _, err := env.Exec.LookPath(program); err != nil {
			return buildExecuteOut{}, err
		}
	}
	variables, err := p.variables()
	if err != nil {
		return buildExecuteOut{}, err
	}
	before, err := p.stampFiles(ctx)
	if err != nil {
		return buildExecuteOut{}, err
	}
	res, err := env.Exec.Run(ctx, proc.Command{
		Name: "bash", Args: []string{"--noprofile", "--norc", "-c", command}, Dir: p.dir, Env: variables, Sandbox: env.Sandbox(),
		Output: env.Output,
	})
	if err != nil {
		return buildExecuteOut{}, err
	}
	after, err := p.stampFiles(ctx)
	if err != nil {
		return buildExecuteOut{}, err
	}
	out := buildExecuteOut{Success: res.ExitCode == 0, ExitCode: res.ExitCode, Artifacts: changedFiles(before, after)}
	out.Errors, out.Warnings = messages(res.Stdout + "\n" + res.Stderr)
	if !out.Success && len(out.Errors) == 0 {
		out.Errors = append(out.Errors, shorten(res.Stdout+"\n"+res.Stderr))
	}
	return out, nil
}

// buildCommand returns the shell command that builds the project. program is the executable that the command needs, or
// "" when the caller specified the command. The target needs no quotes, because its pattern excludes characters that a
// shell would interpret.
func (p project) buildCommand(in buildExecuteIn) (command, program string, err error) {
	if strings.Contains("/"+in.Target+"/", "/../") {
		return "", "", fault.New(fault.ValidationError, "the target must not leave the workspace").WithField("target")
	}
	if strings.TrimSpace(in.BuildCommand) != "" {
		return strings.TrimSpace(in.BuildCommand + " " + in.Target), "", nil
	}
	switch {
	case p.has("Makefile"), p.has("makefile"), p.has("GNUmakefile"):
		return strings.TrimSpace("make " + in.Target), "make", nil
	case p.has("go.mod"):
		return "go build " + cmp.Or(in.Target, "./..."), "go", nil
	case p.has("Cargo.toml"):
		if in.Target != "" {
			return "cargo build --bin " + in.Target, "cargo", nil
		}
		return "cargo build", "cargo", nil
	case p.has("package.json"):
		script := cmp.Or(in.Target, "build")
		return "npm run " + script, "npm", p.hasScript(script)
	}
	return "", "", fault.New(fault.ExecFailed, "no build is configured in %s", p.dir).
		WithHint("supported are Makefile, go.mod, Cargo.toml and package.json with a build script; or set build_command")
}

// hasScript returns EXEC_FAILED unless package.json has the script.
func (p project) hasScript(name string) error {
	data, err := p.read("package.json")
	if err != nil {
		return err
	}
	var manifest struct {
		Scripts map[string]string `json:"scripts"`
	}
	if json.Unmarshal(data, &manifest) != nil {
		return fault.New(fault.ExecFailed, "package.json in %s is not valid JSON", p.dir)
	}
	if manifest.Scripts[name] == "" {
		return fault.New(fault.ExecFailed, "no build is configured in %s: package.json has no script %q", p.dir, name)
	}
	return nil
}

// messages extracts the errors and warnings from the output of a build with go, gcc, clang, rustc, tsc, make or npm.
// It adds the source location that rustc writes on the next line.
func messages(output string) (errs, warnings []string) {
	errs, warnings = []string{}, []string{}
	isError := regexp.MustCompile(`(?i)^error(\[\w+\])?:|: (fatal )?error( TS\d+)?:|\): error |- error |^[^\s:]+\.go:\d+(:\d+)?: |^go: |\*\*\* .*(Error|Stop)|^npm (ERR!|error) |: undefined reference to `)
	isWarning := regexp.MustCompile(`(?i)^warning(\[\w+\])?:|: warning( TS\d+)?:|\): warning |- warning |^npm (WARN|warn) `)
	location := regexp.MustCompile(`^\s*--> (\S+:\d+:\d+)`)
	last := (*[]string)(nil) // the list to which the previous line was added; nil if none
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\r\n")
		if at := location.FindStringSubmatch(line); at != nil && last != nil {
			list := *last
			list[len(list)-1] = at[1] + ": " + list[len(list)-1]
			last = nil
			continue
		}
		list := (*[]string)(nil)
		switch {
		case isWarning.MatchString(line):
			list = &warnings
		case isError.MatchString(line):
			list = &errs
		}
		if list == nil {
			continue
		}
		last = nil
		if len(*list) < maxMessages {
			*list = append(*list, shorten(line))
			last = list
		}
	}
	return errs, warnings
}

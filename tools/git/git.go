// Package git is the family of tools for git repositories (S0 rules). They call the git binary.
//
// A repository may be hostile: its configuration can name programs for git to run. The reading tools disable all such
// programs on the command line. They take no locks, never prompt and never use a repository above the root (S0-109). Of
// the writing tools, only GIT_COMMIT runs programs of the repository: its hooks, in the sandbox. GIT_PUSH pushes from a
// temporary repository, to which the configuration of the real one does not apply.
package git

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/tools"
)

// maxOutput limits a diff or a list of changes to 1 MiB.
const maxOutput = 1 << 20

// Tools returns the tools of the family.
func Tools(cfg Config) []tools.Tool {
	cfg = cfg.withDefaults()
	return []tools.Tool{gitStatus, gitDiff, gitAdd(cfg), gitCommit(cfg), gitPush(cfg)}
}

// repository is a git work tree inside the root.
type repository struct {
	env *tools.Env
	// dir is the real absolute path that the caller named: the work tree or a folder in it.
	dir string
	// top is the root folder of the work tree. gitDirs are the git directory and the common directory, which hold the
	// committed contents.
	top     string
	gitDirs []string
	// filters are the sections of the configuration that define filters: "filter.<name>".
	filters []string
}

// openRepository opens the repository that contains path; the default is the starting directory of the call. It returns
// NOT_FOUND with the reason REPO_NOT_FOUND when there is no repository, and OUTSIDE_ROOT when the work tree begins
// above the root.
func openRepository(ctx context.Context, env *tools.Env, path string) (*repository, error) {
	if path == "" {
		path = env.Start()
	}
	dir, err := env.Root.ExistingDir(path)
	if err != nil {
		return nil, fault.From(err).WithField("repository_path")
	}
	r := &repository{env: env, dir: dir}
	res, err := r.run(ctx, "rev-parse", "--path-format=absolute", "--is-inside-work-tree", "--show-toplevel", "--absolute-git-dir", "--git-common-dir")
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(res.Stdout, "\n"), "\n")
	if res.ExitCode != 0 || len(lines) != 4 || lines[0] != "true" {
		return nil, r.notFound(ctx)
	}
	// The configuration may place the work tree or the repository elsewhere.
	for i, dir := range lines[1:] {
		if lines[i+1], err = env.Root.ExistingDir(dir); err != nil {
			return nil, fault.From(err).WithField("repository_path")
		}
	}
	r.top, r.gitDirs = lines[1], lines[2:]
	if err := r.checkGitDirs(); err != nil {
		return nil, err
	}
	return r, r.loadFilters(ctx)
}

// notFound returns the error for a folder without a usable work tree: NOT_FOUND if there is none, OUTSIDE_ROOT if the
// work tree or its repository lies outside of the root. To distinguish these cases git may read the whole file system
// here. It runs no programs, and its output is not shown.
func (r *repository) notFound(ctx context.Context) error {
	c := r.command("rev-parse", "--is-inside-work-tree", "--show-toplevel")
	delete(c.Env, ceiling)
	c.Sandbox.Read = []string{"/"}
	res, err := r.env.Exec.Run(ctx, c)
	top, inside := strings.CutPrefix(res.Stdout, "true\n")
	switch {
	case err != nil:
		return err
	case res.ExitCode == 0 && inside && r.inRoot(strings.TrimSuffix(top, "\n")):
		return fault.New(fault.OutsideRoot, "the work tree of %s belongs to a repository that lies outside of the root", r.dir).
			WithReason("OutsideRoot").WithField("repository_path").
			WithHint("start with --root at a folder that contains the repository, too, or use a clone instead of git worktree")
	case res.ExitCode == 0 && inside:
		return fault.New(fault.OutsideRoot, "the work tree of %s lies outside of the root", r.dir).
			WithReason("OutsideRoot").WithField("repository_path").WithHint("start with --root at the top of the repository")
	default:
		return fault.New(fault.NotFound, "%s is in no git work tree", r.dir).
			WithReason("REPO_NOT_FOUND").WithField("repository_path").WithHint("name the folder of a git repository below %s", r.env.Root.Name())
	}
}

// inRoot reports whether a folder lies inside the root.
func (r *repository) inRoot(dir string) bool {
	_, err := r.env.Root.ExistingDir(dir)
	return err == nil
}

// loadFilters reads which filters the configuration defines. status and diff would run them on changed files, so
// environment overrides their commands.
func (r *repository) loadFilters(ctx context.Context) error {
	res, err := r.run(ctx, "config", "--null", "--name-only", "--get-regexp", `^filter\.`)
	if err != nil {
		return err
	}
	if res.ExitCode > 1 || res.Truncated { // 1: no filter is defined
		return exitError("git config", res)
	}
	names := map[string]bool{}
	for key := range strings.SplitSeq(res.Stdout, "\x00") {
		if end := strings.LastIndexByte(key, '.'); end > len("filter.") {
			names[key[:end]] = true
		}
	}
	r.filters = slices.Sorted(maps.Keys(names))
	return nil
}

// run runs git in the repository. An exit status other than 0 is not an error.
func (r *repository) run(ctx context.Context, args ...string) (proc.Result, error) {
	return r.env.Exec.Run(ctx, r.command(args...))
}

// command returns a git command for the repository with all safeguards.
func (r *repository) command(args ...string) proc.Command {
	return proc.Command{
		Name: "git", Args: append(overrides(), args...), Dir: r.dir, Env: r.environment(), Limit: maxOutput,
		Sandbox: proc.Sandbox{Read: r.env.Reach(), Undeny: r.gitDirs},
	}
}

// ceiling is the environment variable with the folder at which git stops searching for a repository.
const ceiling = "GIT_CEILING_DIRECTORIES"

// environment returns variables that isolate git from the user and the system, and disable the filters.
func (r *repository) environment() map[string]string {
	temp := filepath.Join(r.env.Workspace, "temp")
	env := map[string]string{
		"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
		ceiling: filepath.Dir(r.env.Root.Name()), "GIT_EDITOR": "false", "GIT_ASKPASS": "false",
		"GIT_NO_LAZY_FETCH": "1", "HOME": temp, "TMPDIR": temp, "LC_ALL": "C",
	}
	n := 0
	for _, filter := range r.filters {
		for _, setting := range [][2]string{{"clean", ""}, {"smudge", ""}, {"process", ""}, {"required", "false"}} {
			env["GIT_CONFIG_KEY_"+strconv.Itoa(n)] = filter + "." + setting[0]
			env["GIT_CONFIG_VALUE_"+strconv.Itoa(n)] = setting[1]
			n++
		}
	}
	env["GIT_CONFIG_COUNT"] = strconv.Itoa(n)
	return env
}

// literalPathspecs makes git use paths literally.
const literalPathspecs = "--literal-pathspecs"

// overrides returns arguments that disable every program that the configuration of a repository may run, except
// filters. They also disable git's check of the owner, because the work tree may belong to a different user than the
// node. That is safe: the operator chose the root, and no programs of the work tree run.
func overrides() []string {
	args := []string{"--no-pager", "--no-replace-objects", literalPathspecs}
	for _, setting := range []string{
		"safe.directory=*", "core.fsmonitor=false", "core.hooksPath=/dev/null", "core.pager=cat", "core.editor=false",
		"core.sshCommand=false", "core.askPass=false", "core.attributesFile=/dev/null", "core.quotePath=false",
		"credential.helper=", "protocol.allow=never", "gc.auto=0", "maintenance.auto=false", "core.splitIndex=false",
		"commit.gpgSign=false", "push.gpgSign=false", "submodule.recurse=false", "color.ui=false",
	} {
		args = append(args, "-c", setting)
	}
	return args
}

// exitError converts an unexpected exit of git into an error with the message of git.
func exitError(command string, res proc.Result) error {
	const limit = 1000 // bytes
	message := strings.TrimSpace(res.Stderr)
	if len(message) > limit {
		message = strings.ToValidUTF8(message[:limit], "") + "…"
	}
	return fault.New(fault.ExecFailed, "%s ended with status %d: %s", command, res.ExitCode, message)
}

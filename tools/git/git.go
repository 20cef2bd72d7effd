// Package git is the family of tools for git repositories (seed 000). They call the git binary.
//
// A repository may be hostile: its configuration can name programs for git to run. Everything that
// the reading tools could be made to run is therefore switched off on the command line, and they take no
// locks, ask nothing and never use a repository above the root (S0-109). Of the writing tools only
// GIT_COMMIT runs something of the repository, its hooks, in the sandbox; GIT_PUSH pushes from a repository
// of its own, in which no foreign configuration counts.
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

// maxOutput is how many bytes of a diff or a list of changes are kept: 1 MiB.
const maxOutput = 1 << 20

// Tools returns the family.
func Tools(cfg Config) []tools.Tool {
	cfg = cfg.withDefaults()
	return []tools.Tool{gitStatus, gitDiff, gitAdd(cfg), gitCommit(cfg), gitPush(cfg)}
}

// repository is a git work tree inside the root.
type repository struct {
	env *tools.Env
	// dir is the real absolute path that the caller named: the work tree or a folder of it.
	dir string
	// top is the work tree; stores are where the repository lies, and hold what was committed.
	top    string
	stores []string
	// filters are the sections of the configuration that define filters: "filter.<name>".
	filters []string
}

// open finds the repository of a path; the default is the workspace of the task. NOT_FOUND with the
// reason REPO_NOT_FOUND when there is none, OUTSIDE_ROOT when its work tree begins above the root.
func open(ctx context.Context, env *tools.Env, path string) (*repository, error) {
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
		return nil, r.missing(ctx)
	}
	// The configuration may put the work tree or the repository somewhere else.
	for i, place := range lines[1:] {
		if lines[i+1], err = env.Root.ExistingDir(place); err != nil {
			return nil, fault.From(err).WithField("repository_path")
		}
	}
	r.top, r.stores = lines[1], lines[2:]
	if err := r.borrowed(); err != nil {
		return nil, err
	}
	return r, r.disarm(ctx)
}

// missing tells why there is no work tree: none at all, or one that lies outside of the root or whose repository does.
// To find that one, git reads everywhere here; it runs nothing, and what it answers is not shown.
func (r *repository) missing(ctx context.Context) error {
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
			WithHint("start with --root at a folder that holds the repository too, or use a clone instead of git worktree")
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

// disarm finds the filters that the configuration defines, which status and diff would run on changed
// files, and takes their commands away.
func (r *repository) disarm(ctx context.Context) error {
	res, err := r.run(ctx, "config", "--null", "--name-only", "--get-regexp", `^filter\.`)
	if err != nil {
		return err
	}
	if res.ExitCode > 1 || res.Truncated { // 1: there are none
		return failed("git config", res)
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

// run runs git in the repository. An exit status other than 0 is no error.
func (r *repository) run(ctx context.Context, args ...string) (proc.Result, error) {
	return r.env.Exec.Run(ctx, r.command(args...))
}

func (r *repository) command(args ...string) proc.Command {
	return proc.Command{
		Name: "git", Args: append(overrides(), args...), Dir: r.dir, Env: r.environment(), Limit: maxOutput,
		Sandbox: proc.Sandbox{Read: r.env.Reach(), Undeny: r.stores},
	}
}

// ceiling is the variable that names the folder where git stops to look for a repository.
const ceiling = "GIT_CEILING_DIRECTORIES"

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

// literalPathspecs makes git take paths as they are.
const literalPathspecs = "--literal-pathspecs"

// overrides switches off what a repository's configuration may run, filters aside. The work tree may
// belong to another user than the node: it lies in the root, which the operator has chosen, and
// nothing of it is run, so git's own check of the owner is off for these calls.
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

// failed turns an unexpected exit of git into an error with what git said.
func failed(what string, res proc.Result) error {
	const most = 1000 // bytes
	said := strings.TrimSpace(res.Stderr)
	if len(said) > most {
		said = strings.ToValidUTF8(said[:most], "") + "…"
	}
	return fault.New(fault.ExecFailed, "%s ended with status %d: %s", what, res.ExitCode, said)
}

package git

import (
	"context"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type gitDiffIn struct {
	RepositoryPath string `json:"repository_path,omitempty" jsonschema:"Absolute path of the git repository or a folder in it; default: the project of a session, else the workspace of the task"`
	Staged         bool   `json:"staged,omitempty" jsonschema:"Show staged changes only" default:"false"`
	Base           string `json:"base,omitempty" jsonschema:"Commit or branch, such as main or HEAD~3: show what has changed since HEAD left it, not only since the last commit" maxLength:"256"`
}

type gitDiffOut struct {
	Diff      string   `json:"diff" jsonschema:"Unified diff, at most the first 1 MiB"`
	Files     []string `json:"files" jsonschema:"Paths of the changed files, relative to the top of the work tree"`
	Truncated bool     `json:"truncated" jsonschema:"The diff or the list of files was cut"`
}

// gitDiff is GIT_DIFF (S0-101, S0-109).
var gitDiff = tools.Define(tools.Spec{
	Name:       "GIT_DIFF",
	Title:      "Show changes of a git work tree",
	Purpose:    "Show changes in working tree",
	Conditions: []string{"Any task state", "Repository must exist"},
	Effect:     tools.Read,
	Gate:       tools.AnyState,
	Approval:   tools.NoApproval,
	Paths:      []tools.Path{{Field: "repository_path", Access: tools.ReadPath}},
	Errors:     []string{"REPO_NOT_FOUND", "NOT_FOUND", "OUTSIDE_ROOT", "INVALID_PATH", "EXEC_FAILED"},
}, func(ctx context.Context, env *tools.Env, in gitDiffIn) (gitDiffOut, error) {
	repo, err := openRepository(ctx, env, in.RepositoryPath)
	if err != nil {
		return gitDiffOut{}, err
	}
	comparison, err := repo.comparison(ctx, in)
	if err != nil {
		return gitDiffOut{}, err
	}
	excluded, err := repo.excludes(ctx, comparison)
	if err != nil {
		return gitDiffOut{}, err
	}
	diff, cutDiff, err := repo.diff(ctx, comparison, excluded, "--patch")
	if err != nil {
		return gitDiffOut{}, err
	}
	if diff, err = repo.withoutKeys(ctx, diff, comparison, excluded); err != nil {
		return gitDiffOut{}, err
	}
	names, cutNames, err := repo.diff(ctx, comparison, excluded, "--name-only", "-z")
	if err != nil {
		return gitDiffOut{}, err
	}
	return gitDiffOut{Diff: diff, Files: repo.withoutDenied(splitNames(names)), Truncated: cutDiff || cutNames}, nil
})

// comparison returns the arguments of git diff that select the two sides. The new side is the work tree or, with
// in.Staged, the index. The old side is the merge base of HEAD and in.Base, if that is set; otherwise git uses HEAD for
// the index and the index for the work tree.
func (r *repository) comparison(ctx context.Context, in gitDiffIn) (args []string, err error) {
	if in.Staged {
		args = append(args, "--cached")
	}
	if in.Base == "" {
		return args, nil
	}
	base, err := r.resolveCommit(ctx, in.Base)
	if err != nil {
		return nil, err
	}
	res, err := r.run(ctx, "merge-base", base, "HEAD")
	if err != nil {
		return nil, err
	}
	if res.ExitCode != 0 {
		return nil, fault.New(fault.ValidationError, "has no commit in common with HEAD").WithField("base").WithHint("git log --all shows the commits")
	}
	return append(args, strings.TrimSpace(res.Stdout)), nil
}

// resolveCommit returns the id of the commit that a name denotes, such as a branch, a tag or HEAD~3.
func (r *repository) resolveCommit(ctx context.Context, name string) (string, error) {
	res, err := r.run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	if err != nil {
		return "", err
	}
	if id := strings.TrimSpace(res.Stdout); res.ExitCode == 0 && isCommitID(id) {
		return id, nil
	}
	return "", fault.New(fault.NotFound, "there is no commit %q", name).WithField("base").WithHint("give a branch, a tag or a commit, such as main or HEAD~3")
}

func isCommitID(id string) bool {
	return len(id) >= 40 && strings.Trim(id, "0123456789abcdef") == ""
}

// excludes returns pathspecs that exclude denied files from a diff.
func (r *repository) excludes(ctx context.Context, comparison []string) ([]string, error) {
	if !r.env.Root.Narrowed() {
		return nil, nil
	}
	names, truncated, err := r.diff(ctx, comparison, nil, "--name-only", "--no-renames", "-z")
	if err != nil {
		return nil, err
	}
	var excluded []string
	for _, name := range splitNames(names) {
		if r.denies(name) {
			excluded = append(excluded, ":(top,exclude,literal)"+name)
		}
	}
	if truncated || len(excluded) > maxDenied {
		return nil, fault.New(fault.ValidationError, "too many files have changed to omit those that the call must not access").
			WithReason("LIMIT_EXCEEDED").WithField("repository_path").WithHint("at most %d files can be omitted, and the names of all changed files must fit into 1 MiB", maxDenied)
	}
	return excluded, nil
}

// diff runs git diff. The configuration of the repository does not affect the output. The pathspecs in excluded remove
// files from it.
func (r *repository) diff(ctx context.Context, comparison, excluded []string, form ...string) (text string, truncated bool, err error) {
	args := append([]string{
		"diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty", "--submodule=short", "--find-renames",
		"--src-prefix=a/", "--dst-prefix=b/", "--no-relative", "-O/dev/null",
	}, form...)
	c := r.command(append(append(args, comparison...), "--")...)
	if len(excluded) > 0 {
		c.Args = slices.DeleteFunc(c.Args, func(arg string) bool { return arg == literalPathspecs })
		c.Args = append(append(c.Args, ":(top)"), excluded...)
	}
	res, err := r.env.Exec.Run(ctx, c)
	if err != nil {
		return "", false, err
	}
	if res.ExitCode != 0 {
		return "", false, exitError("git diff", res)
	}
	return res.Stdout, res.Truncated, nil
}

// splitNames parses names that end with NUL and drops an incomplete last name. git lists a file in conflict once for
// each side; splitNames returns it once.
func splitNames(text string) []string {
	names := []string{}
	for name := range strings.SplitSeq(text[:strings.LastIndexByte(text, 0)+1], "\x00") {
		if name != "" && (len(names) == 0 || names[len(names)-1] != name) {
			names = append(names, name)
		}
	}
	return names
}

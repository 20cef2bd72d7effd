package git

import (
	"context"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/tools"
)

const (
	// maxSubject is the longest first line of a message, in characters.
	maxSubject = 72
	// maxChangeTime is the time limit of a commit with its hooks, or of a push.
	maxChangeTime = 10 * time.Minute
)

type gitCommitIn struct {
	Message        string `json:"message" jsonschema:"Commit message; its first line follows Conventional Commits, such as fix: read empty lines, and has at most 72 characters" minLength:"1" maxLength:"20000"`
	RepositoryPath string `json:"repository_path,omitempty" jsonschema:"Absolute path of the git repository or a folder in it; default: the project of a session, else the workspace of the task"`
}

type gitCommitOut struct {
	CommitHash string   `json:"commit_hash" jsonschema:"Hash of the new commit"`
	Files      []string `json:"files" jsonschema:"Paths of the files that the commit changes, relative to the top of the work tree"`
}

// gitCommit is GIT_COMMIT (S0-104, S0-105, S0-109). The hooks of the repository run, in the sandbox.
func gitCommit(cfg Config) tools.Tool {
	return tools.Define(tools.Spec{
		Name:       "GIT_COMMIT",
		Title:      "Commit staged changes",
		Purpose:    "Create git commit",
		Conditions: []string{"Task state: IN_PROGRESS", "Changes staged", "Commit message follows conventions", "No staged file contains a secret"},
		Effect:     tools.Write,
		Gate:       tools.InProgress,
		Approval:   tools.NoApproval,
		Timeout:    maxChangeTime,
		Paths:      []tools.Path{{Field: "repository_path", Access: tools.ReadPath}},
		Content:    []string{"message"},
		Errors: []string{
			"NOTHING_STAGED", "HOOK_FAILED", "BAD_MESSAGE", "IDENTITY_MISSING", "SECRET_DETECTED", "CONFLICT", "REPO_NOT_FOUND", "NOT_FOUND",
			"OUTSIDE_ROOT", "PROTECTED_PATH", "INVALID_PATH", "VALIDATION_ERROR", "EXEC_FAILED", "TIMEOUT",
		},
	}, func(ctx context.Context, env *tools.Env, in gitCommitIn) (gitCommitOut, error) {
		if err := cfg.checkMessage(in.Message); err != nil {
			return gitCommitOut{}, err
		}
		w, err := openWritable(ctx, env, in.RepositoryPath)
		if err != nil {
			return gitCommitOut{}, err
		}
		if err := w.checkStaged(ctx, cfg); err != nil {
			return gitCommitOut{}, err
		}
		return w.commit(ctx, cfg, in.Message)
	})
}

// checkMessage checks a commit message against the conventions.
func (c Config) checkMessage(message string) error {
	bad := func(why string) error {
		return fault.New(fault.ValidationError, "the commit message does not follow the conventions: %s", why).WithReason("BAD_MESSAGE").
			WithField("message").WithHint("begin with a line such as fix: read empty lines, of at most %d characters", maxSubject)
	}
	re, err := c.conventions()
	if err != nil {
		return err
	}
	subject, body, _ := strings.Cut(message, "\n")
	switch {
	case strings.ContainsAny(message, "\x00\r"):
		return bad("it contains a NUL or a carriage return")
	case utf8.RuneCountInString(subject) > maxSubject:
		return bad("its first line is too long")
	case !re.MatchString(subject):
		return bad("its first line does not match " + c.Conventions)
	case body != "" && !strings.HasPrefix(body, "\n"):
		return bad("its second line is not empty")
	}
	return nil
}

// checkStaged checks that something is staged and that no staged file contains a secret.
func (w *writable) checkStaged(ctx context.Context, cfg Config) error {
	res, err := w.run(ctx, "diff", "--cached", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=dirty", "--no-relative", "-O/dev/null", "--")
	if err != nil {
		return err
	}
	if res.ExitCode != 0 || res.Truncated {
		return exitError("git diff", res)
	}
	names := splitNames(res.Stdout)
	if len(names) == 0 {
		return fault.New(fault.ValidationError, "nothing is staged in %s", w.top).WithReason("NOTHING_STAGED").WithHint("stage files with GIT_ADD")
	}
	all, err := w.entries(ctx, "")
	if err != nil {
		return err
	}
	changed := map[string]bool{}
	for _, name := range names {
		changed[name] = true
	}
	var staged []entry
	for _, e := range all {
		if changed[e.path] {
			staged = append(staged, e)
		}
	}
	return w.checkSecrets(ctx, cfg, staged)
}

// commit runs git commit with the hooks of the repository.
func (w *writable) commit(ctx context.Context, cfg Config, message string) (gitCommitOut, error) {
	hooks, err := w.hooks(ctx)
	if err != nil {
		return gitCommitOut{}, err
	}
	identity, err := w.identity(ctx, cfg)
	if err != nil {
		return gitCommitOut{}, err
	}
	write := []string{w.top, w.env.Workspace}
	res, err := w.runWriting(ctx, identity, write, "-c", "core.hooksPath="+hooks, "-c", "user.useConfigOnly=true", "-C", w.top,
		"commit", "--quiet", "--no-status", "--no-edit", "--cleanup=whitespace", "--no-gpg-sign", "--message="+message)
	if err != nil {
		return gitCommitOut{}, err
	}
	if res.ExitCode != 0 {
		return gitCommitOut{}, commitError(res)
	}
	return w.describeCommit(ctx)
}

// identity returns the environment variables that name author and committer. They contain the identity in cfg. Without
// one, they are empty if the repository configures an identity, and otherwise contain the identity of the user of the
// node.
func (w *writable) identity(ctx context.Context, cfg Config) (map[string]string, error) {
	name, email := cfg.Name, cfg.Email
	if name == "" || email == "" {
		res, err := w.run(ctx, "config", "--name-only", "--get-regexp", `^user\.(name|email)$`)
		if err != nil {
			return nil, err
		}
		if name, email = "", ""; !strings.Contains(res.Stdout, "user.name") || !strings.Contains(res.Stdout, "user.email") {
			name, email = cfg.Own(ctx)
		}
	}
	identity := map[string]string{}
	for _, prefix := range []string{"GIT_AUTHOR_", "GIT_COMMITTER_"} {
		if name != "" {
			identity[prefix+"NAME"] = name
		}
		if email != "" {
			identity[prefix+"EMAIL"] = email
		}
	}
	return identity, nil
}

// hooks returns the folder of the hooks. It must lie inside the root, because the sandbox also permits programs of the
// system (S0-104).
func (w *writable) hooks(ctx context.Context) (string, error) {
	c := w.command("config", "--local", "--type=path", "--get", "core.hooksPath")
	res, err := w.env.Exec.Run(ctx, c)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(w.common, "hooks")
	if set := strings.TrimSuffix(res.Stdout, "\n"); res.ExitCode == 0 && set != "" {
		dir = set
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(w.top, dir)
		}
	}
	rel, err := w.env.Root.Resolve(dir)
	if err != nil {
		return "", fault.From(err).WithField("repository_path").WithHint("the hooks of the repository must lie inside the root")
	}
	return w.env.Root.Abs(rel), checkForeign(w.env, w.env.Root.Abs(rel))
}

// commitError returns the error of a failed git commit, by its output and exit status.
func commitError(res proc.Result) error {
	output := strings.TrimSpace(res.Stderr + "\n" + res.Stdout)
	switch {
	case strings.Contains(output, "unmerged files"):
		return fault.New(fault.Conflict, "the index contains conflicts: %s", shorten(output)).WithHint("resolve the conflicts and stage the files")
	case strings.Contains(output, "index.lock"), strings.Contains(output, "cannot lock ref"):
		return fault.New(fault.Conflict, "something else is changing the repository: %s", shorten(output)).WithHint("try again")
	case strings.Contains(output, "no name was given"), strings.Contains(output, "no email was given"), strings.Contains(output, "auto-detection is disabled"):
		return fault.New(fault.ValidationError, "no author is configured").WithReason("IDENTITY_MISSING").
			WithHint("git config user.name and user.email in the repository or, with --global, for the user of the node; or GIT_AUTHOR_NAME and GIT_AUTHOR_EMAIL for the node")
	case res.ExitCode == 1: // git itself exits with 128 on errors
		return fault.New(fault.ExecFailed, "a hook of the repository refused the commit: %s", shorten(output)).WithReason("HOOK_FAILED")
	}
	return exitError("git commit", res)
}

// describeCommit returns the hash and the files of the new commit.
func (w *writable) describeCommit(ctx context.Context) (gitCommitOut, error) {
	head, err := w.run(ctx, "rev-parse", "--verify", "HEAD")
	if err != nil {
		return gitCommitOut{}, err
	}
	files, err := w.run(ctx, "diff-tree", "--root", "--no-commit-id", "--name-only", "-r", "-m", "--first-parent", "--no-renames", "-z", "HEAD", "--")
	if err != nil {
		return gitCommitOut{}, err
	}
	if head.ExitCode != 0 || files.ExitCode != 0 {
		return gitCommitOut{}, exitError("git rev-parse", head)
	}
	return gitCommitOut{CommitHash: strings.TrimSpace(head.Stdout), Files: w.withoutDenied(splitNames(files.Stdout))}, nil
}

// shorten keeps the end of the output of a program, which usually states the reason.
func shorten(output string) string {
	const limit = 4000 // bytes
	if len(output) > limit {
		output = "…" + strings.ToValidUTF8(output[len(output)-limit:], "")
	}
	return output
}

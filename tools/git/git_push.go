package git

import (
	"context"
	"crypto/rand"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/tools"
)

type gitPushIn struct {
	Remote         string `json:"remote,omitempty" jsonschema:"Name of a remote of the repository" default:"origin"`
	Branch         string `json:"branch,omitempty" jsonschema:"Branch to push to the branch of the same name; default: the current one"`
	Force          bool   `json:"force,omitempty" jsonschema:"Replace the commits of the remote branch; never permitted for a protected branch" default:"false"`
	RepositoryPath string `json:"repository_path,omitempty" jsonschema:"Absolute path of the git repository or a folder in it; default: the project of a session, else the workspace of the task"`
}

type gitPushOut struct {
	Remote     string `json:"remote" jsonschema:"Remote that was pushed to"`
	Branch     string `json:"branch" jsonschema:"Branch that was pushed"`
	Forced     bool   `json:"forced" jsonschema:"The push replaced commits of the remote branch"`
	CommitHash string `json:"commit_hash" jsonschema:"Commit that the remote branch has now"`
}

// push is one validated push.
type push struct {
	remote

	repo *writable
	// name is the name of the remote, commit the tip of the branch.
	name, branch, commit string
	force                bool
}

// gitPush is GIT_PUSH (S0-106 to S0-109, A-35). It pushes one commit to one branch.
func gitPush(cfg Config) tools.Tool {
	return tools.DefineIntent(tools.Spec{
		Name:    "GIT_PUSH",
		Title:   "Push a branch",
		Purpose: "Push commits to remote repository",
		Conditions: []string{
			"Task state: IN_PROGRESS",
			"Commits exist locally",
			"Not force push to protected branches",
			"Protected branches and remotes that the plan does not name: require approval",
		},
		Effect:     tools.Write,
		MayDestroy: true,
		Gate:       tools.InProgress,
		Approval:   tools.ByIntent,
		OpenWorld:  true,
		Timeout:    maxChangeTime,
		Paths:      []tools.Path{{Field: "repository_path", Access: tools.ReadPath}},
		Errors: []string{
			"NOTHING_TO_PUSH", "CONFLICT", "NETWORK_ERROR", "UNAUTHORIZED", "FORBIDDEN", "APPROVAL_REQUIRED", "REMOTE_NOT_FOUND", "REMOTE_REFUSED",
			"REMOTE_REJECTED", "DETACHED_HEAD", "REPO_NOT_FOUND", "NOT_FOUND", "OUTSIDE_ROOT", "PROTECTED_PATH", "INVALID_FORMAT", "INVALID_PATH",
			"VALIDATION_ERROR", "EXEC_FAILED", "TIMEOUT",
		},
	}, func(ctx context.Context, env *tools.Env, in gitPushIn) (tools.Intent, error) {
		p, err := newPush(ctx, cfg, env, in)
		if err != nil {
			return tools.Intent{}, err
		}
		intent := tools.Intent{Effect: tools.Write, Reason: "push", Targets: p.targets()}
		if p.force {
			intent.Effect, intent.Reason = tools.Destructive, "forced push"
		}
		return intent, nil
	}, func(ctx context.Context, env *tools.Env, in gitPushIn) (gitPushOut, error) {
		p, err := newPush(ctx, cfg, env, in)
		if err != nil {
			return gitPushOut{}, err
		}
		// The repository may have changed since the policy checked the call.
		for _, target := range p.targets() {
			if env.Allows == nil || !env.Allows(target) {
				return gitPushOut{}, fault.New(fault.Conflict, "the %s %s is not the one that the policy checked", target.Kind, target.Name).WithHint("try again")
			}
		}
		return p.run(ctx, cfg)
	})
}

// newPush validates the input and resolves the remote, the branch and the commit.
func newPush(ctx context.Context, cfg Config, env *tools.Env, in gitPushIn) (push, error) {
	w, err := openWritable(ctx, env, in.RepositoryPath)
	if err != nil {
		return push{}, err
	}
	p := push{repo: w, name: in.Remote, force: in.Force}
	if p.remote, err = w.remoteOf(ctx, cfg, in.Remote); err != nil {
		return push{}, err
	}
	if p.branch, err = w.branchOf(ctx, in.Branch); err != nil {
		return push{}, err
	}
	res, err := w.run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", "refs/heads/"+p.branch+"^{commit}")
	if err != nil {
		return push{}, err
	}
	if p.commit = strings.TrimSpace(res.Stdout); res.ExitCode != 0 || p.commit == "" {
		if in.Branch == "" {
			return push{}, p.nothingToPush()
		}
		return push{}, fault.New(fault.NotFound, "there is no local branch %s", p.branch).WithField("branch")
	}
	return p, nil
}

func (p push) nothingToPush() error {
	return fault.New(fault.ValidationError, "the branch %s has no commits that %s lacks", p.branch, p.name).WithReason("NOTHING_TO_PUSH")
}

// run pushes from an empty temporary repository that borrows the objects of the real repository. The configuration of
// the real repository, such as programs, proxies or further addresses, therefore has no effect.
func (p push) run(ctx context.Context, cfg Config) (gitPushOut, error) {
	dir := filepath.Join(p.repo.env.Workspace, "temp", "push-"+rand.Text())
	rel, err := p.repo.env.Own(dir)
	if err != nil {
		return gitPushOut{}, err
	}
	defer func() { _ = p.repo.env.Root.RemoveAll(rel) }() // anything left is removed with the workspace
	if err := p.createTemporary(ctx, rel); err != nil {
		return gitPushOut{}, err
	}
	res, err := p.repo.env.Exec.Run(ctx, p.command(cfg, p.repo.env.Root.Abs(rel)))
	if err != nil {
		return gitPushOut{}, err
	}
	flag, summary := parsePushResult(res.Stdout)
	switch flag {
	case " ", "*", "+":
	case "=":
		return gitPushOut{}, p.nothingToPush()
	default:
		return gitPushOut{}, p.pushError(res, flag, summary)
	}
	p.updateTrackingRef(ctx)
	return gitPushOut{Remote: p.name, Branch: p.branch, Forced: flag == "+", CommitHash: p.commit}, nil
}

// createTemporary creates the repository from which to push.
func (p push) createTemporary(ctx context.Context, rel string) error {
	root := p.repo.env.Root
	if strings.Contains(p.repo.common, "\n") {
		return fault.New(fault.InvalidFormat, "the path of the repository contains a line break").WithReason("INVALID_PATH").WithField("repository_path")
	}
	format, err := p.repo.run(ctx, "rev-parse", "--show-object-format")
	if err != nil {
		return err
	}
	if format.ExitCode != 0 {
		return exitError("git rev-parse", format)
	}
	if err := root.MkdirAll(rel, 0o700); err != nil {
		return err
	}
	c := p.repo.command("init", "--quiet", "--bare", "--template=", "--object-format="+strings.TrimSpace(format.Stdout), ".")
	c.Dir, c.Sandbox.Write = root.Abs(rel), []string{root.Abs(rel)}
	res, err := p.repo.env.Exec.Run(ctx, c)
	if err != nil {
		return err
	}
	if res.ExitCode != 0 {
		return exitError("git init", res)
	}
	if err := root.MkdirAll(filepath.Join(rel, "objects", "info"), 0o700); err != nil {
		return err
	}
	_, err = root.WriteAtomic(filepath.Join(rel, "objects", "info", "alternates"), []byte(filepath.Join(p.repo.common, "objects")+"\n"), 0o600)
	if err != nil {
		return err
	}
	return p.copyShallow(rel)
}

// copyShallow copies the boundary of a shallow history to the temporary repository.
func (p push) copyShallow(rel string) error {
	root := p.repo.env.Root
	from, err := root.Resolve(filepath.Join(p.repo.common, "shallow"))
	if err != nil {
		return err
	}
	data, err := root.ReadFile(from, maxOutput)
	if fault.Has(err, fault.NotFound) {
		return nil
	}
	if err == nil {
		_, err = root.WriteAtomic(filepath.Join(rel, "shallow"), data, 0o600)
	}
	return err
}

// command returns the command that pushes the commit to the branch. It permits only the protocol of the remote.
func (p push) command(cfg Config, dir string) proc.Command {
	args := []string{
		"-c", "protocol.allow=never", "-c", "protocol." + p.protocol + ".allow=always", "-c", "http.followRedirects=false", "-c", "http.proxy=",
		"-c", "push.followTags=false", "-c", "push.recurseSubmodules=no",
	}
	if p.protocol == "ssh" {
		args = append(args, "-c", "core.sshCommand="+cfg.SSHCommand)
	}
	if strings.HasPrefix(p.protocol, "http") && cfg.CredentialHelper != "" {
		args = append(args, "-c", "credential.helper="+cfg.CredentialHelper)
	}
	args = append(args, "push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-signed", "--receive-pack=git-receive-pack")
	if p.force {
		args = append(args, "--force")
	}
	c := p.repo.command(append(args, "--", p.url, p.commit+":refs/heads/"+p.branch)...)
	c.Dir, c.Env["GIT_DIR"] = dir, dir
	c.Sandbox.Write, c.Sandbox.Network = []string{dir}, p.protocol != "file"
	if p.protocol == "file" {
		c.Sandbox.Write, c.Sandbox.Undeny = append(c.Sandbox.Write, p.dir), append(slices.Clone(c.Sandbox.Undeny), p.dir)
	} else {
		c.Sandbox.Read = append(c.Sandbox.Read, cfg.Read...)
	}
	return c
}

// parsePushResult returns the flag and the summary from the line of the output about the branch.
func parsePushResult(text string) (flag, summary string) {
	for line := range strings.SplitSeq(text, "\n") {
		if fields := strings.SplitN(line, "\t", 3); len(fields) == 3 && strings.Contains(fields[1], ":refs/heads/") {
			return fields[0], fields[2]
		}
	}
	return "", ""
}

// pushError returns the error of a failed push (S0-107).
func (p push) pushError(res proc.Result, flag, summary string) error {
	message := shorten(strings.TrimSpace(res.Stderr))
	contains := func(texts ...string) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(message, text) })
	}
	switch {
	case flag == "!" && strings.HasPrefix(summary, "[rejected]"):
		return fault.New(fault.Conflict, "%s has commits that the branch %s lacks: %s", p.name, p.branch, summary).WithReason("NON_FAST_FORWARD").
			WithHint("bring them in first")
	case flag == "!":
		return fault.New(fault.Conflict, "%s rejected the branch %s: %s: %s", p.name, p.branch, summary, message).WithReason("REMOTE_REJECTED")
	case contains("Authentication failed", "could not read Username", "could not read Password", "Permission denied (", "error: 401", "error: 403"):
		return fault.New(fault.Unauthorized, "%s did not accept the credentials of the node: %s", p.name, message)
	default:
		return fault.New(fault.NetworkError, "%s cannot be reached: %s", p.name, message)
	}
}

// updateTrackingRef sets the remote-tracking branch of the repository, as git push does. The push has already
// succeeded, so a failure is only logged.
func (p push) updateTrackingRef(ctx context.Context) {
	ref := "refs/remotes/" + p.name + "/" + p.branch
	res, err := p.repo.runWriting(ctx, nil, nil, "update-ref", "--no-deref", "-m", "update by push", ref, p.commit)
	if err == nil && res.ExitCode != 0 {
		err = exitError("git update-ref", res)
	}
	if err != nil {
		p.repo.env.Log.WarnContext(ctx, "tracking_branch_not_updated",
			slog.String("remote", p.name), slog.String("branch", p.branch), slog.Any("error", err))
	}
}

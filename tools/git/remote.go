package git

import (
	"cmp"
	"context"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/tools"
)

// remoteNames, branchNames and sshAddresses match the permitted forms. They exclude anything that git could parse as
// an option, a URL, a path, a refspec or a revision. The name of a remote has no slash, because the name of a target
// is remote/branch, split at the first slash.
const (
	remoteNames  = `^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$`
	branchNames  = `^[\pL\pN_][\pL\pN\pM_.,+=#%&!@/-]{0,199}$`
	sshAddresses = `^(?:([A-Za-z0-9_][A-Za-z0-9_.-]*)@)?([A-Za-z0-9][A-Za-z0-9.-]*):([^:].*)$`
)

// remote is the destination of a push.
type remote struct {
	// protocol is file, https, http or ssh; url is the address that is passed to git.
	protocol, url string
	// endpoint is the target of a remote outside the root, "" for a remote inside the root.
	endpoint string
	// dir is the repository of a remote inside the root.
	dir string
}

// remoteOf returns the remote with a name in the configuration. URL rewriting of the configuration (insteadOf) does
// not apply.
func (w *writable) remoteOf(ctx context.Context, cfg Config, name string) (remote, error) {
	if !regexp.MustCompile(remoteNames).MatchString(name) || strings.Contains(name, "..") {
		return remote{}, fault.New(fault.InvalidFormat, "%q is not a valid name of a remote", name).WithField("remote").
			WithHint("name a remote of the repository, such as origin; URLs and paths are not accepted")
	}
	for _, key := range []string{"pushurl", "url"} {
		res, err := w.run(ctx, "config", "--null", "--get-all", "remote."+name+"."+key)
		if err != nil {
			return remote{}, err
		}
		if res.ExitCode != 0 {
			continue
		}
		urls := strings.Split(strings.TrimSuffix(res.Stdout, "\x00"), "\x00")
		if len(urls) > 1 {
			return remote{}, fault.New(fault.ValidationError, "the remote %s has several addresses", name).WithField("remote")
		}
		r, err := w.parseRemote(ctx, cfg, urls[0])
		if err != nil {
			return remote{}, fault.From(err).WithField("remote")
		}
		return r, nil
	}
	return remote{}, fault.New(fault.NotFound, "the repository has no remote %s", name).WithReason("REMOTE_NOT_FOUND").WithField("remote")
}

// parseRemote parses the address of a remote. It accepts folders inside the root and https, and http or ssh if the
// operator has configured them.
func (w *writable) parseRemote(ctx context.Context, cfg Config, text string) (remote, error) {
	if text == "" || strings.HasPrefix(text, "-") || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return remote{}, remoteError("it is empty, an option, or contains control characters")
	}
	if helper, _, found := strings.Cut(text, "::"); found && !strings.ContainsAny(helper, "/") {
		return remote{}, remoteError("it names a helper program")
	}
	if strings.Contains(text, "://") {
		return w.parseURL(ctx, cfg, text)
	}
	colon, slash := strings.IndexByte(text, ':'), strings.IndexByte(text, '/')
	if colon < 0 || (slash >= 0 && slash < colon) {
		if !filepath.IsAbs(text) {
			text = filepath.Join(w.top, text)
		}
		return w.parseFile(ctx, text)
	}
	m := regexp.MustCompile(sshAddresses).FindStringSubmatch(text)
	if m == nil {
		return remote{}, remoteError("it has no known form")
	}
	return sshRemote(cfg, text, m[2], "")
}

// parseURL parses an address with a scheme.
func (w *writable) parseURL(ctx context.Context, cfg Config, text string) (remote, error) {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Fragment != "" || u.RawQuery != "" {
		return remote{}, remoteError("it has no known form") // an error of url.Parse may repeat a password
	}
	host, err := netguard.Host(u.Hostname())
	// The host that git parses must be the one that the policy checks, not another spelling of it.
	validHost := err == nil && regexp.MustCompile(`^([a-zA-Z0-9][a-zA-Z0-9.-]*|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*)$`).MatchString(u.Hostname())
	_, password := u.User.Password()
	switch {
	case password:
		return remote{}, remoteError("it contains a password")
	case u.Scheme == "file" && u.Host == "" && u.User == nil:
		return w.parseFile(ctx, u.Path)
	case u.Scheme == "https" && validHost:
		return remote{protocol: "https", url: u.String(), endpoint: endpoint("https", host, u.Port(), "443")}, nil
	case u.Scheme == "http" && validHost && cfg.PlainHTTP(host, cmp.Or(u.Port(), "80")):
		return remote{protocol: "http", url: u.String(), endpoint: endpoint("http", host, u.Port(), "80")}, nil
	case u.Scheme == "http" && validHost:
		return remote{}, remoteError("http without encryption is for hosts that the operator lists in net_allow")
	case u.Scheme == "ssh" && validHost && !strings.HasPrefix(u.User.Username(), "-"):
		return sshRemote(cfg, u.String(), host, u.Port())
	}
	return remote{}, remoteError("only https, ssh and folders inside the root are permitted")
}

// sshRemote returns a remote over ssh, if the operator has configured ssh.
func sshRemote(cfg Config, text, host, port string) (remote, error) {
	if cfg.SSHCommand == "" {
		return remote{}, remoteError("ssh is not set up for the node")
	}
	plain, err := netguard.Host(host)
	if err != nil {
		return remote{}, remoteError("its host has no known form")
	}
	return remote{protocol: "ssh", url: text, endpoint: endpoint("ssh", plain, port, "22")}, nil
}

// endpoint returns the name of an endpoint target.
func endpoint(scheme, host, port, defaultPort string) string {
	if port = strings.TrimLeft(port, "0"); port == "" {
		port = defaultPort
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return scheme + "://" + host + ":" + port
}

// parseFile returns the remote for the repository in a folder. The git directories to which the folder points must lie
// inside the root, too.
func (w *writable) parseFile(ctx context.Context, path string) (remote, error) {
	dir, err := w.env.Root.ExistingDir(path)
	if fault.Has(err, fault.NotFound) {
		return remote{}, fault.Wrap(fault.NetworkError, err, "the remote cannot be reached")
	}
	if err != nil {
		return remote{}, err
	}
	c := w.command("rev-parse", "--path-format=absolute", "--absolute-git-dir", "--git-common-dir")
	c.Dir, c.Env[ceiling] = dir, filepath.Dir(dir)
	res, err := w.env.Exec.Run(ctx, c)
	if err != nil {
		return remote{}, err
	}
	dirs := strings.Split(strings.TrimSuffix(res.Stdout, "\n"), "\n")
	if res.ExitCode != 0 || len(dirs) != 2 {
		return remote{}, fault.New(fault.NetworkError, "the remote cannot be reached: %s is not a repository", dir)
	}
	for i, gitDir := range dirs {
		if dirs[i], err = w.env.Root.ExistingDir(gitDir); err == nil {
			err = checkForeign(w.env, dirs[i])
		}
		if err != nil {
			return remote{}, err
		}
	}
	// Git would first look for a repository in the subfolder .git of this folder.
	nested, err := w.env.Root.ResolveEntry(filepath.Join(dirs[0], ".git"))
	if err == nil {
		_, err = w.env.Root.Lstat(nested)
	}
	if !fault.Has(err, fault.NotFound) || dirs[0] != dirs[1] {
		return remote{}, remoteError("its repository points to another one")
	}
	return remote{protocol: "file", url: dirs[0], dir: dirs[0]}, nil
}

func remoteError(why string) *fault.Error {
	return fault.New(fault.Forbidden, "the address of the remote is refused: %s", why).WithReason("REMOTE_REFUSED")
}

// targets returns the targets of a push outside of the repository.
func (p push) targets() []tools.Target {
	targets := []tools.Target{{Kind: tools.Branch, Name: p.name + "/" + p.branch, Force: p.force}}
	if p.endpoint != "" {
		targets = append(targets, tools.Target{Kind: tools.Endpoint, Name: p.endpoint})
	}
	return targets
}

// branchOf validates the name of a branch; the default is the current branch.
func (w *writable) branchOf(ctx context.Context, name string) (string, error) {
	if name == "" {
		res, err := w.run(ctx, "symbolic-ref", "--quiet", "HEAD")
		if err != nil {
			return "", err
		}
		current, ok := strings.CutPrefix(strings.TrimSuffix(res.Stdout, "\n"), "refs/heads/")
		if res.ExitCode != 0 || !ok {
			return "", fault.New(fault.ValidationError, "no branch is checked out").WithReason("DETACHED_HEAD").WithField("branch").
				WithHint("name the branch to push")
		}
		name = current
	}
	bad := fault.New(fault.InvalidFormat, "%q is not a valid name of a branch", name).WithField("branch").WithHint("name a local branch, such as main")
	if !regexp.MustCompile(branchNames).MatchString(name) || name == "HEAD" || name == "@" || strings.HasPrefix(name, "refs/") {
		return "", bad
	}
	res, err := w.run(ctx, "check-ref-format", "refs/heads/"+name)
	if err == nil && res.ExitCode != 0 {
		err = bad
	}
	return name, err
}

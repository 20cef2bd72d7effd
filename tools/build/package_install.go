package build

import (
	"cmp"
	"context"
	"crypto/rand"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/tools"
)

type packageInstallIn struct {
	PackageName    string `json:"package_name" jsonschema:"Package to install" minLength:"1" maxLength:"300"`
	Version        string `json:"version,omitempty" jsonschema:"Package version; default: the version in the manifest, or the latest" maxLength:"100"`
	PackageManager string `json:"package_manager,omitempty" jsonschema:"npm, yarn, pip, go or cargo; default: detected by the lock file or manifest in the workspace of the task"`
}

type packageInstallOut struct {
	PackageName      string `json:"package_name" jsonschema:"Package that is installed"`
	InstalledVersion string `json:"installed_version" jsonschema:"Version that is installed"`
	PackageManager   string `json:"package_manager" jsonschema:"Manager that installed it"`
}

// packageInstall is PACKAGE_INSTALL (S0-140 to S0-142, A-40). No code of a package runs during the installation:
// scripts are disabled, and pip uses no source packages, which it would have to build.
func packageInstall(cfg Config) tools.Tool {
	return tools.DefineIntent(tools.Spec{
		Name:    "PACKAGE_INSTALL",
		Title:   "Install a package",
		Purpose: "Install package dependencies",
		Conditions: []string{
			"Task state: IN_PROGRESS",
			"Package approved in plan OR in package.json/requirements.txt (go.mod, Cargo.toml, pyproject.toml) of the root, unchanged since the task began, in a version that they and the lock file permit",
			"New packages, other versions, and packages named only in a manifest that the task may have changed: requires approval",
		},
		Effect:    tools.Idempotent,
		Gate:      tools.InProgress,
		Approval:  tools.ByIntent,
		InProject: true,
		OpenWorld: true,
		Timeout:   maxTime,
		Errors:    []string{"EXEC_FAILED", "NOT_FOUND", "CONFLICT", "NETWORK_ERROR", "TIMEOUT", "APPROVAL_REQUIRED", "VALIDATION_ERROR", "INVALID_FORMAT", "FORBIDDEN"},
	}, packageIntent(cfg), func(ctx context.Context, env *tools.Env, in packageInstallIn) (packageInstallOut, error) {
		p, err := newProject(env)
		if err != nil {
			return packageInstallOut{}, err
		}
		j, err := newJob(cfg, p, in)
		if err != nil {
			return packageInstallOut{}, err
		}
		if err := j.checkUnchanged(); err != nil {
			return packageInstallOut{}, err
		}
		version, err := j.manager.install(ctx, j)
		if err == nil {
			err = j.verify(version)
		}
		err = cmp.Or(err, j.removeTemp(j.cacheDir))
		return packageInstallOut{PackageName: in.PackageName, InstalledVersion: version, PackageManager: j.manager.name}, err
	})
}

// packageIntent returns a function that determines which packages a call would install, without installing them.
func packageIntent(cfg Config) func(context.Context, *tools.Env, packageInstallIn) (tools.Intent, error) {
	return func(_ context.Context, env *tools.Env, in packageInstallIn) (tools.Intent, error) {
		p, err := intentProject(env)
		if err != nil {
			return tools.Intent{}, err
		}
		j, err := newJob(cfg, p, in)
		if err != nil {
			return tools.Intent{}, err
		}
		targets, err := j.targets()
		return tools.Intent{Targets: targets}, err
	}
}

// job is one call of PACKAGE_INSTALL.
type job struct {
	project

	cfg     Config
	manager manager
	// name is the canonical name of the package.
	name string
	// cacheDir is an empty folder for the caches of the package manager. The task could have changed existing caches.
	cacheDir string
	// want is the version, range or tag to install, "" for the latest. It comes from the call, else from the pin of the
	// root, else from the pin of the workspace.
	want string
	// rootPin and workspacePin are the entries for the package in the manifests and lock files of the root and of the
	// workspace.
	rootPin, workspacePin pin
	// otherRegistryNote is the result of otherRegistry.
	otherRegistryNote string
}

// manager describes a package manager.
type manager struct {
	name string
	// locks and manifests are the files that identify the manager of a project.
	locks, manifests []string
	// names and versions match the permitted package names and versions (S0-142). They exclude options, paths, URLs,
	// aliases and shell syntax.
	names, versions *regexp.Regexp
	// ranges matches the version ranges of a manifest that the package manager accepts as an argument. separator joins
	// several ranges.
	ranges    *regexp.Regexp
	separator string
	// canonical returns the canonical form of a name. provides reports whether the package required provides the
	// package name.
	canonical func(name string) string
	provides  func(required, name string) bool
	accepts   acceptance
	// parentSettings are the settings files that the package manager also reads in the folders above the project.
	parentSettings []string
	// required returns the requirements in the manifests of a project. locked returns the version of one package in its
	// lock file.
	required func(p project) ([]requirement, error)
	locked   func(p project, name string) (string, error)
	// extraFiles returns further manifests and lock files that the package manager reads, relative to the project. Nil
	// means none.
	extraFiles func(p project) ([]string, error)
	// extraPackages returns the packages that the given manifests and lock files of a project make the package manager
	// download, besides the requested package. Nil means none.
	extraPackages func(cfg Config, p project, files []string) ([]requirement, error)
	// installed reports whether a requirement is already installed, so that it is not downloaded. Nil means never.
	installed func(p project, r requirement) bool
	// install installs the package and returns its version.
	install func(ctx context.Context, j job) (string, error)
}

func managers() []manager { return []manager{npm(), yarn(), pip(), golang(), cargo()} }

// newJob validates the input and selects the manager and the version.
func newJob(cfg Config, p project, in packageInstallIn) (job, error) {
	m, err := p.manager(in.PackageManager)
	if err != nil {
		return job{}, err
	}
	if !m.names.MatchString(in.PackageName) || isFile(in.PackageName) {
		return job{}, fault.New(fault.InvalidFormat, "%q is not a valid package name for %s", in.PackageName, m.name).WithField("package_name").
			WithHint("use the name in the registry, and put the version in the field version")
	}
	if in.Version != "" && !m.versions.MatchString(in.Version) {
		return job{}, fault.New(fault.InvalidFormat, "%q is not a valid version for %s", in.Version, m.name).WithField("version").
			WithHint("give one version, such as 1.2.3")
	}
	j := job{project: p, cfg: cfg, manager: m, name: m.canonical(in.PackageName), want: in.Version}
	j.cacheDir = j.temp("packages-" + rand.Text())
	if err := j.rejectSettings(); err != nil {
		return job{}, err
	}
	return j.withPins()
}

// withPins returns the job with the pins of the root and the workspace. If the call requests no version, the pins
// determine it.
func (j job) withPins() (job, error) {
	var err error
	if j.otherRegistryNote, err = j.otherRegistry(); err != nil {
		return job{}, err
	}
	if j.rootPin, err = j.manager.pin(j.root(), j.name); err != nil {
		return job{}, err
	}
	if j.workspacePin, err = j.manager.pin(j.project, j.name); err != nil {
		return job{}, err
	}
	pin := j.rootPin
	if !pin.named() {
		pin = j.workspacePin
	}
	if text, ok := j.manager.version(pin); j.want == "" && ok {
		j.want = text
	}
	return j, nil
}

// isFile reports whether managers would treat a name as an archive file.
func isFile(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(strings.Fields(".tgz .tar .tar.gz .whl .zip .tar.bz2 .tbz .tar.xz .txz .tlz .tar.lz .tar.lzma .git"), func(end string) bool {
		return strings.HasSuffix(name, end)
	})
}

// manager returns the package manager with the name. For an empty name it detects the package manager by the files of
// the project: a lock file takes precedence over a manifest.
func (p project) manager(name string) (manager, error) {
	all := managers()
	if name != "" {
		i := slices.IndexFunc(all, func(m manager) bool { return m.name == name })
		if i < 0 {
			return manager{}, fault.New(fault.ValidationError, "the package manager %q is not supported; supported are npm, yarn, pip, go and cargo", name).
				WithField("package_manager")
		}
		return all[i], nil
	}
	languages := map[string]manager{} // by manifest; more than one language is ambiguous
	for _, m := range all {
		if slices.ContainsFunc(m.manifests, p.has) {
			if _, other := languages[m.manifests[0]]; !other {
				languages[m.manifests[0]] = m
			}
		}
	}
	locked := slices.DeleteFunc(all, func(m manager) bool { return !slices.ContainsFunc(m.locks, p.has) })
	for _, m := range locked {
		languages[m.manifests[0]] = m
	}
	if len(languages) == 1 && !sameLanguage(locked) {
		for _, m := range languages {
			return m, nil
		}
	}
	why := "the files in the workspace belong to several package managers"
	if len(languages) == 0 {
		why = "no file in the workspace identifies a package manager"
	}
	return manager{}, fault.New(fault.ValidationError, "%s", why).WithField("package_manager").
		WithHint("name one of npm, yarn, pip, go and cargo")
}

// sameLanguage reports whether two of the managers have lock files for the same manifest.
func sameLanguage(locked []manager) bool {
	seen := map[string]bool{}
	for _, m := range locked {
		if seen[m.manifests[0]] {
			return true
		}
		seen[m.manifests[0]] = true
	}
	return false
}

// temp returns the path of a name in the temporary folder of the workspace.
func (j job) temp(name string) string { return filepath.Join(j.env.Workspace, "temp", name) }

// removeTemp removes a folder of the installation, including files that programs of the task created in it.
func (j job) removeTemp(path string) error {
	rel, err := j.env.Own(path)
	if err != nil {
		return err
	}
	return j.env.Root.RemoveAll(rel)
}

// run runs a program of the manager in the project, with network access.
func (j job) run(ctx context.Context, extra map[string]string, program string, args ...string) (proc.Result, error) {
	return j.execute(ctx, true, extra, program, args...)
}

// runOffline runs a program that may execute code of the project, without network access.
func (j job) runOffline(ctx context.Context, extra map[string]string, program string, args ...string) (proc.Result, error) {
	return j.execute(ctx, false, extra, program, args...)
}

// execute runs a program in the project. An exit status other than 0 is an error.
func (j job) execute(ctx context.Context, network bool, extra map[string]string, program string, args ...string) (proc.Result, error) {
	variables, err := j.variables()
	if err != nil {
		return proc.Result{}, err
	}
	for name, value := range extra {
		if value == "" {
			continue
		}
		if strings.Contains(value, "@") {
			return proc.Result{}, fault.New(fault.ValidationError, "the configured address of the registry of %s must contain neither user nor password", j.manager.name)
		}
		variables[name] = value
	}
	sandbox := j.env.Sandbox()
	sandbox.Network, sandbox.Loopback = network, false
	if ca := j.cfg.CAFile; network && ca != "" {
		sandbox.Read = append(slices.Clone(sandbox.Read), ca)
	}
	res, err := j.env.Exec.Run(ctx, proc.Command{Name: program, Args: args, Dir: j.dir, Env: variables, Sandbox: sandbox, Output: j.env.Output})
	if err == nil && res.ExitCode != 0 {
		err = j.installError(program, res)
	}
	return res, err
}

// installError returns the error for a failed package manager. Its output determines the code (S0-140).
func (j job) installError(program string, res proc.Result) error {
	text := res.Stdout + "\n" + res.Stderr
	missing := regexp.MustCompile(`E404|404 Not Found|ETARGET|notarget|No matching distribution|could not be found|no matching package|unknown revision|no matching versions|Couldn't find (any versions|package)|could not find .* in registry|does not contain package|: not found|: invalid version|: unrecognized import path|did not match`)
	conflict := regexp.MustCompile(`ERESOLVE|ResolutionImpossible|conflicting dependencies|failed to select a version|EPEERINVALID|conflicts? with`)
	unreachable := regexp.MustCompile(`ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|[Nn]ame or service not known|[Nn]ame resolution|no such host|Could not resolve host|Couldn't resolve host|Failed to establish a new connection|[Cc]onnection refused|[Nn]etwork is unreachable|CERTIFICATE_VERIFY_FAILED|SELF_SIGNED_CERT|UNABLE_TO_[A-Z_]*CERT|x509: ` +
		`|EHOSTUNREACH|server misbehaving|dial tcp|i/o timeout|[Rr]ead timed out|ConnectTimeout|spurious network error|not a trusted or secure host`)
	switch {
	case unreachable.MatchString(text): // first, because some managers then also report a missing package
		return fault.New(fault.NetworkError, "%s cannot reach its index: %s", program, shorten(text)).
			WithHint("ask a person to check the network, the certificates and the address of the package index")
	case conflict.MatchString(text):
		return fault.New(fault.Conflict, "%s conflicts with installed packages: %s", j.name, shorten(text)).WithField("package_name")
	case missing.MatchString(text):
		return fault.New(fault.NotFound, "%s does not find %s %s: %s", program, j.name, j.want, shorten(text)).WithField("package_name")
	}
	return fault.New(fault.ExecFailed, "%s ended with status %d: %s", program, res.ExitCode, shorten(text))
}

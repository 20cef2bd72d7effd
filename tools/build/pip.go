package build

import (
	"context"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func pip() manager {
	return manager{
		name: "pip", manifests: []string{"requirements.txt", "pyproject.toml", "setup.py", "Pipfile"}, locks: []string{"requirements.lock"},
		names:     regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`),
		versions:  regexp.MustCompile(`^([0-9]+!)?[0-9]+(\.[0-9]+)*((a|b|rc)[0-9]+)?(\.post[0-9]+)?(\.dev[0-9]+)?(\+[a-z0-9]+(\.[a-z0-9]+)*)?$`),
		ranges:    pythonRanges,
		separator: ",",
		canonical: pypiName, provides: equalNames, accepts: pythonAccepts,
		required: pythonRequirements, locked: lockedPython,
		install: func(ctx context.Context, j job) (string, error) { return j.pipInstall(ctx) },
	}
}

// pypiName returns the canonical form of a name: lower case, with one hyphen for each run of separators.
func pypiName(name string) string {
	return strings.ToLower(regexp.MustCompile(`[-_.]+`).ReplaceAllString(name, "-"))
}

// pipSpec returns the package with its version, which may be a list of specifiers.
func (j job) pipSpec() string {
	if j.want != "" && j.manager.versions.MatchString(j.want) {
		return j.name + "==" + j.want
	}
	return j.name + j.want
}

// pipInstall installs the package into the virtual environment .venv of the project, which it creates if it is missing,
// and returns the installed version. The Python of the system is not changed. The programs of the task have no network
// access, but the task could have changed the environment. So only the download of wheels has network access, and that
// step runs no code of the project or of its home directory.
func (j job) pipInstall(ctx context.Context) (string, error) {
	variables := map[string]string{"PIP_INDEX_URL": j.cfg.PipIndex, "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_CONFIG_FILE": "/dev/null", "PYTHONNOUSERSITE": "1", "PIP_NO_CACHE_DIR": "1"}
	if _, err := j.env.Exec.LookPath("pip"); err != nil {
		return "", err
	}
	if !j.has(".venv/pyvenv.cfg") {
		if _, err := j.runOffline(ctx, variables, "python3", "-m", "venv", "--without-pip", filepath.Join(j.dir, ".venv")); err != nil {
			return "", err
		}
	}
	spec := j.pipSpec()
	environment := filepath.Join(j.dir, ".venv")
	wheels := j.cacheDir
	if _, err := j.run(ctx, variables, "pip", "download", "--only-binary", ":all:", "--dest", wheels, "--", spec); err != nil {
		return "", err
	}
	if err := j.checkWheels(wheels); err != nil {
		return "", err
	}
	if _, err := j.runOffline(ctx, variables, "pip", "--python", environment, "install", "--no-index", "--find-links", wheels, "--", spec); err != nil {
		return "", err
	}
	res, err := j.runOffline(ctx, variables, "pip", "--python", environment, "show", "--", j.name)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(res.Stdout) {
		if version, ok := strings.CutPrefix(line, "Version: "); ok {
			return strings.TrimSpace(version), nil
		}
	}
	return "", nil
}

// pythonRequirements returns the dependencies in requirements.txt and pyproject.toml.
func pythonRequirements(p project) ([]requirement, error) {
	all, err := p.requirements("requirements.txt")
	if err != nil {
		return nil, err
	}
	more, err := pyprojectRequirements(p)
	return append(all, more...), err
}

// lockedPython returns the version of a package in requirements.lock, "" if none.
func lockedPython(p project, name string) (string, error) {
	all, err := p.requirements("requirements.lock")
	for _, r := range all {
		if version, exact := strings.CutPrefix(r.version, "=="); r.name == name && exact && pip().versions.MatchString(version) {
			return version, err
		}
	}
	return "", err
}

// requirements returns the packages in a requirements file.
func (p project) requirements(file string) ([]requirement, error) {
	data, err := p.read(file)
	var all []requirement
	for line := range strings.Lines(joinedLines(data)) {
		all = appendRequirement(all, line)
	}
	return all, err
}

// appendRequirement parses one line of a requirements file and appends its package and versions. It ignores extras,
// options and markers, and skips lines without a package name, such as paths and URLs.
func appendRequirement(all []requirement, line string) []requirement {
	line, _, _ = strings.Cut(strings.TrimSpace(line), " --")
	found := regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\]\s*)?(\(?[<>=!~][^;#]*|)([;#]|$)`).FindStringSubmatch(strings.TrimSpace(line))
	if found == nil {
		return all
	}
	version := strings.Join(strings.Fields(strings.Trim(strings.TrimSpace(found[3]), "()")), "")
	return append(all, requirement{name: pypiName(found[1]), version: version})
}

// pyprojectRequirements returns the dependencies in pyproject.toml: lists of requirements, and tables of Poetry.
func pyprojectRequirements(p project) ([]requirement, error) {
	type table = map[string]any
	var manifest struct {
		Project struct {
			Dependencies []string            `toml:"dependencies"`
			Optional     map[string][]string `toml:"optional-dependencies"`
		} `toml:"project"`
		Groups map[string][]any `toml:"dependency-groups"`
		Tool   struct {
			Poetry struct {
				Dependencies table `toml:"dependencies"`
				Dev          table `toml:"dev-dependencies"`
				Group        map[string]struct {
					Dependencies table `toml:"dependencies"`
				} `toml:"group"`
			} `toml:"poetry"`
		} `toml:"tool"`
	}
	if err := p.readTOML("pyproject.toml", &manifest); err != nil {
		return nil, err
	}
	var all []requirement
	lines := manifest.Project.Dependencies
	for _, more := range manifest.Project.Optional {
		lines = append(lines, more...)
	}
	for _, group := range manifest.Groups {
		for _, line := range group {
			if text, ok := line.(string); ok { // else it includes another group
				lines = append(lines, text)
			}
		}
	}
	for _, line := range lines {
		all = appendRequirement(all, line)
	}
	tables := []table{manifest.Tool.Poetry.Dependencies, manifest.Tool.Poetry.Dev}
	for group := range maps.Values(manifest.Tool.Poetry.Group) {
		tables = append(tables, group.Dependencies)
	}
	for _, t := range tables {
		for _, name := range slices.Sorted(maps.Keys(t)) {
			all = append(all, tomlRequirement(pypiName(name), t[name], "git", "path", "url", "source"))
		}
	}
	return all, nil
}

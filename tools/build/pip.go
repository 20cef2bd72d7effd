package build

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"regexp"
	"strings"
)

func pip() manager {
	return manager{
		name: "pip", manifests: []string{"requirements.txt", "pyproject.toml", "setup.py", "Pipfile"}, locks: []string{"requirements.lock"},
		names:     regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`),
		versions:  regexp.MustCompile(`^([0-9]+!)?[0-9]+(\.[0-9]+)*((a|b|rc)[0-9]+)?(\.post[0-9]+)?(\.dev[0-9]+)?(\+[a-z0-9]+(\.[a-z0-9]+)*)?$`),
		canonical: pypiName, known: inRequirements,
		install: func(ctx context.Context, j job) (string, error) { return j.pipInstall(ctx) },
	}
}

// pypiName is the one form of a name: lower case, with one hyphen for every run of separators.
func pypiName(name string) string {
	return strings.ToLower(regexp.MustCompile(`[-_.]+`).ReplaceAllString(name, "-"))
}

// pipInstall installs into the virtual environment .venv of the project, which it makes when there is
// none: the Python of the system stays as it is. That environment may be the work of the task, whose programs have no
// network: only what fetches the wheels has it, and that runs nothing of the project or of its home.
func (j job) pipInstall(ctx context.Context) (string, error) {
	variables := map[string]string{"PIP_INDEX_URL": j.cfg.PipIndex, "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_CONFIG_FILE": "/dev/null", "PYTHONNOUSERSITE": "1"}
	if _, err := j.env.Exec.LookPath("pip"); err != nil {
		return "", err
	}
	if !j.has(".venv/pyvenv.cfg") {
		if _, err := j.offline(ctx, variables, "python3", "-m", "venv", "--without-pip", filepath.Join(j.dir, ".venv")); err != nil {
			return "", err
		}
	}
	spec := j.name
	if j.version != "" {
		spec += "==" + j.version
	}
	environment := filepath.Join(j.dir, ".venv")
	wheels := filepath.Join(j.env.Workspace, "temp", "wheels-"+rand.Text())
	if _, err := j.run(ctx, variables, "pip", "download", "--only-binary", ":all:", "--dest", wheels, "--", spec); err != nil {
		return "", err
	}
	if _, err := j.offline(ctx, variables, "pip", "--python", environment, "install", "--no-index", "--find-links", wheels, "--", spec); err != nil {
		return "", err
	}
	res, err := j.offline(ctx, variables, "pip", "--python", environment, "show", "--", j.name)
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

// inRequirements looks into requirements.txt, and into the lists of dependencies in pyproject.toml.
func inRequirements(p project, name string) (bool, error) {
	data, err := p.read("requirements.txt")
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(data)) {
		if requirement(line) == name {
			return true, nil
		}
	}
	data, err = p.read("pyproject.toml")
	if err != nil {
		return false, err
	}
	return inPyproject(string(data), name), nil
}

// requirement returns the canonical name at the beginning of a requirement, "" for an option, a comment,
// a path or a URL.
func requirement(line string) string {
	found := regexp.MustCompile(`^\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\]\s*)?([(<>=!~;#,]|$)`).FindStringSubmatch(strings.TrimRight(line, "\r\n"))
	if found == nil {
		return ""
	}
	return pypiName(found[1])
}

// inPyproject reads the tables that name dependencies: lists of requirements, and tables of Poetry with
// a name on each line.
func inPyproject(text, name string) bool {
	section, inList := "", false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") && !inList {
			section = strings.Trim(line, "[] ")
			continue
		}
		key, value, assigned := strings.Cut(line, "=")
		key = strings.Trim(key, ` "'`)
		if assigned && !inList && strings.HasPrefix(section, "tool.poetry") && strings.HasSuffix(section, "dependencies") && pypiName(key) == name {
			return true
		}
		lists := section == "project" && key == "dependencies" || section == "project.optional-dependencies" || section == "dependency-groups"
		switch {
		case inList:
			value = line
		case !assigned || !lists || !strings.HasPrefix(strings.TrimSpace(value), "["):
			continue
		}
		if quotedRequirement(value, name) {
			return true
		}
		inList = !strings.HasSuffix(strings.TrimRight(strings.TrimSpace(stripComment(value)), ","), "]")
	}
	return false
}

// stripComment cuts a line of TOML at a # that stands outside of strings.
func stripComment(line string) string {
	quote := rune(0)
	for i, r := range line {
		switch {
		case quote == 0 && r == '#':
			return line[:i]
		case quote == 0 && (r == '"' || r == '\''):
			quote = r
		case r == quote:
			quote = 0
		}
	}
	return line
}

// quotedRequirement reports whether one of the strings of a line is a requirement of the name.
func quotedRequirement(line, name string) bool {
	for _, found := range regexp.MustCompile(`"([^"]*)"|'([^']*)'`).FindAllStringSubmatch(stripComment(line), -1) {
		if requirement(found[1]+found[2]) == name {
			return true
		}
	}
	return false
}

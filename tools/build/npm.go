package build

import (
	"context"
	"encoding/json"
	"regexp"

	"github.com/orch-dev/orch/fault"
)

// npmNames are the names of packages of npm, with or without scope.
const npmNames = `^(@[a-z0-9][a-z0-9._~-]*/)?[a-z0-9][a-z0-9._~-]*$`

// npmVersions are versions, ranges of one comparator, and tags.
const npmVersions = `^([~^]?v?\d+(\.\d+){0,2}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?|[a-z][a-z0-9-]*)$`

// npmRanges are what a manifest may ask for: ranges and tags of the registry, no URL, path, alias or repository.
const npmRanges = `^[0-9A-Za-z.*^~<>=| +-]+$`

func npm() manager {
	return manager{
		name: "npm", manifests: []string{"package.json"}, locks: []string{"package-lock.json", "npm-shrinkwrap.json"},
		names: regexp.MustCompile(npmNames), versions: regexp.MustCompile(npmVersions),
		canonical: same, known: inPackageJSON,
		install: func(ctx context.Context, j job) (string, error) {
			_, err := j.run(ctx, map[string]string{"npm_config_registry": j.cfg.NPMRegistry, "npm_config_update_notifier": "false"}, "npm",
				"install", "--prefix", j.dir, "--ignore-scripts", "--no-audit", "--no-fund", "--save", "--", j.npmSpec())
			if err != nil {
				return "", err
			}
			return j.nodeVersion()
		},
	}
}

func yarn() manager {
	return manager{
		name: "yarn", manifests: []string{"package.json"}, locks: []string{"yarn.lock"},
		names: regexp.MustCompile(npmNames), versions: regexp.MustCompile(npmVersions),
		canonical: same, known: inPackageJSON,
		install: func(ctx context.Context, j job) (string, error) {
			_, err := j.run(ctx, map[string]string{"npm_config_registry": j.cfg.NPMRegistry}, "yarn",
				"add", "--ignore-scripts", "--non-interactive", j.npmSpec())
			if err != nil {
				return "", err
			}
			return j.nodeVersion()
		},
	}
}

func same(name string) string { return name }

// npmSpec is the package with its version. Without one a package that is listed keeps the range of the manifest.
func (j job) npmSpec() string {
	switch {
	case j.version != "":
		return j.name + "@" + j.version
	case j.listed:
		return j.name
	default:
		return j.name + "@latest"
	}
}

// nodeVersion reads the version of an installed package, "" when it is not there.
func (j job) nodeVersion() (string, error) {
	data, err := j.read("node_modules/" + j.name + "/package.json")
	if err != nil || data == nil {
		return "", err
	}
	var manifest struct {
		Version string `json:"version"`
	}
	if json.Unmarshal(data, &manifest) != nil {
		return "", fault.New(fault.ExecFailed, "the package.json of %s is no valid JSON", j.name)
	}
	return manifest.Version, nil
}

func inPackageJSON(p project, name string) (bool, error) {
	data, err := p.read("package.json")
	if err != nil || data == nil {
		return false, err
	}
	var manifest map[string]json.RawMessage
	if json.Unmarshal(data, &manifest) != nil {
		return false, fault.New(fault.ExecFailed, "package.json in %s is no valid JSON", p.dir)
	}
	for _, key := range []string{"dependencies", "devDependencies", "optionalDependencies", "peerDependencies"} {
		var packages map[string]string
		if json.Unmarshal(manifest[key], &packages) != nil || packages[name] == "" {
			continue
		}
		if !regexp.MustCompile(npmRanges).MatchString(packages[name]) {
			return false, fault.New(fault.InvalidFormat, "package.json in %s takes %s from elsewhere than the registry", p.dir, name).
				WithField("package_name")
		}
		return true, nil
	}
	return false, nil
}

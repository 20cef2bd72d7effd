package build

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// npmNames matches names of npm packages, with or without scope.
const npmNames = `^(@[a-z0-9][a-z0-9._~-]*/)?[a-z0-9][a-z0-9._~-]*$`

// npmVersions matches versions, ranges with one comparator, and tags.
const npmVersions = `^([~^]?v?\d+(\.\d+){0,2}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?|[a-z][a-z0-9-]*)$`

// npmRanges matches the permitted versions in a manifest: ranges and tags of the registry, but no URL, path, alias or
// repository.
const npmRanges = `^[0-9A-Za-z.*^~<>=| +-]*$`

func npm() manager {
	m := nodeManager()
	m.name, m.locks, m.locked = "npm", []string{"package-lock.json", "npm-shrinkwrap.json"}, lockedNPM
	m.install = func(ctx context.Context, j job) (string, error) {
		_, err := j.run(ctx, map[string]string{
			"npm_config_registry": j.cfg.NPMRegistry, "NODE_EXTRA_CA_CERTS": j.cfg.CAFile, "npm_config_update_notifier": "false", "npm_config_cache": j.cacheDir,
			// By default npm waits 10 s and more before it retries; the call itself is retried, too.
			"npm_config_fetch_retry_mintimeout": "1000", "npm_config_fetch_retry_maxtimeout": "5000",
		}, "npm",
			"install", "--prefix", j.dir, "--ignore-scripts", "--no-audit", "--no-fund", "--save", "--", j.npmSpec())
		if err != nil {
			return "", err
		}
		return j.nodeVersion()
	}
	return m
}

func yarn() manager {
	m := nodeManager()
	m.name, m.locks, m.locked = "yarn", []string{"yarn.lock"}, lockedYarn
	m.parentSettings = []string{".npmrc", ".yarnrc", ".yarnrc.yml"}
	m.install = func(ctx context.Context, j job) (string, error) {
		_, err := j.run(ctx, map[string]string{"npm_config_registry": j.cfg.NPMRegistry, "NODE_EXTRA_CA_CERTS": j.cfg.CAFile, "YARN_CACHE_FOLDER": j.cacheDir, "COREPACK_ENABLE_PROJECT_SPEC": "0"}, "yarn",
			"add", "--ignore-scripts", "--non-interactive", j.npmSpec())
		if err != nil {
			return "", err
		}
		return j.nodeVersion()
	}
	return m
}

// nodeManager returns the settings that npm and yarn share.
func nodeManager() manager {
	return manager{
		manifests: []string{"package.json"},
		names:     regexp.MustCompile(npmNames), versions: regexp.MustCompile(npmVersions), ranges: regexp.MustCompile(npmRanges), separator: " ",
		canonical: func(name string) string { return name }, provides: equalNames, accepts: npmAccepts, required: packageJSONRequirements,
		extraFiles: nodeExtraFiles, extraPackages: nodeFileRequirements, installed: nodeInstalled,
	}
}

func equalNames(a, b string) bool { return a == b }

// npmSpec returns the package with its version.
func (j job) npmSpec() string {
	if j.want == "" {
		return j.name + "@latest"
	}
	return j.name + "@" + j.want
}

// nodeVersion returns the version of an installed package, "" when it is not installed.
func (j job) nodeVersion() (string, error) {
	data, err := j.read("node_modules/" + j.name + "/package.json")
	if err != nil || data == nil {
		return "", err
	}
	var manifest struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	if json.Unmarshal(data, &manifest) != nil {
		return "", fault.New(fault.ExecFailed, "the package.json of %s is not valid JSON", j.name)
	}
	if manifest.Name != j.name {
		return "", fault.New(fault.ExecFailed, "%s has installed %s in the place of %s", j.manager.name, shorten(manifest.Name), j.name).WithReason("OTHER_VERSION")
	}
	return manifest.Version, nil
}

// packageJSONRequirements returns the dependencies in the top-level package.json of a project.
func packageJSONRequirements(p project) ([]requirement, error) {
	return p.packageJSONRequirements("package.json")
}

// packageJSONRequirements returns the dependencies in a package.json of the project, sorted.
func (p project) packageJSONRequirements(file string) ([]requirement, error) {
	manifest, err := p.readObject(file)
	if err != nil {
		return nil, err
	}
	var all []requirement
	for _, key := range []string{"dependencies", "devDependencies", "optionalDependencies", "peerDependencies"} {
		packages, err := object(p, file, manifest, key)
		if err != nil {
			return nil, err
		}
		for name, value := range packages {
			version, ok := value.(string)
			if !ok {
				return nil, fault.New(fault.InvalidFormat, "%s of %s in %s has no version for %s", key, file, p.dir, shorten(name)).WithField(key).WithReason("MANIFEST")
			}
			all = append(all, nodeRequirement(name, version))
		}
	}
	slices.SortFunc(all, func(a, b requirement) int { return strings.Compare(a.name+" "+a.version, b.name+" "+b.version) })
	return all, nil
}

// readObject decodes a JSON file; nil when there is none. Keys are case-sensitive, as for npm.
func (p project) readObject(name string) (map[string]any, error) {
	data, err := p.read(name)
	if err != nil || data == nil {
		return nil, err
	}
	var into map[string]any
	if json.Unmarshal(data, &into) != nil {
		return nil, fault.New(fault.ExecFailed, "%s in %s is not valid JSON", name, p.dir)
	}
	return into, nil
}

// lockedNPM returns the version of a package in the lock file, which has one of two formats.
func lockedNPM(p project, name string) (string, error) {
	for _, file := range []string{"npm-shrinkwrap.json", "package-lock.json"} {
		lock, err := p.readObject(file)
		if err != nil {
			return "", err
		}
		for _, at := range [][2]string{{"packages", "node_modules/" + name}, {"dependencies", name}} {
			entries, _ := lock[at[0]].(map[string]any)
			entry, _ := entries[at[1]].(map[string]any)
			if version, _ := entry["version"].(string); exactNPM(version) {
				return version, nil
			}
		}
	}
	return "", nil
}

// exactNPM reports whether a text is one exact version.
func exactNPM(version string) bool {
	return regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`).MatchString(version)
}

// lockedYarn returns the version of a package in yarn.lock, or "" unless there is exactly one.
func lockedYarn(p project, name string) (string, error) {
	data, err := p.read("yarn.lock")
	inEntry, versions := false, []string{}
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(strings.ReplaceAll(line, `"`, ""))
		switch {
		case len(words) == 0:
		case !strings.HasPrefix(line, " "):
			inEntry = strings.HasPrefix(words[0], name+"@")
		case inEntry && len(words) == 2 && strings.TrimSuffix(words[0], ":") == "version" && exactNPM(words[1]):
			versions = append(versions, words[1])
		}
	}
	if len(versions) != 1 {
		return "", err
	}
	return versions[0], err
}

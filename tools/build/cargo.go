package build

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
)

func cargo() manager {
	return manager{
		name: "cargo", manifests: []string{"Cargo.toml"}, locks: []string{"Cargo.lock"},
		names:    regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`),
		versions: regexp.MustCompile(`^[=~^]?\d+(\.\d+){0,2}(-[0-9A-Za-z.-]+)?$`),
		ranges:   regexp.MustCompile(`^[0-9A-Za-z.*^~<>=, +-]+$`), and: ",",
		canonical: func(name string) string { return name }, holds: sameCrate, accepts: cargoAccepts,
		required: inCargo, locked: lockedCrate, others: inCargo,
		install: func(ctx context.Context, j job) (string, error) {
			if _, err := j.run(ctx, nil, "cargo", "add", "--quiet", "--", j.cargoSpec()); err != nil {
				return "", err
			}
			if _, err := j.run(ctx, nil, "cargo", "fetch"); err != nil {
				return "", err
			}
			return j.installedCrate()
		},
	}
}

// cargoSpec is the crate with its version. A whole version means that one; cargo would take what is compatible, too.
func (j job) cargoSpec() string {
	switch {
	case j.want == "":
		return j.name
	case regexp.MustCompile(`^\d+\.\d+\.\d+`).MatchString(j.want) && !strings.Contains(j.want, ","):
		return j.name + "@=" + j.want
	default:
		return j.name + "@" + j.want
	}
}

// sameCrate compares names as the registry of crates does.
func sameCrate(a, b string) bool {
	return strings.ReplaceAll(a, "-", "_") == strings.ReplaceAll(b, "-", "_")
}

// inCargo reads the tables of dependencies of Cargo.toml.
func inCargo(p project) ([]requirement, error) {
	type tables struct {
		Normal map[string]any `toml:"dependencies"`
		Dev    map[string]any `toml:"dev-dependencies"`
		Build  map[string]any `toml:"build-dependencies"`
	}
	var manifest struct {
		tables

		Workspace tables            `toml:"workspace"`
		Target    map[string]tables `toml:"target"`
	}
	if err := p.readTOML("Cargo.toml", &manifest); err != nil {
		return nil, err
	}
	var all []requirement
	for _, t := range append(slices.Collect(maps.Values(manifest.Target)), manifest.tables, manifest.Workspace) {
		for _, table := range []map[string]any{t.Normal, t.Dev, t.Build} {
			for _, name := range slices.Sorted(maps.Keys(table)) {
				all = append(all, crate(name, table[name]))
			}
		}
	}
	return all, nil
}

// crate reads a dependency, which may have another name than the crate.
func crate(name string, value any) requirement {
	if fields, ok := value.(map[string]any); ok {
		if original, renamed := fields["package"].(string); renamed {
			name = original
		}
	}
	return tomlRequirement(name, value, "git", "path", "registry", "registry-index")
}

// crates returns the versions of a crate in Cargo.lock.
func crates(p project, name string) ([]string, error) {
	var lock struct {
		Package []struct {
			Name    string `toml:"name"`
			Version string `toml:"version"`
		} `toml:"package"`
	}
	err := p.readTOML("Cargo.lock", &lock)
	var versions []string
	for _, entry := range lock.Package {
		if sameCrate(entry.Name, name) {
			versions = append(versions, entry.Version)
		}
	}
	return versions, err
}

// lockedCrate returns the version of a crate in Cargo.lock, when there is one alone.
func lockedCrate(p project, name string) (string, error) {
	versions, err := crates(p, name)
	if len(versions) != 1 {
		return "", err
	}
	return versions[0], err
}

// installedCrate returns the version of the crate in Cargo.lock; of several the one that was asked for, or the last,
// which is the newest.
func (j job) installedCrate() (string, error) {
	versions, err := crates(j.project, j.name)
	if len(versions) == 0 {
		return "", err
	}
	for _, version := range versions {
		if ok, _ := cargoAccepts(j.want, version); ok {
			return version, err
		}
	}
	return versions[len(versions)-1], err
}

package build

import (
	"context"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
)

func cargo() manager {
	return manager{
		name: "cargo", manifests: []string{"Cargo.toml"}, locks: []string{"Cargo.lock"},
		names:    regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`),
		versions: regexp.MustCompile(`^[=~^]?\d+(\.\d+){0,2}(-[0-9A-Za-z.-]+)?$`),
		ranges:   regexp.MustCompile(`^[0-9A-Za-z.*^~<>=, +-]+$`), separator: ",",
		canonical: func(name string) string { return name }, provides: sameCrate, accepts: cargoAccepts,
		parentSettings: []string{".cargo/config", ".cargo/config.toml", "rust-toolchain", "rust-toolchain.toml"},
		required:       cargoRequirements, locked: lockedCrate, extraFiles: cargoExtraFiles, extraPackages: cargoFileRequirements,
		install: func(ctx context.Context, j job) (string, error) { return j.cargoInstall(ctx) },
	}
}

// cargoInstall adds the crate to Cargo.toml and returns the installed version. It downloads into an empty cargo home,
// because the task could have changed the index in its own cargo home. Then it moves the downloaded packages to the
// cargo home of the task, which builds of the task read.
func (j job) cargoInstall(ctx context.Context) (string, error) {
	variables := map[string]string{"CARGO_HOME": j.cacheDir}
	for _, args := range [][]string{{"add", "--quiet", "--", j.cargoSpec()}, {"fetch"}} {
		if _, err := j.run(ctx, variables, "cargo", args...); err != nil {
			return "", err
		}
	}
	for _, part := range []string{"registry", "git"} {
		if err := j.replaceFolder(filepath.Join(j.cacheDir, part), j.temp(filepath.Join(".cargo", part))); err != nil {
			return "", err
		}
	}
	return j.installedCrate()
}

// replaceFolder moves the folder from, if it exists, to the path to, and removes what was there before.
func (j job) replaceFolder(from, to string) error {
	source, err := j.env.Own(from)
	if err != nil {
		return err
	}
	if _, err := j.env.Root.Lstat(source); fault.Has(err, fault.NotFound) {
		return nil
	}
	if err := j.removeTemp(to); err != nil {
		return err
	}
	target, err := j.env.Own(to)
	if err != nil {
		return err
	}
	if err := j.env.Root.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	return j.env.Root.Rename(source, target)
}

// cargoSpec returns the crate with its version, as an argument for cargo add. A full version gets the sign =, because
// cargo would otherwise accept compatible versions, too.
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

// sameCrate reports whether two names denote the same crate. Like the registry, it does not distinguish "-" and "_".
func sameCrate(a, b string) bool {
	return strings.ReplaceAll(a, "-", "_") == strings.ReplaceAll(b, "-", "_")
}

// cargoTables are the dependency tables of a Cargo.toml.
type cargoTables struct {
	Normal map[string]any `toml:"dependencies"`
	Dev    map[string]any `toml:"dev-dependencies"`
	Build  map[string]any `toml:"build-dependencies"`
	// The forms with an underscore are older.
	Dev2   map[string]any `toml:"dev_dependencies"`
	Build2 map[string]any `toml:"build_dependencies"`
}

// cargoRequirements returns the dependencies in the top-level Cargo.toml of a project.
func cargoRequirements(p project) ([]requirement, error) { return p.cargoRequirements("Cargo.toml") }

// cargoRequirements returns the dependencies in a Cargo.toml of the project.
func (p project) cargoRequirements(file string) ([]requirement, error) {
	var manifest struct {
		cargoTables

		Workspace cargoTables            `toml:"workspace"`
		Target    map[string]cargoTables `toml:"target"`
	}
	if err := p.readTOML(file, &manifest); err != nil {
		return nil, err
	}
	var all []requirement
	for _, t := range append(slices.Collect(maps.Values(manifest.Target)), manifest.cargoTables, manifest.Workspace) {
		for _, table := range []map[string]any{t.Normal, t.Dev, t.Build, t.Dev2, t.Build2} {
			for _, name := range slices.Sorted(maps.Keys(table)) {
				all = append(all, crate(name, table[name]))
			}
		}
	}
	return all, nil
}

// cargoExtraFiles returns the path of every Cargo.toml in a project that is a workspace or depends on crates in
// folders. For other projects it returns nil.
func cargoExtraFiles(p project) ([]string, error) {
	var manifest map[string]any
	if err := p.readTOML("Cargo.toml", &manifest); err != nil {
		return nil, err
	}
	all, err := cargoFileRequirements(Config{}, p, []string{"Cargo.toml"})
	inFolder := func(r requirement) bool { return r.elsewhere && strings.Contains(r.version, "path=") }
	if err != nil || manifest["workspace"] == nil && !slices.ContainsFunc(all, inFolder) {
		return nil, err
	}
	return p.manifests("Cargo.toml")
}

// cargoFileRequirements returns the packages that cargo downloads because of the given manifests of a project:
// dependencies, and crates that replace other crates.
func cargoFileRequirements(_ Config, p project, files []string) ([]requirement, error) {
	var all []requirement
	for _, file := range files {
		if path.Base(file) != "Cargo.toml" {
			continue
		}
		named, err := p.cargoRequirements(file)
		if err != nil {
			return nil, err
		}
		patched, err := p.patches(file)
		if err != nil {
			return nil, err
		}
		for _, r := range append(named, patched...) {
			if file != "Cargo.toml" {
				r.file = file
			}
			all = append(all, r)
		}
	}
	return all, nil
}

// patches returns the crates that replace other crates, by the tables patch and replace of a Cargo.toml.
func (p project) patches(file string) ([]requirement, error) {
	var manifest struct {
		Patch   map[string]map[string]any `toml:"patch"`
		Replace map[string]any            `toml:"replace"`
	}
	if err := p.readTOML(file, &manifest); err != nil {
		return nil, err
	}
	var all []requirement
	tables := append(slices.Collect(maps.Values(manifest.Patch)), manifest.Replace)
	for _, table := range tables {
		for _, name := range slices.Sorted(maps.Keys(table)) {
			r := crate(name, table[name])
			r.elsewhere, r.replaces = true, true
			all = append(all, r)
		}
	}
	return all, nil
}

// crate parses one entry of a dependency table. name is the key of the entry; its field package, if set, is the name of
// the crate.
func crate(name string, value any) requirement {
	if fields, ok := value.(map[string]any); ok {
		if original, renamed := fields["package"].(string); renamed {
			name = original
		}
	}
	return tomlRequirement(name, value, "git", "path", "registry", "registry-index")
}

// lockedCrateVersions returns the versions of a crate in Cargo.lock.
func lockedCrateVersions(p project, name string) ([]string, error) {
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

// lockedCrate returns the version of a crate in Cargo.lock, or "" unless there is exactly one.
func lockedCrate(p project, name string) (string, error) {
	versions, err := lockedCrateVersions(p, name)
	if len(versions) != 1 {
		return "", err
	}
	return versions[0], err
}

// installedCrate returns the version of the crate in Cargo.lock. If there are several, it returns the first one that
// matches the requested version, or else the last, which is the newest.
func (j job) installedCrate() (string, error) {
	versions, err := lockedCrateVersions(j.project, j.name)
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

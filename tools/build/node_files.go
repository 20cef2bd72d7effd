package build

import (
	"context"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// nodeLocks returns the lock files that npm and yarn read. npm reads yarn.lock if the project has no lock file of npm.
func nodeLocks() []string { return []string{"npm-shrinkwrap.json", "package-lock.json", "yarn.lock"} }

// nodeExtraFiles returns the lock files and, if the project has workspaces, every package.json in it.
func nodeExtraFiles(p project) ([]string, error) {
	manifest, err := p.readObject("package.json")
	if err != nil || manifest["workspaces"] == nil {
		return nodeLocks(), err
	}
	more, err := p.manifests("package.json", "node_modules")
	return append(nodeLocks(), more...), err
}

// manifests returns the files called name in the project, except those in the given folders.
func (p project) manifests(name string, without ...string) ([]string, error) {
	rel, err := p.env.Root.Resolve(p.dir)
	if err != nil {
		return nil, err
	}
	var found []string
	err = p.env.Root.Walk(context.Background(), rel, func(at string, entry fs.DirEntry) error {
		switch {
		case entry.IsDir() && (entry.Name() == ".git" || slices.Contains(without, entry.Name())):
			return fs.SkipDir
		case entry.Name() != name:
			return nil
		}
		file, err := filepath.Rel(rel, at)
		if found = append(found, file); len(found) > maxExtraFiles {
			return fault.New(fault.ValidationError, "the workspace has more than %d files %s, too many to check an installation", maxExtraFiles, name)
		}
		return err
	})
	return found, err
}

// nodeFileRequirements returns the packages that npm or yarn downloads because of the given manifests and lock files of
// a project.
func nodeFileRequirements(cfg Config, p project, files []string) ([]requirement, error) {
	var all []requirement
	for _, file := range files {
		read := func() ([]requirement, error) { return nodeManifestRequirements(p, file) }
		switch {
		case file == "yarn.lock":
			read = func() ([]requirement, error) { return yarnLockRequirements(cfg, p) }
		case path.Base(file) != "package.json":
			read = func() ([]requirement, error) { return npmLockRequirements(cfg, p, file) }
		}
		more, err := read()
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// nodeManifestRequirements returns the dependencies and the overrides of a package.json.
func nodeManifestRequirements(p project, file string) ([]requirement, error) {
	all, err := p.packageJSONRequirements(file)
	if err != nil {
		return nil, err
	}
	manifest, err := p.readObject(file)
	for _, key := range []string{"overrides", "resolutions"} {
		table, err := object(p, file, manifest, key)
		if err != nil {
			return nil, err
		}
		all = appendOverrides(all, "", table)
	}
	for i := range all {
		if file != "package.json" {
			all[i].file = file
		}
	}
	return all, err
}

// object returns a table of a manifest. It returns INVALID_FORMAT for any other type of value, which package managers
// may interpret differently.
func object(p project, file string, manifest map[string]any, key string) (map[string]any, error) {
	table, ok := manifest[key].(map[string]any)
	if !ok && manifest[key] != nil {
		return nil, fault.New(fault.InvalidFormat, "%s of %s in %s is not a table of names and versions", key, file, p.dir).WithField(key).
			WithReason("MANIFEST")
	}
	return table, nil
}

// appendOverrides parses an object of overrides. parent is the package whose overrides the object contains; the key "."
// denotes parent itself.
func appendOverrides(all []requirement, parent string, overrides map[string]any) []requirement {
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		value := overrides[name]
		if name == "." {
			name = parent
		}
		switch version := value.(type) {
		case string:
			r := nodeRequirement(name, version)
			r.replaces = true
			all = append(all, r)
		case map[string]any:
			all = appendOverrides(all, name, version)
		}
	}
	return all
}

// nodeRequirement returns a requirement for a package with the version range of a manifest.
func nodeRequirement(name, version string) requirement {
	if version == "*" || version == "x" {
		version = ""
	}
	return requirement{name: name, version: version, elsewhere: !regexp.MustCompile(npmRanges).MatchString(version)}
}

// npmLockRequirements returns the packages that a lock file of npm takes from outside the registry, or under another
// name.
func npmLockRequirements(cfg Config, p project, file string) ([]requirement, error) {
	lock, err := p.readObject(file)
	if err != nil || lock == nil {
		return nil, err
	}
	packages, err := object(p, file, lock, "packages")
	if err != nil {
		return nil, err
	}
	bases := registries(cfg, true)
	var all []requirement
	for _, at := range slices.Sorted(maps.Keys(packages)) {
		i := strings.LastIndex(at, "node_modules/")
		if i < 0 { // the project itself, or a folder in it
			continue
		}
		all = appendLocked(all, bases, file, at[i+len("node_modules/"):], packages[at])
	}
	dependencies, err := object(p, file, lock, "dependencies")
	return appendTree(all, bases, file, dependencies), err
}

// appendTree parses the packages of a lock file in the older format, in which they are nested.
func appendTree(all []requirement, bases []string, file string, packages map[string]any) []requirement {
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		all = appendLocked(all, bases, file, name, packages[name])
		if fields, ok := packages[name].(map[string]any); ok {
			inside, _ := fields["dependencies"].(map[string]any)
			all = appendTree(all, bases, file, inside)
		}
	}
	return all
}

// appendLocked parses one entry of a lock file of npm. It appends the package if it comes from outside the registry or
// under another name.
func appendLocked(all []requirement, bases []string, file, name string, entry any) []requirement {
	fields, _ := entry.(map[string]any)
	text := func(key string) string { s, _ := fields[key].(string); return s }
	from := ""
	switch alias, version, resolved := text("name"), text("version"), text("resolved"); {
	case fields["link"] == true:
		from = "link:" + resolved
	case resolved != "" && !fromRegistry(bases, name, version, resolved):
		from = resolved
	case alias != "" && alias != name:
		from = "npm:" + alias + "@" + version
	case version != "" && !exactNPM(version):
		from = version
	}
	if from == "" {
		return all
	}
	return append(all, requirement{name: name, version: from, elsewhere: true, file: file})
}

// registries returns the base URLs of the archives that count as coming from the registry. npm rewrites URLs of its
// public registry to the configured registry.
func registries(cfg Config, npm bool) []string {
	const public, mirror = "https://registry.npmjs.org/", "https://registry.yarnpkg.com/"
	switch {
	case cfg.NPMRegistry == "":
		return []string{public, mirror}
	case npm:
		return []string{strings.TrimSuffix(cfg.NPMRegistry, "/") + "/", public}
	}
	return []string{strings.TrimSuffix(cfg.NPMRegistry, "/") + "/"}
}

// fromRegistry reports whether url is the archive of this version of the package in one of the registries.
func fromRegistry(bases []string, name, version, url string) bool {
	url, _, _ = strings.Cut(url, "#") // yarn appends a digest
	for _, base := range bases {
		rest, ok := strings.CutPrefix(url, base)
		rest = strings.Replace(rest, "%2f", "/", 1)
		archive := path.Base(name) + "-" + version + ".tgz"
		if ok && version != "" && slices.Contains([]string{name + "/-/" + archive, name + "/-/" + name + "-" + version + ".tgz", "download/" + name + "/" + version + "/" + path.Base(rest)}, rest) {
			return true
		}
	}
	return false
}

// yarnLockRequirements returns the packages that yarn.lock takes from outside the registry, or under another name.
// npm and yarn parse this file differently, so it rejects lines that they could interpret differently.
func yarnLockRequirements(cfg Config, p project) ([]requirement, error) {
	data, err := p.read("yarn.lock")
	if err != nil {
		return nil, err
	}
	bases := registries(cfg, false)
	var all []requirement
	var names []string
	version := ""
	for line := range strings.Lines(strings.ReplaceAll(string(data), "\r", "\n")) {
		line = strings.TrimRight(line, "\n")
		key, value, ok := yarnField(line)
		switch {
		case !ok:
			return nil, fault.New(fault.InvalidFormat, "yarn.lock in %s has a line that managers read in more than one way: %s", p.dir, shorten(line)).WithReason("MANIFEST")
		case line == "" || line[0] == '#' || strings.HasPrefix(line, "   "): // a comment or a dependency of a package
		case line[0] != ' ':
			names, version = yarnNames(line), ""
		case key == "version":
			version = value
		default:
			for _, name := range names {
				if yarnElsewhere(bases, name, version, key, value) {
					all = append(all, requirement{name: name, version: value, elsewhere: true, file: "yarn.lock"})
				}
			}
		}
	}
	return all, nil
}

// yarnField parses a key and its value. ok is false when a part of the line could be taken for another field.
func yarnField(line string) (key, value string, ok bool) {
	words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \",", r) })
	if len(words) == 0 {
		return "", "", true
	}
	key, value, _ = strings.Cut(words[0], ":")
	for _, word := range words[1:] {
		if slices.Contains([]string{"version", "resolved", "resolution", "name"}, strings.Trim(word, ":")) {
			return "", "", line[0] == '#' || strings.HasPrefix(line, "   ")
		}
		if value == "" {
			value = strings.TrimLeft(word, ":")
		}
	}
	return key, value, !strings.Contains(line, `\`)
}

// yarnElsewhere reports whether a field makes yarn download a package from outside the registry, or another package.
func yarnElsewhere(bases []string, name, version, key, value string) bool {
	switch key {
	case "resolved":
		return !fromRegistry(bases, name, version, value)
	case "resolution":
		return !strings.HasPrefix(value, name+"@npm:") && !strings.HasPrefix(value, name+"@workspace:")
	case "name":
		return value != name
	}
	return false
}

// yarnNames returns the names in the first line of an entry, without duplicates. The line lists name@range with
// commas.
func yarnNames(line string) []string {
	var names []string
	for spec := range strings.SplitSeq(line, ",") {
		if name := yarnName(strings.Trim(spec, ` ":`)); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// yarnName returns the name in name@range; the name of a scoped package begins with @, too.
func yarnName(text string) string {
	if i := strings.Index(text[min(1, len(text)):], "@"); i >= 0 {
		return text[:i+1]
	}
	return text
}

// nodeInstalled reports whether a package is already installed in a version that matches the requirement and the lock
// file. Such a package is not downloaded.
func nodeInstalled(p project, r requirement) bool {
	if r.elsewhere {
		return false
	}
	manifest, err := p.readObject("node_modules/" + r.name + "/package.json")
	installed, _ := manifest["version"].(string)
	if err != nil || installed == "" {
		return false
	}
	if locked, err := lockedNPM(p, r.name); err != nil || locked != "" && locked != installed {
		return false
	}
	ok, _ := npmAccepts(r.version, installed)
	return ok || r.version == ""
}

package build

import (
	"context"
	"regexp"
	"strings"
)

func golang() manager {
	return manager{
		name: "go", manifests: []string{"go.mod"}, locks: []string{"go.sum"},
		names:     regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+(/[A-Za-z0-9_~]([A-Za-z0-9._~-]*[A-Za-z0-9_~])?)*$`),
		versions:  regexp.MustCompile(`^(latest|v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+incompatible)?|[0-9a-f]{7,40})$`),
		ranges:    regexp.MustCompile(`^v[0-9A-Za-z.+-]+$`),
		canonical: func(name string) string { return name }, accepts: goAccepts,
		provides: func(module, name string) bool { return strings.HasPrefix(name+"/", module+"/") },
		required: goModRequirements, locked: noLockFile, extraPackages: goModReplacements,
		install: func(ctx context.Context, j job) (string, error) {
			spec := j.name + "@latest"
			if j.want != "" {
				spec = j.name + "@" + j.want
			}
			if _, err := j.run(ctx, map[string]string{"GOWORK": "off", "GOTOOLCHAIN": "local"}, "go", "get", "--", spec); err != nil {
				return "", err
			}
			required, err := j.manager.pin(j.project, j.name)
			return required.String(), err
		},
	}
}

// noLockFile implements manager.locked for package managers whose manifest contains exact versions.
func noLockFile(project, string) (string, error) { return "", nil }

// goModRequirements returns the modules that go.mod requires.
func goModRequirements(p project) ([]requirement, error) {
	data, err := p.read("go.mod")
	var all []requirement
	block := false
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		switch {
		case len(words) > 0 && words[0] == "require":
			block = len(words) > 1 && words[1] == "("
			words = words[1:]
		case len(words) > 0 && words[0] == ")":
			block = false
		case !block:
			continue
		}
		if len(words) == 2 {
			all = append(all, requirement{name: words[0], version: words[1]})
		}
	}
	return all, err
}

// goModReplacements returns the modules and folders with which go.mod replaces modules.
func goModReplacements(_ Config, p project, _ []string) ([]requirement, error) {
	data, err := p.read("go.mod")
	var all []requirement
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "//")
		before, after, found := strings.Cut(line, "=>")
		names := strings.Fields(strings.TrimPrefix(strings.TrimSpace(before), "replace "))
		switch words := strings.Fields(strings.Trim(strings.TrimSpace(after), "\"`")); {
		case !found:
		case len(words) == 2:
			all = append(all, requirement{name: words[0], version: words[1], replaces: true})
		case len(words) == 1 && len(names) > 0:
			all = append(all, requirement{name: names[0], version: words[0], elsewhere: true, replaces: true})
		}
	}
	return all, err
}

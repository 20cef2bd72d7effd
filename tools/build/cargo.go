package build

import (
	"context"
	"regexp"
	"strings"
)

func cargo() manager {
	return manager{
		name: "cargo", manifests: []string{"Cargo.toml"}, locks: []string{"Cargo.lock"},
		names:     regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`),
		versions:  regexp.MustCompile(`^[=~^]?\d+(\.\d+){0,2}(-[0-9A-Za-z.-]+)?$`),
		canonical: same, known: inCargo,
		install: func(ctx context.Context, j job) (string, error) {
			spec := j.name
			if j.version != "" {
				spec += "@" + j.version
			}
			if _, err := j.run(ctx, nil, "cargo", "add", "--quiet", "--", spec); err != nil {
				return "", err
			}
			if _, err := j.run(ctx, nil, "cargo", "fetch"); err != nil {
				return "", err
			}
			return j.lockedCrate()
		},
	}
}

// inCargo looks for a crate in the tables of dependencies: a line of its own, or a table of its own.
func inCargo(p project, name string) (bool, error) {
	data, err := p.read("Cargo.toml")
	table := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			table = strings.Trim(stripComment(line), "[] \t")
			if parent, crate, ok := cutLast(table, "."); ok && crate == name && isDependencies(parent) {
				return true, err
			}
			continue
		}
		key, _, assigned := strings.Cut(line, "=")
		key, _, _ = strings.Cut(strings.Trim(key, ` "'`), ".")
		if assigned && strings.TrimSpace(key) == name && isDependencies(table) {
			return true, err
		}
	}
	return false, err
}

func isDependencies(table string) bool {
	for _, kind := range []string{"dependencies", "dev-dependencies", "build-dependencies"} {
		if table == kind || table == "workspace."+kind || strings.HasPrefix(table, "target.") && strings.HasSuffix(table, "."+kind) {
			return true
		}
	}
	return false
}

func cutLast(s, sep string) (before, after string, found bool) {
	at := strings.LastIndex(s, sep)
	if at < 0 {
		return s, "", false
	}
	return s[:at], s[at+len(sep):], true
}

// lockedCrate returns the version of the crate in Cargo.lock; of several the last, which is the newest.
func (j job) lockedCrate() (string, error) {
	data, err := j.read("Cargo.lock")
	version, mine := "", false
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		value = strings.Trim(value, `"`)
		switch key {
		case "name":
			mine = strings.ReplaceAll(value, "-", "_") == strings.ReplaceAll(j.name, "-", "_")
		case "version":
			if mine {
				version = value
			}
		}
	}
	return version, err
}

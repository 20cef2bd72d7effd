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
		canonical: same,
		known: func(p project, name string) (bool, error) {
			required, err := p.required(name)
			return required != "", err
		},
		install: func(ctx context.Context, j job) (string, error) {
			spec := j.name
			switch {
			case j.version != "":
				spec += "@" + j.version
			case !j.listed:
				spec += "@latest"
			}
			if _, err := j.run(ctx, nil, "go", "get", "--", spec); err != nil {
				return "", err
			}
			return j.required(j.name)
		},
	}
}

// required returns the version of the module in go.mod that a package belongs to, the one with the
// longest path; "" when there is none.
func (p project) required(name string) (string, error) {
	data, err := p.read("go.mod")
	version, longest, block := "", 0, false
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
		if len(words) == 2 && len(words[0]) > longest && strings.HasPrefix(name+"/", words[0]+"/") {
			version, longest = words[1], len(words[0])
		}
	}
	return version, err
}

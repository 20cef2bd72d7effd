package build

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/orch-dev/orch/fault"
)

// readTOML decodes a file of the project, if it exists.
func (p project) readTOML(name string, into any) error {
	data, err := p.read(name)
	if err != nil || data == nil {
		return err
	}
	if err := toml.Unmarshal(data, into); err != nil {
		return fault.New(fault.ExecFailed, "%s in %s cannot be read as a manifest: %v", name, p.dir, err)
	}
	return nil
}

// tomlRequirement parses the value of a dependency: a version range, or a table with one. A table with one of the keys
// in elsewhere names a package from outside the registry. Without a version range, any version is permitted.
func tomlRequirement(name string, value any, elsewhere ...string) requirement {
	r := requirement{name: name}
	fields, isTable := value.(map[string]any)
	if isTable {
		r.elsewhere = slices.ContainsFunc(elsewhere, func(key string) bool { return fields[key] != nil })
		value = fields["version"]
	}
	if r.elsewhere {
		r.version = describeSource(fields)
		return r
	}
	switch version := value.(type) {
	case string:
		r.version = version
	case nil:
	default: // such as a list of tables, one for each platform
		r.version = "unreadable version"
	}
	if r.version == "*" {
		r.version = ""
	}
	return r
}

// describeSource returns the table of a package from outside the registry as one line.
func describeSource(fields map[string]any) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		words = append(words, fmt.Sprintf("%s=%v", key, fields[key]))
	}
	return strings.Join(words, " ")
}

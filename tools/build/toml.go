package build

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/orch-dev/orch/fault"
)

// readTOML decodes a file of the project, if it is there.
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

// tomlRequirement reads the value of a dependency: its versions, or a table with them. A table with one of the keys
// in elsewhere does not take it from the registry, and one without a version takes any.
func tomlRequirement(name string, value any, elsewhere ...string) requirement {
	r := requirement{name: name}
	fields, isTable := value.(map[string]any)
	if isTable {
		r.elsewhere = slices.ContainsFunc(elsewhere, func(key string) bool { return fields[key] != nil })
		value = fields["version"]
	}
	if r.elsewhere {
		r.version = place(fields)
		return r
	}
	switch version := value.(type) {
	case string:
		r.version = version
	case nil:
	default: // such as several tables for several systems
		r.version = "what cannot be read"
	}
	if r.version == "*" {
		r.version = ""
	}
	return r
}

// place is the table of a dependency that does not come from the registry, in a line.
func place(fields map[string]any) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		words = append(words, fmt.Sprintf("%s=%v", key, fields[key]))
	}
	return strings.Join(words, " ")
}

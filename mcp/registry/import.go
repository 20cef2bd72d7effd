package registry

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// Imported contains the servers in the file of an MCP client.
type Imported struct {
	// Servers are the imported definitions, including the secrets in the file.
	Servers []MCPConfig
	// Skipped are servers that are not imported.
	Skipped []Skipped
	// Left describes the omitted parts of imported servers: unsupported properties, and inputs that only the client can request.
	Left []Skipped
	// Problems are the errors in the file. Servers with problems are not in Servers.
	Problems []SchemaError
}

// Skipped is a server that is not imported, or only in part, with the reason.
type Skipped struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Import reads the servers in the file of an MCP client, or in a definition. It returns ErrFileNotFound, ErrInvalidJSON or
// ErrSchemaLoadFailed.
func Import(file string) (Imported, error) {
	c, err := newChecker(Schema())
	if err != nil {
		return Imported{}, err
	}
	d, err := readDocument(file)
	if err != nil {
		return Imported{}, err
	}
	if !d.definesServers() {
		return Imported{}, fault.Wrap(fault.InvalidFormat, ErrInvalidJSON, "it has no map mcpServers or servers").WithField(file)
	}
	in := Imported{Problems: c.check(d)}
	wrong := map[string]bool{}
	for _, p := range in.Problems {
		parts := strings.Split(p.Path, "/")
		if len(parts) < 3 || !slices.Contains(serverKeys(), parts[1]) {
			return in, nil // the problem does not concern a single server
		}
		wrong[parts[2]] = true
	}
	all, problems := decodeServers(d)
	in.Problems = append(in.Problems, problems...)
	for _, def := range all {
		switch {
		case wrong[strings.NewReplacer("~", "~0", "/", "~1").Replace(def.key)]:
		case def.Disabled:
			in.Skipped = append(in.Skipped, Skipped{def.Name, "it is disabled in the client"})
		case isOrch(def.MCPConfig):
			in.Skipped = append(in.Skipped, Skipped{def.Name, "it is orch itself"})
		default:
			in.Servers = append(in.Servers, def.MCPConfig)
			in.Left = append(in.Left, def.ignoredParts()...)
		}
	}
	return in, nil
}

// definesServers reports whether a document is the file of an MCP client with servers, or a definition.
func (d document) definesServers() bool {
	for _, key := range append(serverKeys(), "name", "transport", "schemaVersion") {
		if _, ok := child(d.tree, key); ok {
			return true
		}
	}
	return false
}

// ignoredParts describes the parts of a server that are not imported.
func (d definition) ignoredParts() []Skipped {
	var parts []Skipped
	if len(d.ignored) > 0 {
		parts = append(parts, Skipped{d.Name, "without " + strings.Join(d.ignored, ", ") + ", which orch does not know"})
	}
	e, err := expand(d.MCPConfig, func(string) string { return "" })
	if err != nil {
		return append(parts, Skipped{d.Name, "it cannot be started: " + fault.From(err).Message})
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(e.unset))) {
		if strings.HasPrefix(name, "input:") {
			parts = append(parts, Skipped{d.Name, "${" + name + "} is asked for by the client alone: write ${NAME}, a variable of the environment"})
		}
	}
	return parts
}

// isOrch reports whether a definition starts orch itself, as written by orch mcp install. Importing it would make orch call itself.
func isOrch(c MCPConfig) bool {
	return strings.TrimSuffix(filepath.Base(c.Command), ".exe") == "orch" && len(c.Args) > 1 && c.Args[0] == "mcp" && c.Args[1] == "serve"
}

// File encodes the definition as the content of a file.
func (c MCPConfig) File() []byte {
	raw, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return append(raw, '\n')
}

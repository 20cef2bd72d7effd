package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// definition is the definition of a server in a file.
type definition struct {
	MCPConfig

	// source is the file, digest the digest of the definition.
	source, digest string
	// key is the original name of a server in the file of an MCP client.
	key string
	// ignored are the properties in the file of an MCP client that orch does not support.
	ignored []string
}

// entry is a server in the file of an MCP client.
type entry struct {
	Type      string                     `json:"type"`
	Command   string                     `json:"command"`
	Args      []string                   `json:"args"`
	Env       map[string]json.RawMessage `json:"env"`
	Cwd       string                     `json:"cwd"`
	URL       string                     `json:"url"`
	HTTPURL   string                     `json:"httpUrl"`
	ServerURL string                     `json:"serverUrl"`
	Headers   map[string]string          `json:"headers"`
	Disabled  bool                       `json:"disabled"`
	// Disallowed are the disabled tools in Windsurf; Include and Exclude are properties of Gemini CLI.
	Disallowed []string `json:"disabledTools"`
	Include    []string `json:"includeTools"`
	Exclude    []string `json:"excludeTools"`

	// The properties below are extensions of orch.
	Tools       []string          `json:"tools"`
	Effects     map[string]string `json:"effects"`
	Concurrency int               `json:"concurrency"`
	RateLimit   int               `json:"rateLimit"`
}

// serverKeys returns the top-level keys that contain a map of servers, in order of precedence.
func serverKeys() []string { return []string{"mcpServers", "servers"} }

// load returns the servers of a file, or its problems.
func (c *checker) load(d document) ([]definition, []SchemaError) {
	if problems := c.check(d); len(problems) > 0 {
		return nil, problems
	}
	return decodeServers(d)
}

// decodeServers decodes the servers of a checked file: the file of an MCP client with a map of servers, or one definition.
func decodeServers(d document) ([]definition, []SchemaError) {
	var maybe struct {
		Claude map[string]json.RawMessage `json:"mcpServers"`
		Code   map[string]json.RawMessage `json:"servers"`
	}
	if err := d.decode(&maybe); err != nil {
		return nil, []SchemaError{d.problem(nil, nil, err.Error())}
	}
	if maybe.Claude == nil && maybe.Code == nil {
		return loadOne(d)
	}
	var all []definition
	var problems []SchemaError
	seen := map[string]string{}
	for i, entries := range []map[string]json.RawMessage{maybe.Claude, maybe.Code} {
		for _, name := range slices.Sorted(maps.Keys(entries)) {
			path := []string{serverKeys()[i], name}
			var e entry
			if json.Unmarshal(entries[name], &e) != nil {
				continue // the schema check has reported the error
			}
			config := e.config(name)
			odd, pattern := config.malformed()
			switch {
			case odd != "":
				problems = append(problems, d.badPattern(path, odd, pattern))
			case config.Name == "":
				problems = append(problems, d.problem(path, path, "has no letter or digit in its name"))
			case seen[config.Name] != "":
				problems = append(problems, d.problem(path, path, "becomes "+config.Name+", as "+seen[config.Name]+" does"))
			default:
				def := define(d.file, config)
				def.key, def.ignored = name, ignored(entries[name])
				all = append(all, def)
			}
			seen[config.Name] = name
		}
	}
	return all, problems
}

// loadOne decodes a file with one server.
func loadOne(d document) ([]definition, []SchemaError) {
	var config MCPConfig
	if err := d.decode(&config); err != nil {
		return nil, []SchemaError{d.problem(nil, nil, err.Error())}
	}
	if t, err := time.ParseDuration(config.Timeout); config.Timeout != "" && (err != nil || t <= 0) {
		path := []string{"timeout"}
		return nil, []SchemaError{d.problem(path, path, "is not a duration above zero")}
	}
	if odd, pattern := config.malformed(); odd != "" {
		return nil, []SchemaError{d.badPattern(nil, odd, pattern)}
	}
	return []definition{define(d.file, config)}, nil
}

// badPattern reports an invalid pattern in a property of the server at a path.
func (d document) badPattern(server []string, property, pattern string) SchemaError {
	path := slices.Concat(server, []string{property})
	return d.problem(path, path, strconv.Quote(pattern)+" is not a valid pattern")
}

// define returns the definition of a server in a file, with its digest.
func define(file string, config MCPConfig) definition {
	raw, err := json.Marshal(config)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	sum := sha256.Sum256(append(raw, strconv.FormatBool(config.Disabled)...))
	return definition{MCPConfig: config, source: file, digest: hex.EncodeToString(sum[:])}
}

// config converts the entry to a definition.
func (e entry) config(name string) MCPConfig {
	c := MCPConfig{
		SchemaVersion: "1.0.0", Name: serverName(name), Transport: TransportStdio, Capabilities: []string{"tools"},
		Command: e.Command, Args: e.Args, Cwd: e.Cwd, Headers: e.Headers, Disabled: e.Disabled,
		Tools: e.offered(), Effects: e.Effects, Concurrency: e.Concurrency, RateLimit: e.RateLimit,
	}
	for key, raw := range e.Env {
		if c.Env == nil {
			c.Env = map[string]string{}
		}
		c.Env[key] = textOf(raw)
	}
	for _, u := range []string{e.HTTPURL, e.URL, e.ServerURL} {
		if c.BaseURL == "" {
			c.BaseURL = u
		}
	}
	if e.Command == "" {
		c.Transport = TransportHTTP
	}
	return c
}

// offered returns the patterns of the tools that the client offers, in the syntax of orch.
func (e entry) offered() []string {
	tools := slices.Concat(e.Tools, e.Include)
	for _, name := range slices.Concat(e.Disallowed, e.Exclude) {
		tools = append(tools, "!"+name)
	}
	return tools
}

// ignored returns the properties of an entry that orch does not support, sorted.
func ignored(raw json.RawMessage) []string {
	var properties map[string]json.RawMessage
	if json.Unmarshal(raw, &properties) != nil {
		return nil
	}
	for field := range reflect.TypeFor[entry]().Fields() {
		delete(properties, field.Tag.Get("json"))
	}
	return slices.Sorted(maps.Keys(properties))
}

// textOf converts a JSON scalar to the value of an environment variable.
func textOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text // null is ""
	}
	return string(raw)
}

// serverName converts the name of a server in the file of an MCP client to a valid name: in lower case, with hyphens for invalid
// characters.
func serverName(name string) string {
	name = regexp.MustCompile(`[^a-z0-9-]+`).ReplaceAllString(strings.ToLower(name), "-")
	name = strings.Trim(name, "-")
	return strings.TrimRight(name[:min(len(name), 64)], "-")
}

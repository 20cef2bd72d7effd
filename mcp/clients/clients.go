// Package clients knows the configuration files of MCP clients: where they are, the format of an entry for orch, and how to
// write one without changing anything else in the file.
package clients

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// TokenVariable is the environment variable from which clients read their bearer token.
const TokenVariable = "ORCH_TOKEN"

// Client is a program that connects to orch as an MCP client.
type Client struct {
	// ID is its name on the command line, Title its display name.
	ID, Title string
	// Source is the page that documents the configuration, Checked the month in which it was last checked.
	Source, Checked string
	// Reload describes how the client picks up the change.
	Reload string

	// user and project are the path of the file; with an empty one the client has no such file.
	user    func(Place) string
	project string
	// other is an alternative extension of the file, used if such a file exists.
	other string
	// table is the path of keys to the servers.
	table []string
	// hasOldForm reports whether a decoded file has servers in a format that the client no longer uses; may be nil.
	hasOldForm func(map[string]any) bool
	// form is the language of the file.
	form form
	// stdio and http return an entry. With a nil http the client can only get a token from its file.
	stdio, http func(Entry) fields
	// input is what the client prompts its user for, with http; nil if it reads the environment.
	input fields
}

// Place is where files are looked for.
type Place struct {
	// OS is a GOOS value: linux, darwin, windows.
	OS string
	// Home and Project are absolute directories.
	Home, Project string
	// Getenv reads an environment variable.
	Getenv func(string) string
	// InProject selects the file of the project instead of that of the user.
	InProject bool
}

// Entry is the content of an entry for orch.
type Entry struct {
	// Name is the name of the server in the client.
	Name string
	// Command is the absolute path of orch, Args are its arguments; they start it on stdin and stdout.
	Command string
	Args    []string
	// URL is the address of a running node; it takes precedence over Command.
	URL string
}

// Find returns a client by its id. VALIDATION_ERROR if there is none.
func Find(id string) (Client, error) {
	for _, c := range all() {
		if c.ID == id {
			return c, nil
		}
	}
	return Client{}, fault.New(fault.ValidationError, "no client is called %q", id).WithField("client").
		WithHint("one of %s; for any other see docs/how-to/connect-an-mcp-client.md", strings.Join(IDs(), ", "))
}

// IDs returns the ids of all clients, sorted.
func IDs() []string {
	var ids []string
	for _, c := range all() {
		ids = append(ids, c.ID)
	}
	slices.Sort(ids)
	return ids
}

// All returns every client.
func All() []Client { return all() }

// SpeaksHTTP reports whether the client can get the token from its environment or from its user. orch writes no secret
// into files, so that other clients use stdin and stdout.
func (c Client) SpeaksHTTP() bool { return c.http != nil }

// AsksForToken reports whether the client prompts its user for the token, and stores it with its secrets.
func (c Client) AsksForToken() bool { return c.input != nil }

// HasProject reports whether the client supports a file in a project.
func (c Client) HasProject() bool { return c.project != "" }

// File returns the path of the configuration. VALIDATION_ERROR if the client has no such file.
func (c Client) File(p Place) (string, error) {
	if !p.InProject {
		return c.existing(c.user(p)), nil
	}
	if c.project == "" {
		return "", fault.New(fault.ValidationError, "%s has no configuration of projects", c.Title).WithField("--project").
			WithHint("leave it out: the file of the user is good for every project")
	}
	return c.existing(filepath.Join(p.Project, filepath.FromSlash(c.project))), nil
}

// existing returns the path with the alternative extension if such a file exists.
func (c Client) existing(path string) string {
	if c.other == "" {
		return path
	}
	other := strings.TrimSuffix(path, filepath.Ext(path)) + c.other
	if _, err := os.Stat(other); err == nil {
		return other
	}
	return path
}

// change returns the change that adds an entry to the client's file.
func (c Client) change(e Entry) (entryChange, error) {
	if e.URL == "" {
		return entryChange{name: e.Name, entry: c.stdio(e)}, nil
	}
	if c.http == nil {
		return entryChange{}, fault.New(fault.ValidationError, "%s cannot take a token from outside of its file, and no secret is written into that", c.Title).
			WithField("--http").WithHint("leave it out: stdin and stdout use the running node too")
	}
	return entryChange{name: e.Name, entry: c.http(e), input: c.input}, nil
}

// field is one key of an entry; the order of fields is kept.
type field struct {
	key   string
	value any
}

type fields []field

// asMap returns the entry as a decoder returns it.
func (f fields) asMap() map[string]any {
	m := map[string]any{}
	for _, one := range f {
		switch v := one.value.(type) {
		case []string:
			list := make([]any, len(v))
			for i, s := range v {
				list[i] = s
			}
			m[one.key] = list
		case fields:
			m[one.key] = v.asMap()
		default:
			m[one.key] = v
		}
	}
	return m
}

// with returns a copy of a decoded table with a value set under key; nil removes the key.
func with(table map[string]any, key string, value any) map[string]any {
	table = maps.Clone(table)
	if table == nil {
		table = map[string]any{}
	}
	delete(table, key)
	if value != nil {
		table[key] = value
	}
	return table
}

// withIn returns a copy of a decoded file with the table at a path of keys replaced.
func withIn(file map[string]any, path []string, table map[string]any) map[string]any {
	if len(path) > 1 {
		inner, _ := file[path[0]].(map[string]any)
		table = withIn(inner, path[1:], table)
	}
	return with(file, path[0], table)
}

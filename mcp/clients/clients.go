// Package clients edits the configuration files of MCP clients. For each client it contains the paths of the files and the format
// of an entry for orch. It adds an entry to a file, or removes it, without changing anything else in the file.
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
	// ID is the name of the client on the command line, Title the display name.
	ID, Title string
	// Source is the URL of the page that documents the configuration, Checked the month in which the page was last checked.
	Source, Checked string
	// Reload describes how to make the client read the changed file.
	Reload string

	// user returns the path of the user's file, project is the path of the file in a project, "" if there is none.
	user    func(Place) string
	project string
	// alternative is an alternative extension. A file with it is used if it exists.
	alternative string
	// table is the path of keys to the servers in the file.
	table []string
	// hasOldForm reports whether a decoded file contains servers in a format that the client no longer uses; may be nil.
	hasOldForm func(map[string]any) bool
	// form is the language of the file.
	form form
	// stdio returns an entry that starts orch, http an entry with the URL of a node. http is nil if the client can read the token
	// only from its file.
	stdio, http func(Entry) fields
	// input describes the token that the client prompts its user for, in entries of http; nil if the client reads the environment.
	input fields
}

// Place contains the properties of the system that determine the paths of files.
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
	// Command is the absolute path of orch, Args are the arguments with which it serves MCP over stdin and stdout.
	Command string
	Args    []string
	// URL is the address of a running node; it takes precedence over Command.
	URL string
}

// Find returns the client with an id. It returns VALIDATION_ERROR for an unknown id.
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

// SpeaksHTTP reports whether entries of the client can use HTTP, because the client can get the token from its environment or from
// its user. orch does not write tokens into files, so any other client must use stdin and stdout.
func (c Client) SpeaksHTTP() bool { return c.http != nil }

// AsksForToken reports whether the client prompts its user for the token and stores it.
func (c Client) AsksForToken() bool { return c.input != nil }

// HasProject reports whether the client supports a file in a project.
func (c Client) HasProject() bool { return c.project != "" }

// File returns the path of the configuration. It returns VALIDATION_ERROR if p.InProject is set and the client has no file in
// projects.
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
	if c.alternative == "" {
		return path
	}
	alternative := strings.TrimSuffix(path, filepath.Ext(path)) + c.alternative
	if _, err := os.Stat(alternative); err == nil {
		return alternative
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

// field is a key of an entry with its value.
type field struct {
	key   string
	value any
}

// fields are the fields of an entry, in the order in which they are written.
type fields []field

// asMap returns the entry in the form in which a decoder returns it.
func (f fields) asMap() map[string]any {
	m := map[string]any{}
	for _, pair := range f {
		switch v := pair.value.(type) {
		case []string:
			list := make([]any, len(v))
			for i, s := range v {
				list[i] = s
			}
			m[pair.key] = list
		case fields:
			m[pair.key] = v.asMap()
		default:
			m[pair.key] = v
		}
	}
	return m
}

// withKey returns a copy of a decoded table with key set to a value; a nil value removes the key.
func withKey(table map[string]any, key string, value any) map[string]any {
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

// withTable returns a copy of a decoded file with the table at a path of keys replaced.
func withTable(file map[string]any, path []string, table map[string]any) map[string]any {
	if len(path) > 1 {
		inner, _ := file[path[0]].(map[string]any)
		table = withTable(inner, path[1:], table)
	}
	return withKey(file, path[0], table)
}

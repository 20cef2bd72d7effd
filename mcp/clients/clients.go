// Package clients knows the configuration files of MCP clients: where they lie, what an entry for orch looks like in
// them, and how to write one without changing anything else in the file.
package clients

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// TokenVariable is the variable of the environment in which clients find their bearer token.
const TokenVariable = "ORCH_TOKEN"

// Client is a program that speaks MCP to orch.
type Client struct {
	// ID is its name on the command line, Title that for people.
	ID, Title string
	// Source is the page that the facts come from, Checked the month in which somebody has looked.
	Source, Checked string
	// Reload says how the client takes notice of the change.
	Reload string

	// user and project name the file; an empty one means that the client has none.
	user    func(Place) string
	project string
	// other is another ending that the file may have; it is used where such a file exists.
	other string
	// table is the path of keys to the servers.
	table []string
	// hasOldForm reports whether a decoded file has servers in a way that the client has left; nil when it has left none.
	hasOldForm func(map[string]any) bool
	// form is the language of the file.
	form form
	// stdio and http make an entry. A nil http means that the client cannot get a token without its file.
	stdio, http func(Entry) fields
	// input is what the client asks its user for, for http; nil when it reads the environment.
	input fields
}

// Place says where files are looked for.
type Place struct {
	// OS is one of GOOS: linux, darwin, windows.
	OS string
	// Home and Project are absolute directories.
	Home, Project string
	// Getenv reads the environment.
	Getenv func(string) string
	// InProject wants the file of the project instead of that of the user.
	InProject bool
}

// Entry is what a client has to know about orch.
type Entry struct {
	// Name is that of the server in the client.
	Name string
	// Command is the absolute path of orch, Args are its arguments; they start it on stdin and stdout.
	Command string
	Args    []string
	// URL is that of a running node; it goes before Command.
	URL string
}

// Find returns a client by its id. VALIDATION_ERROR when there is none.
func Find(id string) (Client, error) {
	for _, c := range all() {
		if c.ID == id {
			return c, nil
		}
	}
	return Client{}, fault.New(fault.ValidationError, "no client is called %q", id).WithField("client").
		WithHint("one of %s; for any other see docs/how-to/connect-an-mcp-client.md", strings.Join(IDs(), ", "))
}

// IDs are the names of all clients, sorted.
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

// SpeaksHTTP reports whether the client takes the token from its environment or from its user. orch writes no secret
// into files, so that other clients use stdin and stdout.
func (c Client) SpeaksHTTP() bool { return c.http != nil }

// AsksForToken reports whether the client asks its user for the token, and keeps it where it keeps secrets.
func (c Client) AsksForToken() bool { return c.input != nil }

// HasProject reports whether a project can have a file of its own for the client.
func (c Client) HasProject() bool { return c.project != "" }

// File returns the path of the configuration. VALIDATION_ERROR when the client has no such file.
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

// existing returns the path with the other ending when there is such a file.
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

// change returns the entry as the client wants it.
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

// field is one key of an entry; fields keep their order.
type field struct {
	key   string
	value any
}

type fields []field

// asMap is the entry as a decoder returns it.
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

// with returns a copy of a decoded table with another value under key; a nil value takes the key away.
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

// withIn returns a copy of a decoded file with another table at the end of a path of keys.
func withIn(file map[string]any, path []string, table map[string]any) map[string]any {
	if len(path) > 1 {
		inner, _ := file[path[0]].(map[string]any)
		table = withIn(inner, path[1:], table)
	}
	return with(file, path[0], table)
}

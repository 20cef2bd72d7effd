package clients

import (
	"bytes"
	"reflect"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// inputs is the key of the list of values that VS Code prompts its user for.
const inputs = "inputs"

// entryChange is a change of a file: it sets the entry with a name, or removes it if entry is nil.
type entryChange struct {
	name  string
	entry fields
	// input describes a value that the client prompts its user for, see Client.input; may be nil.
	input fields
}

// Install returns the content of the file with the entry added or replaced. The rest of the content does not change. Install returns
// INVALID_FORMAT, with line and column, for invalid content, and CONFLICT if the entry cannot be written without changing the rest.
func (c Client) Install(file string, content []byte, e Entry) ([]byte, error) {
	want, err := c.change(e)
	if err != nil {
		return nil, err
	}
	return c.edit(file, content, want)
}

// Uninstall returns the content of the file without the entry of that name. Errors are those of Install.
func (c Client) Uninstall(file string, content []byte, name string) ([]byte, error) {
	return c.edit(file, content, entryChange{name: name})
}

// language edits files of one language.
type language interface {
	// decode decodes the content to maps. Its errors contain line and column.
	decode(file string, content []byte) (map[string]any, error)
	// set returns the content with the entry of that name in the table added or replaced.
	set(content []byte, table []string, name string, entry fields) ([]byte, error)
	// remove returns the content without the entry of that name in the table.
	remove(content []byte, table []string, name string) ([]byte, error)
	// addInput returns the content with an additional input.
	addInput(content []byte, input fields) ([]byte, error)
	// snippet returns the content of a file that contains only the entry, for people who edit their file themselves.
	snippet(table []string, name string, entry, input fields) string
}

func (c Client) language() language {
	if c.form == tomlForm {
		return tomlFile{}
	}
	return jsonFile{}
}

// byteOrderMark is the UTF-8 byte order mark, which some Windows editors write.
const byteOrderMark = "\xef\xbb\xbf"

// trimMark removes the byte order mark.
func trimMark(content []byte) []byte { return bytes.TrimPrefix(content, []byte(byteOrderMark)) }

// edit returns the content with a change. It verifies that nothing else has changed, and returns CONFLICT otherwise.
func (c Client) edit(file string, content []byte, want entryChange) ([]byte, error) {
	text, marked := bytes.CutPrefix(content, []byte(byteOrderMark))
	before, err := c.language().decode(file, text)
	if err != nil {
		return nil, err
	}
	goal, err := c.expected(file, before, want)
	if err != nil {
		return nil, err
	}
	if equalFiles(before, goal, c.table) {
		return content, nil
	}
	after, err := c.apply(text, before, want)
	if err != nil {
		return nil, err
	}
	if got, err := c.language().decode(file, after); err != nil || !equalFiles(got, goal, c.table) {
		wrong := c.conflict(file, "the entry %q cannot be changed without touching the rest", want.name)
		if want.entry != nil {
			return nil, wrong.WithHint("edit it yourself; the entry is\n%s", c.language().snippet(c.table, want.name, want.entry, want.input))
		}
		return nil, wrong
	}
	if marked {
		after = append([]byte(byteOrderMark), after...)
	}
	return after, nil
}

// expected returns the decoded file after the change.
func (c Client) expected(file string, before map[string]any, want entryChange) (map[string]any, error) {
	servers, err := c.servers(file, before)
	if err != nil {
		return nil, err
	}
	if c.hasOldForm != nil && want.entry != nil && c.hasOldForm(before) {
		return nil, c.conflict(file, "the servers in it are written as an older %s reads them", c.Title)
	}
	var entry any
	if want.entry != nil {
		entry = want.entry.asMap()
	}
	goal := withTable(before, c.table, withKey(servers, want.name, entry))
	if want.input == nil || hasInput(before, want.input) {
		return goal, nil
	}
	list, ok := before[inputs].([]any)
	if _, there := before[inputs]; there && !ok {
		return nil, c.conflict(file, "%q is not a list", inputs)
	}
	return withKey(goal, inputs, append(slices.Clone(list), any(want.input.asMap()))), nil
}

// servers returns the servers in a decoded file, nil if it has none. It returns CONFLICT if they are not a table.
func (c Client) servers(file string, decoded map[string]any) (map[string]any, error) {
	for i, key := range c.table {
		next, there := decoded[key]
		if !there {
			return nil, nil
		}
		var ok bool
		if decoded, ok = next.(map[string]any); !ok {
			return nil, c.conflict(file, "%q is not a table of servers", strings.Join(c.table[:i+1], "."))
		}
	}
	return decoded, nil
}

// hasInput reports whether a file already has an input with the same id.
func hasInput(file map[string]any, input fields) bool {
	list, _ := file[inputs].([]any)
	return slices.ContainsFunc(list, func(item any) bool {
		in, _ := item.(map[string]any)
		return in["id"] == input.asMap()["id"]
	})
}

// apply makes the change in the text.
func (c Client) apply(text []byte, before map[string]any, want entryChange) ([]byte, error) {
	lang := c.language()
	if want.entry == nil {
		return lang.remove(text, c.table, want.name)
	}
	servers, _ := c.servers("", before) // expected has checked that they are a table
	if !reflect.DeepEqual(servers[want.name], any(want.entry.asMap())) {
		var err error
		if text, err = lang.set(text, c.table, want.name, want.entry); err != nil {
			return nil, err
		}
	}
	if want.input == nil || hasInput(before, want.input) {
		return text, nil
	}
	return lang.addInput(text, want.input)
}

// equalFiles reports whether decoded files are equal. An empty table of servers equals a missing one.
func equalFiles(got, want map[string]any, table []string) bool {
	return reflect.DeepEqual(withoutEmptyTables(got, table), withoutEmptyTables(want, table))
}

// withoutEmptyTables returns a decoded file without the table at a path of keys if it is empty, and without its empty parents.
func withoutEmptyTables(m map[string]any, table []string) map[string]any {
	inner, ok := m[table[0]].(map[string]any)
	if !ok {
		return m
	}
	if len(table) > 1 {
		inner = withoutEmptyTables(inner, table[1:])
	}
	if len(inner) == 0 {
		return withKey(m, table[0], nil)
	}
	return withKey(m, table[0], inner)
}

func (c Client) conflict(file, format string, args ...any) *fault.Error {
	return fault.New(fault.Conflict, format, args...).WithField(file).WithHint("edit it yourself, see docs/how-to/connect-an-mcp-client.md")
}

// Snippet returns an entry as text for people to paste into their file.
func (c Client) Snippet(e Entry) (string, error) {
	want, err := c.change(e)
	if err != nil {
		return "", err
	}
	return c.language().snippet(c.table, want.name, want.entry, want.input), nil
}

package clients

import (
	"bytes"
	"reflect"

	"github.com/orch-dev/orch/fault"
)

// Install returns the content of the file with the entry in it: new, changed, or as it is when nothing has to
// change. All the rest stays byte for byte. INVALID_FORMAT with line and column when the content is broken;
// CONFLICT when the entry cannot be written without touching the rest.
func (c Client) Install(file string, content []byte, e Entry) ([]byte, error) {
	entry, err := c.fields(e)
	if err != nil {
		return nil, err
	}
	return c.edit(file, content, e.Name, entry)
}

// Uninstall returns the content of the file without the entry of that name. Errors as in Install.
func (c Client) Uninstall(file string, content []byte, name string) ([]byte, error) {
	return c.edit(file, content, name, nil)
}

// language edits files of one form.
type language interface {
	// decode returns the content as maps; an error has line and column.
	decode(file string, content []byte) (map[string]any, error)
	// set returns the content with table.name set to the entry, and remove without it.
	set(content []byte, table, name string, entry fields) ([]byte, error)
	remove(content []byte, table, name string) ([]byte, error)
	// snippet is the entry alone, for people who edit themselves.
	snippet(table, name string, entry fields) string
}

func (c Client) language() language {
	if c.form == tomlForm {
		return tomlFile{}
	}
	return jsonFile{}
}

// mark is the byte order mark that some editors of Windows write.
const mark = "\xef\xbb\xbf"

// edit makes the change and proves that nothing else has changed.
func (c Client) edit(file string, content []byte, name string, entry fields) ([]byte, error) {
	text, marked := bytes.CutPrefix(content, []byte(mark))
	lang := c.language()
	before, err := lang.decode(file, text)
	if err != nil {
		return nil, err
	}
	servers, ok := before[c.table].(map[string]any)
	if _, there := before[c.table]; there && !ok {
		return nil, c.conflict(file, "%q is no table of servers", c.table)
	}
	if old, there := servers[name]; !there && entry == nil || there && entry != nil && reflect.DeepEqual(old, any(entry.asMap())) {
		return content, nil
	}
	var after []byte
	want := with(before, c.table, with(servers, name, nil))
	if entry == nil {
		after, err = lang.remove(text, c.table, name)
	} else {
		after, err = lang.set(text, c.table, name, entry)
		want = with(before, c.table, with(servers, name, entry.asMap()))
	}
	if err != nil {
		return nil, err
	}
	if got, err := lang.decode(file, after); err != nil || !same(got, want, c.table) {
		wrong := c.conflict(file, "the entry %q cannot be changed without touching the rest", name)
		if entry != nil {
			return nil, wrong.WithHint("edit it yourself; the entry is\n%s", lang.snippet(c.table, name, entry))
		}
		return nil, wrong
	}
	if marked {
		after = append([]byte(mark), after...)
	}
	return after, nil
}

// same compares decoded files; a table without entries is as good as none.
func same(got, want map[string]any, table string) bool {
	for _, m := range []*map[string]any{&got, &want} {
		if servers, ok := (*m)[table].(map[string]any); ok && len(servers) == 0 {
			*m = with(*m, table, nil)
		}
	}
	return reflect.DeepEqual(got, want)
}

func (c Client) conflict(file, format string, args ...any) *fault.Error {
	return fault.New(fault.Conflict, format, args...).WithField(file).WithHint("edit it yourself, see docs/mcp.md")
}

// Snippet is the entry as people can paste it.
func (c Client) Snippet(e Entry) (string, error) {
	entry, err := c.fields(e)
	if err != nil {
		return "", err
	}
	return c.language().snippet(c.table, e.Name, entry), nil
}

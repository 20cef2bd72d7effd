package clients

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/orch-dev/orch/fault"
)

// jsonFile implements language for JSON with comments and trailing commas. It removes and inserts text at the offsets that the
// parser reports, so that the rest of the file remains unchanged.
type jsonFile struct{}

func (jsonFile) decode(file string, content []byte) (map[string]any, error) {
	if len(bytes.TrimSpace(content)) == 0 {
		return map[string]any{}, nil
	}
	v, err := hujson.Parse(bytes.Clone(content))
	if err != nil {
		return nil, brokenJSON(file, err)
	}
	v.Standardize()
	d := json.NewDecoder(bytes.NewReader(v.Pack()))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil || m == nil {
		return nil, fault.New(fault.InvalidFormat, "the file does not contain an object").WithField(file + ":1:1")
	}
	return m, nil
}

// brokenJSON moves the position from the text of an error to the name of the file.
func brokenJSON(file string, err error) error {
	text := strings.TrimPrefix(err.Error(), "hujson: ")
	place := regexp.MustCompile(`^line (\d+), column (\d+): `).FindStringSubmatch(text)
	if place == nil {
		return fault.New(fault.InvalidFormat, "%s", text).WithField(file)
	}
	return fault.New(fault.InvalidFormat, "%s", text[len(place[0]):]).WithField(file + ":" + place[1] + ":" + place[2]).
		WithHint("mend the file first; it was not touched")
}

// remove removes each member with the name, because a file may contain duplicates.
func (jsonFile) remove(content []byte, table []string, name string) ([]byte, error) {
	for {
		l, err := readLayout(content)
		if err != nil {
			return nil, err
		}
		servers, missing := l.walk(table)
		object, ok := servers.Value.(*hujson.Object)
		if !ok || len(missing) > 0 {
			return content, nil
		}
		_, at := l.find(object, name)
		if at < 0 {
			return content, nil
		}
		content = l.removeMember(servers, object, at)
	}
}

func (jsonFile) set(content []byte, table []string, name string, entry fields) ([]byte, error) {
	if len(bytes.TrimSpace(content)) == 0 {
		content = []byte("{}\n")
	}
	l, err := readLayout(content)
	if err != nil {
		return nil, err
	}
	servers, missing := l.walk(table)
	object, ok := servers.Value.(*hujson.Object)
	if !ok {
		return content, nil
	}
	depth := len(table) - len(missing)
	if len(missing) > 0 {
		return l.insert(groupOf(servers), depth, l.member(missing[0], nested(missing[1:], fields{{name, entry}}))), nil
	}
	if old, at := l.find(object, name); at >= 0 {
		indent := l.indentAt(object.Members[at].Name.StartOffset)
		return splice(content, old.StartOffset, old.EndOffset, l.render(indent, entry)), nil
	}
	return l.insert(groupOf(servers), depth, l.member(name, entry)), nil
}

// walk follows a path of keys. It returns the last existing value, and the keys missing below it.
func (l layout) walk(path []string) (at hujson.Value, missing []string) {
	at = l.value
	for i, key := range path {
		object, ok := at.Value.(*hujson.Object)
		if !ok {
			return at, path[i:]
		}
		next, found := l.find(object, key)
		if found < 0 {
			return at, path[i:]
		}
		at = *next
	}
	return at, nil
}

// nested returns fields with a value at a path of keys.
func nested(path []string, value fields) fields {
	for _, key := range slices.Backward(path) {
		value = fields{{key, value}}
	}
	return value
}

// addInput adds an input to the list inputs of the file, which it creates if necessary.
func (jsonFile) addInput(content []byte, input fields) ([]byte, error) {
	l, err := readLayout(content)
	if err != nil {
		return nil, err
	}
	list, i := l.find(l.root, inputs)
	if i < 0 {
		return l.insert(groupOf(l.value), 0, l.member(inputs, []fields{input})), nil
	}
	return l.insert(groupOf(*list), 1, func(indent string) string { return string(l.render(indent, input)) }), nil
}

func (jsonFile) snippet(table []string, name string, entry, input fields) string {
	l := layout{unit: "  ", newline: "\n"}
	all := nested(table, fields{{name, entry}})
	if input != nil {
		all = append(all, field{inputs, []fields{input}})
	}
	return string(l.render("", all))
}

// layout is a parsed file with its formatting.
type layout struct {
	content []byte
	value   hujson.Value
	root    *hujson.Object
	// unit is one level of indentation, newline the line separator.
	unit, newline string
}

func readLayout(content []byte) (layout, error) {
	v, err := hujson.Parse(bytes.Clone(content))
	if err != nil {
		return layout{}, fault.New(fault.InvalidFormat, "%w", err)
	}
	root, ok := v.Value.(*hujson.Object)
	if !ok {
		return layout{}, fault.New(fault.InvalidFormat, "the file does not contain an object")
	}
	l := layout{content: content, value: v, root: root, unit: "  ", newline: "\n"}
	if bytes.Contains(content, []byte("\r\n")) {
		l.newline = "\r\n"
	}
	if len(root.Members) > 0 {
		if indent := l.indentAt(root.Members[0].Name.StartOffset); indent != "" {
			l.unit = indent
		}
	}
	return l, nil
}

// find returns the last member with a name and its index, -1 for none. The last of several members takes precedence.
func (l layout) find(object *hujson.Object, name string) (*hujson.Value, int) {
	for i, m := range slices.Backward(object.Members) {
		if lit, ok := m.Name.Value.(hujson.Literal); ok && lit.String() == name {
			return &object.Members[i].Value, i
		}
	}
	return nil, -1
}

// indentAt returns the indentation before an offset, "" if the line has other text before the offset.
func (l layout) indentAt(offset int) string {
	line := l.content[bytes.LastIndexByte(l.content[:offset], '\n')+1 : offset]
	if len(bytes.Trim(line, " \t")) > 0 {
		return ""
	}
	return string(line)
}

// group is an object or a list to which an element is added.
type group struct {
	// closing is the offset of the closing brace or bracket.
	closing int
	// first and end are the offsets of the first member and the end of the last; end is 0 if there is none.
	first, end int
	// comma is set if a comma follows the last member.
	comma bool
}

func groupOf(v hujson.Value) group {
	g := group{closing: v.EndOffset - 1}
	switch in := v.Value.(type) {
	case *hujson.Object:
		if n := len(in.Members); n > 0 {
			last := in.Members[n-1]
			g.first, g.end, g.comma = last.Name.StartOffset, last.Value.EndOffset, hasTrailingComma(last.Value)
		}
	case *hujson.Array:
		if n := len(in.Elements); n > 0 {
			last := in.Elements[n-1]
			g.first, g.end, g.comma = last.StartOffset, last.EndOffset, hasTrailingComma(last)
		}
	}
	return g
}

// insert returns the content with an element added at the end of a group. depth is the nesting depth of the group; item returns the
// element for an indentation.
func (l layout) insert(g group, depth int, item func(indent string) string) []byte {
	end := len(bytes.TrimRight(l.content[:g.closing], " \t\r\n"))
	outer := strings.Repeat(l.unit, depth)
	if tail := l.content[end:g.closing]; bytes.IndexByte(tail, '\n') >= 0 {
		outer = string(tail[bytes.LastIndexByte(tail, '\n')+1:])
	}
	indent, comma, content := outer+l.unit, "", l.content
	if existing := l.indentAt(g.first); g.end > 0 && existing != "" {
		indent = existing
	}
	switch {
	case g.comma:
		comma = ","
	case g.end > 0:
		content = splice(content, g.end, g.end, []byte(","))
		end, g.closing = end+1, g.closing+1
	}
	return splice(content, end, g.closing, []byte(l.newline+indent+item(indent)+comma+l.newline+outer))
}

// member returns an item for insert: a member of an object.
func (l layout) member(name string, value any) func(indent string) string {
	return func(indent string) string { return string(quote(name)) + ": " + string(l.render(indent, value)) }
}

// hasTrailingComma reports whether a comma follows the last value of a group. The parser sets AfterExtra in this case.
func hasTrailingComma(last hujson.Value) bool { return last.AfterExtra != nil }

// removeMember returns the content without the member of an object at index at. It also removes the space before the member, and
// one comma. If the object has no other members and no comments, it becomes {}.
func (l layout) removeMember(value hujson.Value, object *hujson.Object, at int) []byte {
	m := object.Members[at]
	comments := slices.Concat(m.Name.BeforeExtra, m.Value.AfterExtra, object.AfterExtra)
	if len(object.Members) == 1 && len(bytes.TrimSpace(comments)) == 0 {
		return splice(l.content, value.StartOffset+1, value.EndOffset-1, nil)
	}
	start, end := m.Name.StartOffset, m.Value.EndOffset
	isLast := at == len(object.Members)-1
	comma := !isLast || hasTrailingComma(m.Value)
	if comma {
		end += len(m.Value.AfterExtra) + 1
	}
	if rest := bytes.TrimLeft(l.content[end:], " \t\r"); bytes.HasPrefix(rest, []byte("\n")) {
		start = len(bytes.TrimRight(l.content[:start], " \t\r\n"))
	}
	content := splice(l.content, start, end, nil)
	if isLast && !comma && at > 0 {
		before := object.Members[at-1].Value
		place := before.EndOffset + len(before.AfterExtra)
		content = splice(content, place, place+1, nil)
	}
	return content
}

// render formats a value. indent is the indentation of all lines except the first.
func (l layout) render(indent string, value any) []byte {
	var b bytes.Buffer
	l.write(&b, indent, value)
	return b.Bytes()
}

func (l layout) write(b *bytes.Buffer, indent string, value any) {
	inner := l.newline + indent + l.unit
	switch v := value.(type) {
	case fields:
		b.WriteString("{")
		for i, f := range v {
			b.WriteString(comma(i) + inner)
			b.Write(quote(f.key))
			b.WriteString(": ")
			l.write(b, indent+l.unit, f.value)
		}
		b.WriteString(l.newline + indent + "}")
	case []fields:
		b.WriteString("[")
		for i, f := range v {
			b.WriteString(comma(i) + inner)
			l.write(b, indent+l.unit, f)
		}
		b.WriteString(l.newline + indent + "]")
	default:
		b.Write(bytes.ReplaceAll(quote(v), []byte(`","`), []byte(`", "`)))
	}
}

// comma returns the separator before the item at an index.
func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}

// quote encodes a string, a boolean or a list of strings as JSON, without HTML escapes.
func quote(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // all entries consist of such values
	}
	return bytes.TrimSpace(b.Bytes())
}

// splice returns content with content[from:to] replaced.
func splice(content []byte, from, to int, by []byte) []byte {
	return slices.Concat(content[:from], by, content[to:])
}

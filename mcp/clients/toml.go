package clients

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/orch-dev/orch/fault"
)

// tomlFile implements language for TOML files with a table [table.name] for each entry, as Codex writes them. It does not edit
// entries in other forms, such as inline tables. The path of the table must be a single key.
type tomlFile struct{}

func (tomlFile) decode(file string, content []byte) (map[string]any, error) {
	m := map[string]any{}
	err := toml.Unmarshal(content, &m)
	if err == nil {
		return m, nil
	}
	var wrong *toml.DecodeError
	if !errors.As(err, &wrong) {
		return nil, fault.New(fault.InvalidFormat, "%w", err).WithField(file)
	}
	line, column := wrong.Position()
	return nil, fault.New(fault.InvalidFormat, "%w", err).WithField(fmt.Sprintf("%s:%d:%d", file, line, column)).
		WithHint("mend the file first; it was not touched")
}

func (t tomlFile) set(content []byte, table []string, name string, entry fields) ([]byte, error) {
	text := t.snippet(table, name, entry, nil)
	if bytes.Contains(content, []byte("\r\n")) {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	from, to, err := block(content, table[0], name)
	if err != nil {
		return nil, err
	}
	if from < to {
		return splice(content, from, to, []byte(text)), nil
	}
	return append(endWithBlankLine(content), text...), nil
}

// endWithBlankLine returns content with an empty line at its end, so that another table can follow.
func endWithBlankLine(content []byte) []byte {
	content = bytes.Clone(content)
	newline := "\n"
	if bytes.Contains(content, []byte("\r\n")) {
		newline = "\r\n"
	}
	if len(content) == 0 {
		return content
	}
	if !bytes.HasSuffix(content, []byte("\n")) {
		content = append(content, newline...)
	}
	return append(content, newline...)
}

func (tomlFile) remove(content []byte, table []string, name string) ([]byte, error) {
	from, to, err := block(content, table[0], name)
	if err != nil || from == to {
		return content, err
	}
	if to == len(content) { // the empty line before it is removed too
		kept := bytes.TrimRight(content[:from], "\r\n")
		if rest := content[len(kept):from]; len(kept) > 0 && len(rest) > 0 {
			kept = content[:len(kept)+bytes.IndexByte(rest, '\n')+1]
		}
		return bytes.Clone(kept), nil
	}
	for rest := content[to:]; len(rest) > 0 && (rest[0] == '\n' || rest[0] == '\r'); rest = content[to:] {
		to++
	}
	return splice(content, from, to, nil), nil
}

// addInput does nothing: no client with a TOML file has inputs.
func (tomlFile) addInput(content []byte, _ fields) ([]byte, error) { return content, nil }

func (tomlFile) snippet(table []string, name string, entry, _ fields) string {
	var b strings.Builder
	b.WriteString("[" + table[0] + "." + key(name) + "]\n")
	for _, f := range entry {
		b.WriteString(f.key + " = ")
		b.Write(bytes.ReplaceAll(quote(f.value), []byte(`","`), []byte(`", "`)))
		b.WriteString("\n")
	}
	return b.String()
}

// key formats a name as a TOML key: a bare key if possible, otherwise a quoted one.
func key(name string) string {
	bare := func(r rune) bool {
		return r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	if name != "" && strings.IndexFunc(name, func(r rune) bool { return !bare(r) }) < 0 {
		return name
	}
	return string(quote(name))
}

// block returns the range of the lines of [table.name] and its subtables; from and to are equal if there are none. The range does
// not include comments and empty lines at the end, which belong to the next table.
func block(content []byte, table, name string) (from, to int, err error) {
	var p unstable.Parser
	p.Reset(content)
	from = -1
	to = len(content)
	for p.NextExpression() {
		path, offset := header(p.Expression())
		if len(path) == 0 {
			continue
		}
		inBlock := len(path) >= 2 && path[0] == table && path[1] == name
		if inBlock && from < 0 {
			from = lineStart(content, offset)
		}
		if !inBlock && from >= 0 {
			to = lineStart(content, offset)
			break
		}
	}
	if err := p.Error(); err != nil {
		return 0, 0, fault.New(fault.InvalidFormat, "%w", err)
	}
	if from < 0 {
		return 0, 0, nil
	}
	return from, withoutComments(content, from, to), nil
}

// header returns the path in a table header and the offset of that path; a nil path for any other expression.
func header(e *unstable.Node) (path []string, offset int) {
	if e.Kind != unstable.Table && e.Kind != unstable.ArrayTable {
		return nil, 0
	}
	for it := e.Key(); it.Next(); {
		if path == nil {
			offset = int(it.Node().Raw.Offset)
		}
		path = append(path, string(it.Node().Data))
	}
	return path, offset
}

func lineStart(content []byte, offset int) int {
	return bytes.LastIndexByte(content[:offset], '\n') + 1
}

// withoutComments returns the end of the block content[from:to] without its trailing empty lines and comments.
func withoutComments(content []byte, from, to int) int {
	for to > from {
		start := lineStart(content, to-1)
		line := bytes.TrimSpace(content[start:to])
		if len(line) > 0 && line[0] != '#' {
			return to
		}
		to = start
	}
	return to
}

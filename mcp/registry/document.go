package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"

	"github.com/orch-dev/orch/fault"
)

// The limits of a definition.
const (
	maxFileBytes = 16 << 20
	maxDepth     = 100
)

// document is a parsed JSON file with the positions of its values. Comments and trailing commas are allowed.
type document struct {
	file    string
	content []byte
	tree    hujson.Value
	// plain is the content as JSON without comments.
	plain []byte
}

// readDocument reads and parses a file. It returns ErrFileNotFound or ErrInvalidJSON.
func readDocument(file string) (document, error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return document{}, fault.Wrap(fault.NotFound, ErrFileNotFound, "there is no such file").WithField(file)
	case err != nil:
		return document{}, fault.Wrap(fault.Forbidden, errors.Join(ErrFileNotFound, err), "it cannot be read").WithField(file)
	case !info.Mode().IsRegular() || info.Size() > maxFileBytes:
		return document{}, fault.Wrap(fault.InvalidFormat, ErrInvalidJSON, "it is not a regular file of at most 16 MiB").WithField(file)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return document{}, fault.Wrap(fault.Forbidden, errors.Join(ErrFileNotFound, err), "it cannot be read").WithField(file)
	}
	return parseDocument(file, content)
}

// parseDocument parses the content of a file. It returns ErrInvalidJSON, with line and column.
func parseDocument(file string, content []byte) (document, error) {
	const mark = "\ufeff"
	content = bytes.TrimPrefix(content, []byte(mark))
	if !utf8.Valid(content) || tooDeep(content) {
		return document{}, fault.Wrap(fault.InvalidFormat, ErrInvalidJSON, "it is no UTF-8, or deeper than 100 levels").WithField(file + ":1:1")
	}
	tree, err := hujson.Parse(bytes.Clone(content))
	if err != nil {
		return document{}, brokenJSON(file, err)
	}
	standard := tree.Clone()
	standard.Standardize()
	return document{file: file, content: content, tree: tree, plain: standard.Pack()}, nil
}

// tooDeep reports whether a JSON text is nested deeper than maxDepth. It protects the parser, which is recursive.
func tooDeep(content []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(content); i++ {
		switch c := content[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// brokenJSON moves the position from the text of an error to the name of the file.
func brokenJSON(file string, err error) error {
	text := strings.TrimPrefix(err.Error(), "hujson: ")
	place := regexp.MustCompile(`^line (\d+), column (\d+): `).FindStringSubmatch(text)
	if place == nil {
		return fault.Wrap(fault.InvalidFormat, ErrInvalidJSON, text).WithField(file + ":1:1")
	}
	return fault.Wrap(fault.InvalidFormat, ErrInvalidJSON, text[len(place[0]):]).WithField(file + ":" + place[1] + ":" + place[2])
}

// decode decodes the document into a value. Numbers keep all digits.
func (d document) decode(into any) error {
	decoder := json.NewDecoder(bytes.NewReader(d.plain))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// problem returns a schema error for path, located at the value at.
func (d document) problem(at []string, path []string, message string) SchemaError {
	line, column := d.position(at)
	return SchemaError{File: d.file, Line: line, Column: column, Path: pointer(path), Message: message}
}

// position returns the position of the value at a path. If a part of the path is missing, it returns the position of the last
// existing value.
func (d document) position(path []string) (line, column int) {
	value := d.tree
	for _, key := range path {
		next, ok := child(value, key)
		if !ok {
			break
		}
		value = next
	}
	return d.lineColumn(value.StartOffset)
}

// lineColumn converts an offset to a line and a column, from 1, in characters.
func (d document) lineColumn(offset int) (line, column int) {
	before := d.content[:min(offset, len(d.content))]
	return bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
}

// child returns the member or element of a value with the given key. If several members have the same name, it returns the last.
func child(value hujson.Value, key string) (hujson.Value, bool) {
	switch in := value.Value.(type) {
	case *hujson.Object:
		for _, m := range slices.Backward(in.Members) {
			if nameOf(m.Name) == key {
				return m.Value, true
			}
		}
	case *hujson.Array:
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(in.Elements) {
			return in.Elements[i], true
		}
	}
	return hujson.Value{}, false
}

func nameOf(value hujson.Value) string {
	literal, ok := value.Value.(hujson.Literal)
	if !ok {
		return ""
	}
	return literal.String()
}

// duplicateNames returns a schema error for each duplicate name in an object, because decoding would silently drop one of the
// values.
func (d document) duplicateNames(value hujson.Value, path []string) []SchemaError {
	var found []SchemaError
	switch in := value.Value.(type) {
	case *hujson.Object:
		seen := map[string]bool{}
		for _, m := range in.Members {
			name := nameOf(m.Name)
			below := slices.Concat(path, []string{name})
			if seen[name] {
				line, column := d.lineColumn(m.Name.StartOffset)
				found = append(found, SchemaError{File: d.file, Line: line, Column: column, Path: pointer(below), Message: "stands twice"})
			}
			seen[name] = true
			found = append(found, d.duplicateNames(m.Value, below)...)
		}
	case *hujson.Array:
		for i, element := range in.Elements {
			found = append(found, d.duplicateNames(element, slices.Concat(path, []string{strconv.Itoa(i)}))...)
		}
	}
	return found
}

// pointer formats a JSON pointer.
func pointer(path []string) string {
	var b strings.Builder
	for _, key := range path {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key))
	}
	return b.String()
}

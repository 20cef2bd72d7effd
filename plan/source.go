package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/orch-dev/orch/classify/secrets"
)

// bounds are the limits of one document after aliases are expanded.
type bounds struct{ bytes, nodes, depth int }

// sourceBounds returns the limits of a file.
func sourceBounds() bounds { return bounds{MaxSource, 200_000, 64} }

// loadBounds returns the limits of a submission. A submission in JSON comes from a program and may be as large as a
// normal form: it may be the plan of one call with its arguments.
func loadBounds(src []byte) bounds {
	limit := sourceBounds()
	if trimmed := bytes.TrimSpace(src); len(trimmed) > 0 && trimmed[0] == '{' {
		limit.bytes = MaxNormalised
	}
	return limit
}

// normalBounds returns the limits of a normal form. They fit the normal form of every file within sourceBounds, so that
// Compile accepts every plan that Parse accepts.
func normalBounds() bounds { return bounds{MaxNormalised, MaxNormalised, 64 * (MaxNesting + 1)} }

// document is one file as a tree of nodes with positions.
type document struct {
	file     string
	src      []byte
	root     *yaml.Node
	problems *Problems
	warn     func(Problem) // nil = no warnings
}

// readDocument parses src as JSON if it looks like JSON, else as YAML. On a syntax error it reports a problem and
// returns nil.
func readDocument(file string, src []byte, limit bounds, problems *Problems, warn func(Problem)) *document {
	d := &document{file: file, src: bytes.TrimPrefix(src, []byte("\ufeff")), problems: problems, warn: warn}
	if len(src) > limit.bytes {
		d.report(1, 1, "", fmt.Sprintf("the plan has %d bytes, more than %d", len(src), limit.bytes), "")
		return nil
	}
	var err *syntaxError
	trimmed := bytes.TrimSpace(d.src)
	switch isJSON := len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(trimmed); {
	case isJSON:
		d.root, err = readJSON(d.src, limit)
	case len(src) > MaxSource:
		err = &syntaxError{1, 1, fmt.Sprintf("the plan has %d bytes, more than %d, and is not valid JSON", len(src), MaxSource), ""}
	default:
		d.root, err = readYAML(d.src, limit)
	}
	if err != nil {
		d.report(err.line, err.col, "", err.message, err.hint)
		return nil
	}
	return d
}

// MaxProblems bounds the reported problems.
const MaxProblems = 100

// full reports whether further problems would be dropped, so that the caller can skip checks.
func (d *document) full() bool { return len(*d.problems) >= MaxProblems }

func (d *document) report(line, col int, path, message, hint string) {
	if d.full() {
		return
	}
	*d.problems = append(*d.problems, Problem{d.file, line, col, secrets.Clean(path), secrets.Clean(message), secrets.Clean(hint)})
}

// syntaxError is a syntax error with its position.
type syntaxError struct {
	line, col     int
	message, hint string
}

func readYAML(src []byte, limit bounds) (*yaml.Node, *syntaxError) {
	dec := yaml.NewDecoder(bytes.NewReader(src))
	var doc yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, &syntaxError{1, 1, "the plan is empty", HintNew}
	}
	if err != nil {
		return nil, yamlError(err)
	}
	var second yaml.Node
	if err := dec.Decode(&second); err == nil {
		return nil, &syntaxError{second.Line, second.Column, "a file holds one plan, and this is a second document", ""}
	} else if !errors.Is(err, io.EOF) {
		return nil, yamlError(err)
	}
	x := expander{limit: limit}
	return x.expand(doc.Content[0], 0)
}

// yamlError extracts the line from a message of the form "yaml: line 3: did not find …".
func yamlError(err error) *syntaxError {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if rest, ok := strings.CutPrefix(message, "line "); ok {
		if number, tail, found := strings.Cut(rest, ": "); found {
			if n, convErr := strconv.Atoi(number); convErr == nil {
				line, message = n, tail
			}
		}
	}
	return &syntaxError{line, 1, "this is not valid YAML: " + message, ""}
}

// expander replaces aliases by copies of their targets and bounds the result, so that a few lines cannot expand to
// millions of nodes.
type expander struct {
	limit        bounds
	nodes, bytes int
}

func (x *expander) expand(n *yaml.Node, depth int) (*yaml.Node, *syntaxError) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	x.nodes++
	x.bytes += len(n.Value)
	const aliasHint = "aliases count as often as they are used"
	switch {
	case x.nodes > x.limit.nodes:
		return nil, &syntaxError{n.Line, n.Column, fmt.Sprintf("the plan has more than %d values", x.limit.nodes), aliasHint}
	case x.bytes > x.limit.bytes:
		return nil, &syntaxError{n.Line, n.Column, fmt.Sprintf("the plan has more than %d bytes of text", x.limit.bytes), aliasHint}
	case depth > x.limit.depth:
		return nil, &syntaxError{n.Line, n.Column, fmt.Sprintf("values are nested more than %d deep", x.limit.depth), ""}
	}
	for i, child := range n.Content {
		expanded, err := x.expand(child, depth+1)
		if err != nil {
			return nil, err
		}
		n.Content[i] = expanded
	}
	return n, nil
}

// jsonReader parses JSON into YAML nodes, because the YAML parser does not support all escapes of JSON.
type jsonReader struct {
	dec       *json.Decoder
	src       []byte
	depth     int // limit of nesting
	off       int // offset of line and col in src
	line, col int
}

func readJSON(src []byte, limit bounds) (*yaml.Node, *syntaxError) {
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber()
	r := &jsonReader{dec: dec, src: src, depth: limit.depth, line: 1, col: 1}
	n, err := r.node(0)
	if err != nil {
		return nil, &syntaxError{r.line, r.col, "this is not valid JSON: " + err.Error(), ""}
	}
	x := expander{limit: limit}
	return x.expand(n, 0)
}

// node parses the next value.
func (r *jsonReader) node(depth int) (*yaml.Node, error) {
	if depth > r.depth {
		return nil, fmt.Errorf("values are nested more than %d deep", r.depth)
	}
	r.seek()
	n := &yaml.Node{Line: r.line, Column: r.col}
	token, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	if delim, ok := token.(json.Delim); ok {
		return n, r.children(n, delim, depth)
	}
	n.Kind = yaml.ScalarNode
	n.Tag, n.Value = scalar(token)
	return n, nil
}

// children parses the values of an object or a list up to its end.
func (r *jsonReader) children(n *yaml.Node, delim json.Delim, depth int) error {
	n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
	if delim == '{' {
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
	}
	for r.dec.More() {
		child, err := r.node(depth + 1)
		if err != nil {
			return err
		}
		n.Content = append(n.Content, child)
	}
	_, err := r.dec.Token()
	return err
}

func scalar(token json.Token) (tag, value string) {
	switch v := token.(type) {
	case string:
		return "!!str", v
	case bool:
		return "!!bool", strconv.FormatBool(v)
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return "!!float", v.String()
		}
		return "!!int", v.String()
	default:
		return "!!null", "null"
	}
}

// seek moves line and col to the next token.
func (r *jsonReader) seek() {
	end := int(r.dec.InputOffset())
	for end < len(r.src) && bytes.IndexByte([]byte(" \t\r\n,:"), r.src[end]) >= 0 {
		end++
	}
	passed := r.src[r.off:end]
	if i := bytes.LastIndexByte(passed, '\n'); i >= 0 {
		r.line += bytes.Count(passed, []byte("\n"))
		r.col = 1
		passed = passed[i+1:]
	}
	r.col += utf8.RuneCount(passed)
	r.off = end
}

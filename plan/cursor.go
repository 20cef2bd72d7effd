package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// nodePath is the path from the root of a document to a value; nil is the root.
type nodePath struct {
	up    *nodePath
	key   string
	index int // in a list, when key is ""
}

func (p *nodePath) field(key string) *nodePath { return &nodePath{up: p, key: key} }

func (p *nodePath) item(i int) *nodePath { return &nodePath{up: p, index: i} }

// String returns the path as steps[3].with.file_path.
func (p *nodePath) String() string {
	switch {
	case p == nil:
		return ""
	case p.key == "":
		return p.up.String() + "[" + strconv.Itoa(p.index) + "]"
	case p.up == nil:
		return p.key
	default:
		return p.up.String() + "." + p.key
	}
}

// find returns the node at the path, or its nearest existing ancestor.
func (p *nodePath) find(root *yaml.Node) (node *yaml.Node, exact bool) {
	if p == nil {
		return root, true
	}
	up, exact := p.up.find(root)
	if !exact {
		return up, false
	}
	if p.key == "" && up.Kind == yaml.SequenceNode && p.index < len(up.Content) {
		return up.Content[p.index], true
	}
	if up.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(up.Content); i += 2 {
			if up.Content[i].Value == p.key {
				return up.Content[i+1], true
			}
		}
	}
	return up, false
}

// location is a path in a document at which a problem can be reported.
type location struct {
	doc  *document
	path *nodePath
}

func (p location) field(key string) location { return location{p.doc, p.path.field(key)} }

func (p location) item(i int) location { return location{p.doc, p.path.item(i)} }

// report adds a problem at the location.
func (p location) report(message, hint string) {
	if p.doc.full() {
		return
	}
	n, _ := p.path.find(p.doc.root)
	p.doc.report(n.Line, n.Column, p.path.String(), message, hint)
}

// suggest returns a "did you mean" hint for a mistyped name. It returns fallback when no candidate is similar.
func (p location) suggest(name string, candidates []string, fallback string) string {
	if p.doc.full() {
		return ""
	}
	return suggestOr(name, candidates, fallback)
}

// reportIn adds a problem at an offset, in characters, in part of the string at the location. When the string does not
// occur literally in the file, because of escapes or folded lines, it reports the location itself.
func (p location) reportIn(text string, offset int, message, hint string) {
	if p.doc.full() {
		return
	}
	n, _ := p.path.find(p.doc.root)
	line, col := p.doc.locate(n, text, offset)
	p.doc.report(line, col, p.path.String(), message, hint)
}

// warnIn is reportIn for warnings.
func (p location) warnIn(text string, message, hint string) {
	n, _ := p.path.find(p.doc.root)
	line, col := p.doc.locate(n, text, 0)
	p.doc.warn(Problem{p.doc.file, line, col, p.path.String(), message, hint})
}

// locate returns the position of the character at offset in text. The text begins at or soon after the start of the
// node.
func (d *document) locate(n *yaml.Node, text string, offset int) (line, col int) {
	start := 0
	for range n.Line - 1 {
		start += bytes.IndexByte(d.src[start:], '\n') + 1
	}
	for range n.Column - 1 {
		_, size := utf8.DecodeRune(d.src[start:])
		start += size
	}
	rest := string(d.src[start:min(len(d.src), start+len(n.Value)*2+MaxExpression)])
	found := strings.Index(rest, text)
	if text == "" || found < 0 {
		return n.Line, n.Column
	}
	characters := []rune(text)
	line, col = n.Line, n.Column
	for _, r := range slices.Concat([]rune(rest[:found]), characters[:min(offset, len(characters))]) {
		col++
		if r == '\n' {
			line, col = line+1, 1
		}
	}
	return line, col
}

// cursor parses one value of a document and reports problems.
type cursor struct {
	location

	node *yaml.Node
}

// pair is one entry of an object.
type pair struct {
	key     string
	keyNode *yaml.Node
	value   cursor
}

// reportKey adds a problem at the key of an entry.
func (p pair) reportKey(message, hint string) {
	p.value.doc.report(p.keyNode.Line, p.keyNode.Column, p.value.path.String(), message, hint)
}

// pairs returns the entries of an object in file order. It reports duplicate keys.
func (c cursor) pairs() []pair {
	if c.node.Kind != yaml.MappingNode {
		c.report("is "+c.kind()+", but an object is expected", "")
		return nil
	}
	pairs := make([]pair, 0, len(c.node.Content)/2)
	seen := make(map[string]int, len(c.node.Content)/2)
	for i := 0; i+1 < len(c.node.Content); i += 2 {
		key, value := c.node.Content[i], c.node.Content[i+1]
		p := pair{key.Value, key, cursor{c.field(key.Value), value}}
		switch first, twice := seen[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			p.reportKey("a key must be a text", "")
		case key.Tag == "!!merge":
			p.reportKey("merge keys are not supported", "write the fields out")
		case twice:
			p.reportKey(fmt.Sprintf("the key %s occurs here for the second time", quote(key.Value)),
				fmt.Sprintf("the first is in line %d", first))
		default:
			seen[key.Value] = key.Line
			pairs = append(pairs, p)
		}
	}
	return pairs
}

// object calls the function in fields for each entry, and reports unknown keys.
func (c cursor) object(fields map[string]func(cursor)) {
	for _, p := range c.pairs() {
		if read, known := fields[p.key]; known {
			read(p.value)
			continue
		}
		if !c.doc.full() {
			p.reportKey("unknown key "+quote(p.key), suggestKey(p.key, sortedKeys(fields)))
		}
	}
}

// list returns the items of a list.
func (c cursor) list() []cursor {
	if c.node.Kind != yaml.SequenceNode {
		c.report("is "+c.kind()+", but a list is expected", "")
		return nil
	}
	items := make([]cursor, len(c.node.Content))
	for i, n := range c.node.Content {
		items[i] = cursor{c.item(i), n}
	}
	return items
}

// text returns a scalar as it is written; numbers, dates and booleans count as text.
func (c cursor) text() string {
	if c.node.Kind != yaml.ScalarNode || c.node.Tag == "!!null" {
		c.report("is "+c.kind()+", but a text is expected", "")
		return ""
	}
	return c.node.Value
}

// texts returns a list of strings. It reports duplicates.
func (c cursor) texts() []string {
	var all []string
	for _, item := range c.list() {
		s := item.text()
		if slices.Contains(all, s) {
			item.report(quote(s)+" occurs in the list twice", "")
			continue
		}
		all = append(all, s)
	}
	return all
}

// oneOrMore returns a list of strings; a single string is a list of one.
func (c cursor) oneOrMore() []string {
	if c.node.Kind == yaml.ScalarNode && c.node.Tag != "!!null" {
		return []string{c.text()}
	}
	return c.texts()
}

// oneOf returns a string that must be one of allowed.
func (c cursor) oneOf(allowed ...string) string {
	s := c.text()
	if s != "" && !slices.Contains(allowed, s) {
		c.report(fmt.Sprintf("%s is none of %s", quote(s), strings.Join(allowed, ", ")), c.suggest(s, allowed, ""))
	}
	return s
}

// count returns an integer from 1 to high.
func (c cursor) count(high int) int { return c.between(1, high) }

// between returns a whole number from low to high.
func (c cursor) between(low, high int) int {
	n, err := strconv.Atoi(c.node.Value)
	if c.node.Tag != "!!int" || err != nil || n < low || n > high {
		c.report(fmt.Sprintf("must be a whole number from %d to %d", low, high), "")
	}
	return n
}

// real returns a number from low to high.
func (c cursor) real(low, high float64) float64 {
	f, err := strconv.ParseFloat(c.node.Value, 64)
	if (c.node.Tag != "!!int" && c.node.Tag != "!!float") || err != nil || math.IsNaN(f) || f < low || f > high {
		c.report(fmt.Sprintf("must be a number from %g to %g", low, high), "")
		return low
	}
	return f
}

// duration returns a duration.
func (c cursor) duration() Duration {
	if c.node.Kind != yaml.ScalarNode {
		c.report("is "+c.kind()+", but a duration is expected", "write it like 90s, 10m or 1d12h")
		return 0
	}
	d, err := ParseDuration(c.node.Value)
	if err != nil {
		c.report(err.Error(), "write it like 90s, 10m or 1d12h")
	}
	return d
}

// value returns the JSON value: numbers as json.Number with their digits, dates as text.
func (c cursor) value() any {
	switch c.node.Kind {
	case yaml.MappingNode:
		object := map[string]any{}
		for _, p := range c.pairs() {
			object[p.key] = p.value.value()
		}
		return object
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range c.list() {
			list = append(list, item.value())
		}
		return list
	case yaml.ScalarNode, yaml.DocumentNode, yaml.AliasNode:
	}
	switch c.node.Tag {
	case "!!str", "!!timestamp":
		return c.node.Value
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(c.node.Value, "true")
	case "!!int", "!!float":
		return c.numeric()
	default:
		c.report("the tag "+quote(c.node.Tag)+" is not supported", "")
		return nil
	}
}

// numeric returns a number in JSON's notation.
func (c cursor) numeric() any {
	s := c.node.Value
	if json.Valid([]byte(s)) {
		return json.Number(s)
	}
	digits := strings.TrimLeft(s, "+-")
	if len(digits) > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9' {
		c.report(s+" is an octal number for some programs and a decimal for others", "quote it, or write 0o"+digits[1:])
		return nil
	}
	if i, ok := new(big.Int).SetString(strings.TrimPrefix(s, "+"), 0); ok && c.node.Tag == "!!int" {
		return json.Number(i.String())
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		c.report(s+" has no form in JSON", "quote it to make it a text")
		return nil
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
}

// kind names the type of the value for messages.
func (c cursor) kind() string {
	switch c.node.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode, yaml.DocumentNode, yaml.AliasNode:
	}
	switch c.node.Tag {
	case "!!null":
		return "empty"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	default:
		return "a text"
	}
}

// quote quotes a string for a message; it shortens long strings and escapes control characters.
func quote(s string) string { return strconv.Quote(shorten(s)) }

// shorten truncates a string that is too long for a message.
func shorten(s string) string {
	const limit = 80
	if utf8.RuneCountInString(s) > limit {
		s = string([]rune(s)[:limit]) + "…"
	}
	return s
}

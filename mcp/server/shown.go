package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/events"
)

// This file formats results for models, in all profiles except ProfileAll. A result is text of limited size: one line of JSON with
// all short fields, followed by each long text under its name. Omitted data stays in the log; the line describes how to get it.

// maxResult is the most bytes of a result that a profile shows.
const maxResult = 16 << 10

// longText is the size in bytes from which a text is shown below the line of JSON. Texts of several lines are always there.
const longText = 400

// showsAll reports whether a client gets results as the tools return them, with structured content.
func (pr *presenter) showsAll(c client) bool {
	profile := pr.tools.profileOf(c)
	return profile == "" || profile == ProfileAll
}

// present formats a result for the client's profile. task is the task from which the client can get omitted data, empty for
// none.
func (pr *presenter) present(c client, task events.TaskID, tool string, r *mcp.CallToolResult) *mcp.CallToolResult {
	if r == nil || pr.showsAll(c) {
		return r
	}
	v := resultView{tool: tool, more: pr.moreOf(c, task)}
	data, _ := r.StructuredContent.(json.RawMessage)
	text, repeats := onlyText(r)
	switch {
	case len(data) > 0 && repeats && text == string(data):
		r.Content = []mcp.Content{&mcp.TextContent{Text: v.render(pr.belowRoot(c, data))}}
	case len(r.Content) == 0 && r.StructuredContent != nil:
		r.Content = []mcp.Content{&mcp.TextContent{Text: v.render(mustJSON(r.StructuredContent))}}
	default:
		pr.nameInHint(c, r)
		boundTexts(r.Content)
	}
	r.StructuredContent = nil
	return r
}

// belowRoot makes file paths in a result relative to the root, because the calls of a profile that has its own descriptions
// accept relative paths. Paths inside texts are unchanged.
func (pr *presenter) belowRoot(c client, data json.RawMessage) json.RawMessage {
	if profileTools(pr.tools.profileOf(c)) == nil {
		return data
	}
	root := bytes.Trim(plainJSON(pr.cfg.Root+"/"), `"`)
	for _, before := range []string{`"file":"`, `"file_path":"`, `"path":"`, `["`, `,"`} {
		data = bytes.ReplaceAll(data, append([]byte(before), root...), []byte(before))
	}
	return data
}

// nameInHint replaces the names of tools in the hint of an error by the names in the client's profile.
func (pr *presenter) nameInHint(c client, r *mcp.CallToolResult) {
	e, _ := r.Meta[metaError].(object)
	data, _ := e["data"].(object)
	hint, _ := data["hint"].(string)
	if hint == "" {
		return
	}
	renamed := hint
	for _, t := range profileTools(pr.tools.profileOf(c)) {
		renamed = regexp.MustCompile(`\b`+t.tool+`\b`).ReplaceAllString(renamed, t.name)
	}
	for _, block := range r.Content {
		if text, ok := block.(*mcp.TextContent); ok {
			text.Text = strings.ReplaceAll(text.Text, string(mustJSON(hint)), string(mustJSON(renamed)))
		}
	}
	data["hint"] = renamed
}

// onlyText returns the text of a result that consists of a single text.
func onlyText(r *mcp.CallToolResult) (string, bool) {
	if len(r.Content) != 1 {
		return "", false
	}
	t, ok := r.Content[0].(*mcp.TextContent)
	if !ok {
		return "", false
	}
	return t.Text, true
}

// boundTexts shortens the texts of a result without structured content.
func boundTexts(content []mcp.Content) {
	for _, block := range content {
		if t, ok := block.(*mcp.TextContent); ok {
			t.Text, _ = shortenText(t.Text, maxResult/len(content), true)
		}
	}
}

// moreOf returns a function that describes how the client gets the rest of a field of a task's result.
func (pr *presenter) moreOf(c client, task events.TaskID) func(field string, from int) string {
	if task == "" {
		return func(string, int) string { return "" }
	}
	name := cmp.Or(pr.tools.nameFor(c, toolResult), toolResult)
	return func(field string, from int) string {
		return fmt.Sprintf(`; %s {"task_id":"%s","field":"%s","offset":%d} has more`, name, task, field, from)
	}
}

// resultView renders one result.
type resultView struct {
	tool string
	// more describes how to get the rest of a field, from an offset on.
	more func(field string, from int) string
}

// shownField is one field of a result: JSON, or a text below the line.
type shownField struct {
	name string
	raw  json.RawMessage
	text string
	long bool
	// omitted describes the omitted data, "" if there is none.
	omitted string
}

func (f shownField) size() int {
	if f.long {
		return len(f.name) + len(f.text) + len(":\n\n")
	}
	return len(f.name) + len(f.raw) + len(`"":,`)
}

// render returns an object as text of at most maxResult bytes.
func (v resultView) render(object json.RawMessage) string {
	fields, err := fieldsInOrder(object)
	if err != nil { // not an object
		text, _ := shortenText(string(object), maxResult, false)
		return text
	}
	whole := textOf(fields)
	if len(whole) <= maxResult {
		return whole
	}
	for budget := maxResult - 256; budget > 1024; budget -= 512 { // the descriptions of omissions need space too
		if whole = textOf(v.fitFields(fields, budget)); len(whole) <= maxResult {
			return whole
		}
	}
	whole, _ = shortenText(whole, maxResult, false)
	return whole
}

// fitFields shortens the largest fields so that all fit into budget bytes.
func (v resultView) fitFields(fields []shownField, budget int) []shownField {
	limit := fairLimit(fields, budget)
	out := slices.Clone(fields)
	for i, f := range out {
		switch {
		case f.size() <= limit:
		case f.long:
			out[i] = v.shortenField(f, limit, fields)
		default:
			short, kept := shortenJSON(f.raw, limit-len(f.name))
			out[i].raw, out[i].omitted = short, kept+v.more(f.name, 0)
		}
	}
	return out
}

// shortenField shortens a text. Of the output of a program it keeps the beginning and the end, of other texts the beginning.
func (v resultView) shortenField(f shownField, limit int, all []shownField) shownField {
	short, next := shortenText(f.text, limit-len(f.name), slices.Contains([]string{"stdout", "stderr", "output"}, f.name))
	f.omitted = fmt.Sprintf("%d of %d bytes are not shown", len(f.text)-min(len(short), len(f.text)), len(f.text))
	if v.tool == "FILE_READ" {
		f.omitted = linesLeft(all, strings.Count(short, "\n"))
	} else {
		f.omitted += v.more(f.name, next)
	}
	f.text = short
	return f
}

// linesLeft describes from which line to continue reading a file.
func linesLeft(fields []shownField, lines int) string {
	number := map[string]int{}
	for _, f := range fields {
		var n int
		if json.Unmarshal(f.raw, &n) == nil {
			number[f.name] = n
		}
	}
	next := number["start_line"] + lines
	return fmt.Sprintf("ends before line %d of %d; read on with offset %d", next, number["total_lines"], next)
}

// textOf returns the line of JSON followed by the long texts.
func textOf(fields []shownField) string {
	var line, texts strings.Builder
	var notes []string
	line.WriteByte('{')
	for _, f := range fields {
		if f.omitted != "" {
			notes = append(notes, f.name+": "+f.omitted)
		}
		if f.long {
			texts.WriteString("\n" + f.name + ":\n" + f.text)
			continue
		}
		line.WriteString(string(mustJSON(f.name)) + ":" + string(f.raw) + ",")
	}
	if notes != nil {
		line.WriteString(`"left_out":` + string(plainJSON(notes)) + ",")
	}
	return strings.TrimSuffix(line.String(), ",") + "}" + texts.String()
}

// plainJSON encodes a value without the escapes for HTML.
func plainJSON(value any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(value)
	return bytes.TrimSpace(b.Bytes())
}

// fieldsInOrder returns the fields of an object in their order.
func fieldsInOrder(object json.RawMessage) ([]shownField, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, fmt.Errorf("no object: %w", err)
	}
	var fields []shownField
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		f := shownField{name: fmt.Sprint(name)}
		if err := d.Decode(&f.raw); err != nil {
			return nil, err
		}
		f.raw = oneLine(f.raw)
		if f.raw[0] == '"' && json.Unmarshal(f.raw, &f.text) == nil {
			f.long = len(f.text) >= longText || strings.Contains(f.text, "\n")
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// fairLimit returns the size to which the largest fields must be shortened so that all fit into budget bytes.
func fairLimit(fields []shownField, budget int) int {
	sizes := make([]int, len(fields))
	for i, f := range fields {
		sizes[i] = f.size()
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		if share := budget / (len(sizes) - i); size > share {
			return share
		}
		budget -= size
	}
	return budget
}

// shortenText shortens a text to about limit bytes, at a line break if one is near. It keeps the beginning, and with both also
// the end. next is the offset of the omitted part.
func shortenText(text string, limit int, both bool) (short string, next int) {
	limit = max(limit, 64)
	if len(text) <= limit {
		return text, len(text)
	}
	if !both {
		head := beginning(text, limit)
		return head, len(head)
	}
	const gap = 48
	head := beginning(text, (limit-gap)/3)
	tail := ending(text[len(head):], (limit-gap)*2/3)
	left := len(text) - len(head) - len(tail)
	return fmt.Sprintf("%s\n[… %d bytes are not shown …]\n%s", strings.TrimSuffix(head, "\n"), left, tail), len(head)
}

// beginning returns the first bytes of a text, at most limit.
func beginning(text string, limit int) string {
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	if line := strings.LastIndexByte(text[:limit], '\n'); line >= limit/2 {
		limit = line + 1
	}
	return text[:limit]
}

// ending returns the last bytes of a text, at most limit.
func ending(text string, limit int) string {
	from := max(len(text)-limit, 0)
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	if line := strings.IndexByte(text[from:], '\n'); line >= 0 && line < limit/2 {
		from += line + 1
	}
	return text[from:]
}

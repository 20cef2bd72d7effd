package server

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
)

// The SDK encodes an answer several times, and the buffers of encoding/json keep their largest size. So this file replaces each
// large part of an answer over HTTP by a short key before the SDK encodes the answer. The deferredWriter replaces the keys by
// the parts when it sends the answer.

// part is a large part of an answer. key is random, so that no data of a client or tool is mistaken for a key.
type part struct {
	key string
	// size is the approximate size in bytes.
	size int
	// open returns a reader of the part as JSON.
	open func() io.Reader
}

// part adds a part and returns its key.
func (res *reservation) part(size int, open func() io.Reader) string {
	key := "orch-part-" + rand.Text()
	res.memory.mu.Lock()
	defer res.memory.mu.Unlock()
	res.parts = append(res.parts, part{key, size, open})
	return key
}

// partsSize returns the total size of the parts.
func (res *reservation) partsSize() (size int) {
	res.memory.mu.Lock()
	defer res.memory.mu.Unlock()
	for _, p := range res.parts {
		size += p.size
	}
	return size
}

// dropParts removes all parts, because the answer will be made again.
func (res *reservation) dropParts() {
	res.memory.mu.Lock()
	defer res.memory.mu.Unlock()
	res.parts = nil
}

// valueKey replaces a large JSON value by a key.
func (res *reservation) valueKey(raw json.RawMessage) json.RawMessage {
	if res == nil || len(raw) < largeAnswer {
		return raw
	}
	return res.lineKey(oneLine(raw))
}

// lineKey is valueKey for JSON that oneLine has returned.
func (res *reservation) lineKey(line json.RawMessage) json.RawMessage {
	if res == nil || len(line) < largeAnswer {
		return line
	}
	return json.RawMessage(`"` + res.part(len(line), func() io.Reader { return bytes.NewReader(line) }) + `"`)
}

// textKey replaces a large text by a key.
func (res *reservation) textKey(text string) string {
	if res == nil || len(text) < largeAnswer {
		return text
	}
	text = strings.ToValidUTF8(text, "\ufffd")
	return res.part(len(text), func() io.Reader { return quote(strings.NewReader(text)) })
}

// extract replaces the large parts of a result by keys.
func (res *reservation) extract(result mcp.Result) mcp.Result {
	if res == nil {
		return result
	}
	switch r := result.(type) {
	case *mcp.CallToolResult:
		res.extractCall(r)
	case *mcp.ReadResourceResult:
		for _, c := range r.Contents {
			c.Text = res.textKey(c.Text)
		}
	}
	return result
}

// extractCall replaces the large parts of the result of a call. A text equal to the structured content shares its key.
func (res *reservation) extractCall(r *mcp.CallToolResult) {
	if res == nil {
		return
	}
	data, _ := r.StructuredContent.(json.RawMessage)
	replaced := res.valueKey(data)
	for _, c := range r.Content {
		t, ok := c.(*mcp.TextContent)
		switch {
		case !ok:
		case len(data) >= largeAnswer && t.Text == string(data) && !bytes.ContainsAny(data, "\r\n"):
			t.Text = string(replaced)
		default:
			t.Text = res.textKey(t.Text)
		}
	}
	if len(data) > 0 {
		r.StructuredContent = replaced
	}
}

// extractTask replaces the large parts of a task view.
func (res *reservation) extractTask(t *api.TaskView) {
	t.Output = res.valueKey(t.Output)
	for i := range t.Steps {
		t.Steps[i].Output = res.valueKey(t.Steps[i].Output)
	}
}

// oneLine returns a JSON value as one line of valid UTF-8, as server-sent events require.
func oneLine(raw json.RawMessage) []byte {
	if bytes.ContainsAny(raw, "\r\n") {
		var b bytes.Buffer
		if json.Compact(&b, raw) == nil {
			raw = b.Bytes()
		}
	}
	if !utf8.Valid(raw) {
		return bytes.ToValidUTF8(raw, []byte("\ufffd"))
	}
	return raw
}

// fill returns a reader of an encoded message with its keys replaced by their parts. It returns nil if the message contains no
// key. A part inside a string is escaped.
func (res *reservation) fill(message []byte) io.Reader {
	res.memory.mu.Lock()
	defer res.memory.mu.Unlock()
	var pieces []io.Reader
	for {
		before, p, inText, after := res.splitAtKey(message)
		if p == nil {
			break
		}
		value := p.open()
		if inText {
			value = &escaper{from: value}
		}
		pieces = append(pieces, bytes.NewReader(bytes.Clone(before)), value)
		message = after
	}
	if pieces == nil {
		return nil
	}
	return io.MultiReader(append(pieces, bytes.NewReader(bytes.Clone(message)))...)
}

// splitAtKey splits a message at its first key. inText is set if the key is inside a string. res.memory.mu must be held.
func (res *reservation) splitAtKey(message []byte) (before []byte, first *part, inText bool, after []byte) {
	at := len(message)
	for i, p := range res.parts {
		for _, quoted := range []string{`"` + p.key + `"`, `\"` + p.key + `\"`} {
			if found := bytes.Index(message, []byte(quoted)); found >= 0 && found < at {
				at, first, inText = found, &res.parts[i], quoted[0] == '\\'
				before, after = message[:found], message[found+len(quoted):]
			}
		}
	}
	return before, first, inText, after
}

// inline returns a JSON value with its parts inserted.
func (res *reservation) inline(raw json.RawMessage) json.RawMessage {
	if res == nil {
		return raw
	}
	filled := res.fill(raw)
	if filled == nil {
		return raw
	}
	var b bytes.Buffer
	b.Grow(res.partsSize() + len(raw) + bytes.MinRead)
	_, _ = b.ReadFrom(filled) // reads memory only
	return b.Bytes()
}

// quote returns a reader of a text as a JSON string.
func quote(text io.Reader) io.Reader {
	return io.MultiReader(strings.NewReader(`"`), &escaper{from: text}, strings.NewReader(`"`))
}

// escaper reads a text in the escaped form of a JSON string.
type escaper struct {
	from io.Reader
	// escaped is escaped text that Read has not yet returned.
	escaped []byte
	buffer  [4 << 10]byte
}

// Read implements io.Reader.
func (e *escaper) Read(p []byte) (int, error) {
	if len(e.escaped) == 0 {
		n, err := e.from.Read(e.buffer[:])
		if n == 0 {
			return 0, err
		}
		e.escaped = make([]byte, 0, n+n/8)
		for _, c := range e.buffer[:n] {
			e.escaped = appendEscaped(e.escaped, c)
		}
	}
	n := copy(p, e.escaped)
	e.escaped = e.escaped[n:]
	return n, nil
}

func appendEscaped(out []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch {
	case c == '"' || c == '\\':
		return append(out, '\\', c)
	case c == '\n':
		return append(out, '\\', 'n')
	case c == '\r':
		return append(out, '\\', 'r')
	case c == '\t':
		return append(out, '\\', 't')
	case c < ' ':
		return append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
	default:
		return append(out, c)
	}
}

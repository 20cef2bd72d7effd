package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/internal/unseen"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/tools"
)

// definition is what counts here of that which a server says about a tool.
type definition struct {
	Name         string               `json:"name"`
	Title        string               `json:"title,omitempty"`
	Description  string               `json:"description,omitempty"`
	InputSchema  any                  `json:"inputSchema"`
	OutputSchema any                  `json:"outputSchema,omitempty"`
	Annotations  *mcp.ToolAnnotations `json:"annotations,omitempty"`
}

// unpinned is the property of a tool that may be another one each time.
const unpinned = "_meta"

// pinnedPart returns the pinned part of what a server says about a tool, in canonical form: keys in order, no spaces. That is all
// of it but unpinned, so that nothing that a client may go by changes unseen: icons, the support of tasks, what is null.
func pinnedPart(t *registry.Tool) json.RawMessage {
	var tree map[string]any
	if err := decode(t.Said, &tree); err != nil {
		panic(err) // the registry has read it
	}
	delete(tree, unpinned)
	return encode(tree)
}

// pinnedPartV1 is define as records of the first version have it: without what was not pinned then.
func pinnedPartV1(t *registry.Tool) json.RawMessage {
	raw, err := json.Marshal(definition{t.Name, t.Title, t.Description, t.InputSchema, t.OutputSchema, t.Annotations})
	if err != nil {
		panic(err) // it came from JSON
	}
	var tree any
	if err := decode(raw, &tree); err != nil {
		panic(err)
	}
	return encode(tree)
}

// decode reads JSON whose numbers keep all their digits.
func decode(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(into)
}

// encode writes JSON with keys in order, and without the escapes that are for HTML.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // it came from JSON
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// digest is the SHA-256 of a definition, in hexadecimal; "" for none.
func digest(d json.RawMessage) string {
	if len(d) == 0 {
		return ""
	}
	sum := sha256.Sum256(d)
	return hex.EncodeToString(sum[:])
}

// pretty is a definition for people, one property a line, and the description line by line.
func pretty(d json.RawMessage) []byte {
	if len(d) == 0 {
		return nil
	}
	var b bytes.Buffer
	if json.Indent(&b, d, "", "  ") != nil {
		return d
	}
	return append(b.Bytes(), '\n')
}

// effectOf returns what a tool does to the world: what the operator says, else its hints; without hints it writes
// (S1-089).
func effectOf(hints *mcp.ToolAnnotations, configured tools.Effect) tools.Effect {
	switch {
	case configured != "":
		return configured
	case hints == nil:
		return tools.Write
	case hints.ReadOnlyHint:
		return tools.Read
	case hints.DestructiveHint != nil && *hints.DestructiveHint:
		return tools.Destructive
	case hints.IdempotentHint:
		return tools.Idempotent
	default:
		return tools.Write
	}
}

// The sizes in bytes to which texts of a server are cut.
const (
	maxTitle       = 200
	maxDescription = 4 << 10
)

// escape makes the text of a server safe to show: what is hidden becomes visible, and what is too long is cut.
func escape(text string, limit int) string {
	var b strings.Builder
	for r, hidden := range unseen.Runes(strings.ToValidUTF8(text, "\uFFFD")) {
		if hidden {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
		if b.Len() > limit {
			cut := b.String()[:limit]
			for !utf8.ValidString(cut) {
				cut = cut[:len(cut)-1]
			}
			return cut + "…"
		}
	}
	return b.String()
}

// suspicious says why a person should look at a definition before it is used at all; "" when nothing is.
func suspicious(d json.RawMessage) string {
	var tree any
	if decode(d, &tree) != nil {
		return "it is no JSON"
	}
	if hasHidden(tree) {
		return "it holds hidden characters"
	}
	return ""
}

func hasHidden(v any) bool {
	switch v := v.(type) {
	case string:
		return unseen.In(v)
	case []any:
		return slices.ContainsFunc(v, hasHidden)
	case map[string]any:
		for key, item := range v {
			if unseen.In(key) || hasHidden(item) {
				return true
			}
		}
	}
	return false
}

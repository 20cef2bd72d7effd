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

// definition contains those properties of a tool definition that this package uses.
type definition struct {
	Name         string               `json:"name"`
	Title        string               `json:"title,omitempty"`
	Description  string               `json:"description,omitempty"`
	InputSchema  any                  `json:"inputSchema"`
	OutputSchema any                  `json:"outputSchema,omitempty"`
	Annotations  *mcp.ToolAnnotations `json:"annotations,omitempty"`
}

// unpinned is the property of a tool definition that is not pinned, because a server may change it each time.
const unpinned = "_meta"

// pinnedPart returns the pinned part of a tool definition: all properties except unpinned, in canonical form (sorted keys, no
// spaces). A change of the pinned part must be accepted by a person. It includes properties that orch does not use, such as icons,
// because a client may use them.
func pinnedPart(t *registry.Tool) json.RawMessage {
	var tree map[string]any
	if err := decode(t.Raw, &tree); err != nil {
		panic(err) // the registry has parsed the definition
	}
	delete(tree, unpinned)
	return encode(tree)
}

// pinnedPartV1 is pinnedPart for records of the first version, in which fewer properties are pinned.
func pinnedPartV1(t *registry.Tool) json.RawMessage {
	raw, err := json.Marshal(definition{t.Name, t.Title, t.Description, t.InputSchema, t.OutputSchema, t.Annotations})
	if err != nil {
		panic(err) // the value was decoded from JSON
	}
	var tree any
	if err := decode(raw, &tree); err != nil {
		panic(err)
	}
	return encode(tree)
}

// decode decodes JSON; numbers keep all their digits.
func decode(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(into)
}

// encode encodes a value as JSON, with sorted keys and without HTML escapes.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // the value was decoded from JSON
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// digest returns the SHA-256 of a definition, in hexadecimal; "" for none.
func digest(d json.RawMessage) string {
	if len(d) == 0 {
		return ""
	}
	sum := sha256.Sum256(d)
	return hex.EncodeToString(sum[:])
}

// pretty formats a definition for people, with one property per line.
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

// effectOf returns the effect of a tool: the configured effect, otherwise the effect according to its hints. Without hints it is
// write (S1-089).
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

// The most bytes of texts of a server.
const (
	maxTitle       = 200
	maxDescription = 4 << 10
)

// escape makes a text of a server safe to show. It replaces hidden characters by \u escapes, and truncates the text to limit bytes.
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

// suspicious returns the reason why a person must accept a definition before its first use; "" if there is none.
func suspicious(d json.RawMessage) string {
	var tree any
	if decode(d, &tree) != nil {
		return "it is not JSON"
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

package registry

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// trait contains those properties of a tool that are needed to call it.
type trait struct {
	// task is set if calls of the tool may be tasks, in the older generation of the protocol.
	task bool
	// bindings are the arguments that are also sent as HTTP headers, in the newer generation of the protocol.
	bindings []binding
}

// binding is an argument that is also sent as a header.
type binding struct {
	path   []string
	header string
}

// property is the part of a schema that declares headers.
type property struct {
	Type       string              `json:"type"`
	Header     json.RawMessage     `json:"x-mcp-header"`
	Properties map[string]property `json:"properties"`
}

// traitOf returns the trait of a tool. reason is the reason why the tool cannot be used; "" if it can.
func traitOf(raw json.RawMessage) (t trait, reason string) {
	var tool struct {
		Execution struct {
			TaskSupport string `json:"taskSupport"`
		} `json:"execution"`
		InputSchema property `json:"inputSchema"`
	}
	if json.Unmarshal(raw, &tool) != nil {
		return trait{}, "" // other forms of schemas declare no headers
	}
	t.task = tool.Execution.TaskSupport == "optional" || tool.Execution.TaskSupport == "required"
	seen := map[string]bool{}
	if !findBindings(tool.InputSchema, nil, func(b binding) bool {
		name := strings.ToLower(b.header)
		fresh := !seen[name]
		seen[name] = true
		t.bindings = append(t.bindings, b)
		return fresh
	}) {
		return trait{}, "the headers of its arguments are not valid"
	}
	return t, ""
}

// findBindings calls found for each argument that is sent as a header. It returns false if a declaration is invalid, or found
// returns false.
func findBindings(in property, path []string, found func(binding) bool) bool {
	for name, p := range in.Properties {
		below := slices.Concat(path, []string{name})
		if p.Header != nil {
			var header string
			if json.Unmarshal(p.Header, &header) != nil || !slices.Contains([]string{"string", "integer", "boolean"}, p.Type) ||
				!regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$").MatchString(header) || !found(binding{below, header}) {
				return false
			}
		}
		if !findBindings(p, below, found) {
			return false
		}
	}
	return true
}

// headersOf returns the headers for the arguments of a call.
func (t trait) headersOf(args json.RawMessage) http.Header {
	h := http.Header{}
	for _, b := range t.bindings {
		if text, ok := scalar(args, b.path); ok {
			h.Set("Mcp-Param-"+b.header, headerText(text))
		}
	}
	return h
}

// scalar returns the argument at a path as text. It returns false if the argument is not a string, a boolean or a whole number.
func scalar(args json.RawMessage, path []string) (string, bool) {
	for _, name := range path {
		var in map[string]json.RawMessage
		if json.Unmarshal(args, &in) != nil {
			return "", false
		}
		args = in[name]
	}
	var value any
	if json.Unmarshal(args, &value) != nil {
		return "", false
	}
	const safe = 1<<53 - 1
	switch v := value.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		return strconv.FormatInt(int64(v), 10), v == math.Trunc(v) && math.Abs(v) <= safe
	default:
		return "", false
	}
}

// headerText encodes a text as the value of a header, in base64 if the text is not plain ASCII.
func headerText(text string) string {
	plain := text == strings.TrimSpace(text) && !strings.HasPrefix(text, "=?base64?")
	for _, c := range []byte(text) {
		plain = plain && c >= ' ' && c <= '~'
	}
	if plain {
		return text
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
}

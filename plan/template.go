package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// The delimiters of an expression within a string, and the escape of a literal opening delimiter.
const (
	opening = "${{"
	closing = "}}"
	escaped = "$" + opening
)

// segment is a part of a string: literal text, or the source of an expression.
type segment struct {
	text       string
	expression bool
}

// segments splits a string into literal parts and expressions.
func segments(s string) ([]segment, error) {
	var parts []segment
	var literal strings.Builder
	for s != "" {
		i := strings.Index(s, opening)
		if i < 0 {
			literal.WriteString(s)
			break
		}
		if i > 0 && s[i-1] == '$' {
			literal.WriteString(s[:i-1] + opening)
			s = s[i+len(opening):]
			continue
		}
		literal.WriteString(s[:i])
		end := expressionEnd(s[i+len(opening):])
		if end < 0 {
			return nil, fmt.Errorf("the %s is not closed by %s", opening, closing)
		}
		if literal.Len() > 0 {
			parts = append(parts, segment{text: literal.String()})
			literal.Reset()
		}
		parts = append(parts, segment{s[i+len(opening) : i+len(opening)+end], true})
		s = s[i+len(opening)+end+len(closing):]
	}
	if literal.Len() > 0 || len(parts) == 0 {
		parts = append(parts, segment{text: literal.String()})
	}
	return parts, nil
}

// expressionEnd returns the index of the `}}` that closes an expression. It skips strings and nested braces.
func expressionEnd(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\'' || c == '`':
			i = stringEnd(s, i)
		case c == '{':
			depth++
		case c == '}' && depth > 0:
			depth--
		case strings.HasPrefix(s[i:], closing):
			return i
		}
	}
	return -1
}

// stringEnd returns the index of the quote that closes the one at start.
func stringEnd(s string, start int) int {
	for i := start + 1; i < len(s); i++ {
		switch {
		case s[i] == s[start]:
			return i
		case s[i] == '\\' && s[start] != '`':
			i++
		}
	}
	return len(s)
}

// isExpression reports whether s consists of exactly one expression.
func isExpression(s string) bool {
	parts, err := segments(strings.TrimSpace(s))
	return err == nil && len(parts) == 1 && parts[0].expression
}

// stripDelimiters returns the source of an expression without `${{ }}`.
func stripDelimiters(s string) string {
	s = strings.TrimSpace(s)
	parts, err := segments(s)
	if err == nil && len(parts) == 1 && parts[0].expression {
		return strings.TrimSpace(parts[0].text)
	}
	return s
}

// escape returns a template that evaluates to s.
func escape(s string) string { return strings.ReplaceAll(s, opening, escaped) }

// template is a JSON value with compiled expressions.
type template interface {
	eval(env map[string]any) (any, error)
}

type (
	literal    struct{ value any }
	textParts  []template
	listParts  []template
	objectPart struct {
		key   string
		value template
	}
	objectParts []objectPart
)

func (l literal) eval(map[string]any) (any, error) { return l.value, nil }

func (t listParts) eval(env map[string]any) (any, error) {
	list := make([]any, len(t))
	for i, part := range t {
		v, err := part.eval(env)
		if err != nil {
			return nil, err
		}
		list[i] = v
	}
	return list, nil
}

func (t objectParts) eval(env map[string]any) (any, error) {
	object := make(map[string]any, len(t))
	for _, part := range t {
		v, err := part.value.eval(env)
		if err != nil {
			return nil, err
		}
		object[part.key] = v
	}
	return object, nil
}

func (t textParts) eval(env map[string]any) (any, error) {
	var b strings.Builder
	for _, part := range t {
		v, err := part.eval(env)
		if err != nil {
			return nil, err
		}
		s, err := toText(v)
		if err != nil {
			if e, ok := part.(*expression); ok {
				return nil, e.failed(err)
			}
			return nil, err
		}
		if b.WriteString(s); b.Len() > maxText {
			return nil, fault.Wrap(fault.ValidationError, errTooLong, errTooLong.Error()+" cannot be made of expressions")
		}
	}
	return b.String(), nil
}

// toText formats a value for interpolation into a string.
func toText(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case json.Number:
		return v.String(), nil
	case int:
		return strconv.Itoa(v), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case nil:
		return "", errors.New(`null cannot be part of a text; write x ?? ""`)
	default:
		return "", errors.New("a list or an object cannot be part of a text; write toJSON(x)")
	}
}

// template compiles a value; a value without expressions becomes a literal.
func (s *scope) template(v any, at location) template {
	switch v := v.(type) {
	case string:
		return s.text(v, at)
	case []any:
		return s.listTemplate(v, at)
	case map[string]any:
		return s.objectTemplate(v, at)
	default:
		return literal{v}
	}
}

func (s *scope) text(text string, at location) template {
	parts, err := segments(text)
	if err != nil {
		at.reportIn(opening, 0, err.Error(), "in YAML ` #` begins a comment: quote the text; `"+escaped+"` stands for a literal `"+opening+"`")
		return literal{text}
	}
	if len(parts) == 1 && !parts[0].expression {
		return literal{parts[0].text}
	}
	whole := strings.TrimSpace(text)
	if isExpression(whole) {
		if one, err := segments(whole); err == nil {
			return s.expression(one[0].text, at)
		}
	}
	compiled := make(textParts, len(parts))
	for i, part := range parts {
		compiled[i] = literal{part.text}
		if part.expression {
			compiled[i] = s.expression(part.text, at)
		}
	}
	return compiled
}

func (s *scope) listTemplate(values []any, at location) template {
	parts, fixed := make(listParts, len(values)), true
	plain := make([]any, len(values))
	for i, v := range values {
		parts[i] = s.template(v, at.item(i))
		if l, ok := parts[i].(literal); ok {
			plain[i] = l.value
		} else {
			fixed = false
		}
	}
	if fixed {
		return literal{plain}
	}
	return parts
}

func (s *scope) objectTemplate(values map[string]any, at location) template {
	parts, fixed := make(objectParts, 0, len(values)), true
	plain := make(map[string]any, len(values))
	for _, key := range sortedKeys(values) {
		part := objectPart{key, s.template(values[key], at.field(key))}
		if l, ok := part.value.(literal); ok {
			plain[key] = l.value
		} else {
			fixed = false
		}
		parts = append(parts, part)
	}
	if fixed {
		return literal{plain}
	}
	return parts
}

func sortedKeys[V any](m map[string]V) []string {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}

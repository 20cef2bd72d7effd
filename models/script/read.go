package script

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/orch-dev/orch/models"
)

// The limits of a script.
const (
	maxScript = 1 << 20
	maxTurns  = 1000
	maxCalls  = 128
	maxDelay  = time.Hour
	maxDepth  = 64
)

// New reads a script. An error names the line and the field.
func New(r io.Reader) (*Provider, error) {
	src, err := io.ReadAll(io.LimitReader(r, maxScript+1))
	if err != nil {
		return nil, err
	}
	if len(src) > maxScript {
		return nil, fmt.Errorf("the script has more than %d bytes", maxScript)
	}
	root, err := parse(src)
	if err != nil {
		return nil, err
	}
	p := &Provider{}
	err = root.object(map[string]func(field) error{"turns": func(f field) error {
		return f.list(maxTurns, func(f field) error {
			t, err := f.turn()
			p.turns = append(p.turns, t)
			return err
		})
	}})
	if err == nil && len(p.turns) == 0 {
		return nil, root.fault("the script needs turns")
	}
	return p, err
}

// parse returns the document of a script.
func parse(src []byte) (field, error) {
	var document, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(src))
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return field{}, errors.New("the script is empty: it needs the field turns")
	case err != nil:
		return field{}, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return field{}, errors.New("the script has a second document")
	}
	return field{"", document.Content[0]}, nil
}

// field is a field of a script.
type field struct {
	path string
	node *yaml.Node
}

// fault returns an error that names the line and the field.
func (f field) fault(format string, args ...any) error {
	reason := fmt.Sprintf(format, args...)
	if f.path == "" {
		return fmt.Errorf("line %d: %s", f.node.Line, reason)
	}
	return fmt.Errorf("line %d: %s: %s", f.node.Line, f.path, reason)
}

// object reads the fields of an object.
func (f field) object(read map[string]func(field) error) error {
	if f.node.Kind != yaml.MappingNode {
		return f.fault("must be an object with the fields %s", strings.Join(slices.Sorted(maps.Keys(read)), ", "))
	}
	seen := map[string]bool{}
	for i := 0; i < len(f.node.Content); i += 2 {
		key := f.node.Content[i]
		child := field{strings.TrimPrefix(f.path+"."+key.Value, "."), f.node.Content[i+1]}
		known := read[key.Value]
		switch {
		case known == nil:
			return field{f.path, key}.fault("has no field %q; the fields are %s", key.Value, strings.Join(slices.Sorted(maps.Keys(read)), ", "))
		case seen[key.Value]:
			return field{f.path, key}.fault("has the field %q twice", key.Value)
		}
		seen[key.Value] = true
		if err := known(child); err != nil {
			return err
		}
	}
	return nil
}

// list reads the elements of a list.
func (f field) list(limit int, read func(field) error) error {
	if f.node.Kind != yaml.SequenceNode {
		return f.fault("must be a list")
	}
	if len(f.node.Content) > limit {
		return f.fault("has more than %d elements", limit)
	}
	for i, node := range f.node.Content {
		if err := read(field{fmt.Sprintf("%s[%d]", f.path, i), node}); err != nil {
			return err
		}
	}
	return nil
}

// turn reads a turn.
func (f field) turn() (turn, error) {
	t := turn{line: f.node.Line}
	err := f.object(map[string]func(field) error{
		"expect": func(f field) error { return f.expect(&t) },
		"text":   func(f field) error { return f.text(&t.text) },
		"calls": func(f field) error {
			return f.list(maxCalls, func(f field) error {
				call, err := f.call()
				t.calls = append(t.calls, call)
				return err
			})
		},
		"usage": func(f field) error { return f.usage(&t) },
		"stop": func(f field) (err error) {
			t.stop, err = oneOf(f, models.StopEnd, models.StopCalls, models.StopLength, models.StopRefused, models.StopOther)
			return err
		},
		"error": func(f field) error { return f.error(&t) },
		"delay": func(f field) error { return f.duration(&t.delay, maxDelay) },
	})
	if err != nil {
		return t, err
	}
	return f.complete(t)
}

// complete checks a turn as a whole, and sets what it leaves out.
func (f field) complete(t turn) (turn, error) {
	answers := t.text != "" || len(t.calls) > 0 || t.usage != nil || t.stop != ""
	switch {
	case t.err != nil && answers:
		return t, f.fault("a turn with an error has no text, calls, usage or stop")
	case t.err == nil && t.text == "" && len(t.calls) == 0 && t.stop == "":
		return t, f.fault("needs text, calls, stop or error")
	case t.stop == models.StopCalls && len(t.calls) == 0:
		return t, f.fault("stop is calls, but there are none")
	case t.stop == "" && len(t.calls) > 0:
		t.stop = models.StopCalls
	case t.stop == "":
		t.stop = models.StopEnd
	}
	return t, nil
}

// expect reads a text, or a regular expression between slashes.
func (f field) expect(t *turn) error {
	if err := f.text(&t.expect); err != nil {
		return err
	}
	inner, begins := strings.CutPrefix(t.expect, "/")
	inner, ends := strings.CutSuffix(inner, "/")
	if !begins || !ends {
		return nil
	}
	match, err := regexp.Compile(inner)
	if err != nil {
		return f.fault("%v", err)
	}
	t.match = match
	return nil
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// call reads a call.
func (f field) call() (models.Call, error) {
	var c models.Call
	err := f.object(map[string]func(field) error{
		"id":   func(f field) error { return f.text(&c.ID) },
		"tool": func(f field) error { return f.text(&c.Name) },
		"args": func(f field) error { return f.args(&c.Args) },
	})
	if err == nil && !toolName.MatchString(c.Name) {
		return c, f.fault("needs tool, the name of a tool with 1 to 64 letters, digits, _ and -")
	}
	return c, err
}

// args reads the arguments of a call.
func (f field) args(args *string) error {
	switch {
	case f.node.Kind == yaml.ScalarNode && f.node.Tag == "!!str":
		*args = f.node.Value
		return nil
	case f.node.Kind != yaml.MappingNode:
		return f.fault("must be an object, or a string")
	}
	value, err := f.value(0)
	if err != nil {
		return err
	}
	text, err := json.Marshal(value)
	*args = string(text)
	return err
}

// value returns a value of JSON. Aliases are refused, so that a script is as large as it looks.
func (f field) value(depth int) (any, error) {
	switch {
	case depth > maxDepth:
		return nil, f.fault("is nested more than %d times", maxDepth)
	case f.node.Kind == yaml.MappingNode:
		return f.mapping(depth)
	case f.node.Kind == yaml.SequenceNode:
		list := []any{}
		err := f.list(math.MaxInt, func(f field) error {
			element, err := f.value(depth + 1)
			list = append(list, element)
			return err
		})
		return list, err
	case f.node.Kind == yaml.AliasNode:
		return nil, f.fault("must not be an alias")
	}
	return f.scalar()
}

// mapping returns an object of JSON.
func (f field) mapping(depth int) (any, error) {
	object := map[string]any{}
	for i := 0; i < len(f.node.Content); i += 2 {
		key := f.node.Content[i].Value
		if _, twice := object[key]; twice {
			return nil, field{f.path, f.node.Content[i]}.fault("has the field %q twice", key)
		}
		element, err := field{f.path + "." + key, f.node.Content[i+1]}.value(depth + 1)
		if err != nil {
			return nil, err
		}
		object[key] = element
	}
	return object, nil
}

// scalar returns a text, a number, a boolean or null of JSON. What else YAML knows, such as dates, is a text.
func (f field) scalar() (any, error) {
	var value any
	if err := f.node.Decode(&value); err != nil {
		return nil, f.fault("is no value of JSON")
	}
	switch v := value.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, f.fault("is no number of JSON")
		}
	case nil, bool, int, int64, uint64, string:
	default:
		return f.node.Value, nil
	}
	return value, nil
}

// usage reads counts of tokens.
func (f field) usage(t *turn) error {
	t.usage = &models.Usage{}
	return f.object(map[string]func(field) error{
		"input":       func(f field) error { return f.count(&t.usage.Input) },
		"cache_read":  func(f field) error { return f.count(&t.usage.CacheRead) },
		"cache_write": func(f field) error { return f.count(&t.usage.CacheWrite) },
		"output":      func(f field) error { return f.count(&t.usage.Output) },
	})
}

// error reads an error.
func (f field) error(t *turn) error {
	t.err = &models.Error{}
	err := f.object(map[string]func(field) error{
		"kind": func(f field) (err error) {
			t.err.Kind, err = oneOf(f, models.RateLimited, models.Overloaded, models.Unreachable, models.Transport, models.Unauthorized, models.TooLong, models.TooLarge, models.Invalid)
			return err
		},
		"after":   func(f field) error { return f.duration(&t.err.After, maxDelay) },
		"message": func(f field) error { return f.text(&t.err.Message) },
	})
	switch {
	case err != nil:
		return err
	case t.err.Kind == "":
		return f.fault("needs kind")
	case t.err.Message == "":
		t.err.Message = "the script says " + string(t.err.Kind)
	}
	return nil
}

func (f field) text(s *string) error {
	if f.node.Kind != yaml.ScalarNode || f.node.Tag == "!!null" {
		return f.fault("must be a text")
	}
	*s = f.node.Value
	return nil
}

func (f field) count(n *int64) error {
	value, err := strconv.ParseInt(f.node.Value, 10, 64)
	if f.node.Kind != yaml.ScalarNode || err != nil || value < 0 {
		return f.fault("must be a number of tokens, 0 or more")
	}
	*n = value
	return nil
}

func (f field) duration(d *time.Duration, limit time.Duration) error {
	value, err := time.ParseDuration(f.node.Value)
	if f.node.Kind != yaml.ScalarNode || err != nil || value < 0 || value > limit {
		return f.fault("must be a duration such as 200ms, from 0 to %s", limit)
	}
	*d = value
	return nil
}

// oneOf reads one of the words.
func oneOf[T ~string](f field, words ...T) (T, error) {
	if f.node.Kind == yaml.ScalarNode && slices.Contains(words, T(f.node.Value)) {
		return T(f.node.Value), nil
	}
	names := make([]string, len(words))
	for i, word := range words {
		names[i] = string(word)
	}
	return "", f.fault("must be one of %s", strings.Join(names, ", "))
}

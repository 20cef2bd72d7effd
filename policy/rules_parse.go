package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"go.yaml.in/yaml/v3"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/spell"
	"github.com/orch-dev/orch/tools"
)

// Bounds of a policy file.
const (
	// MaxRulesFile is its size in bytes.
	MaxRulesFile = 256 << 10

	maxRules    = 500
	maxPatterns = 100 // of one list
	maxExamples = 50  // of one list
	maxPattern  = 512 // bytes of a pattern, a name or a reason
)

// ParseRules parses a policy file. name is used in messages. Errors are INVALID_FORMAT or VALIDATION_ERROR with the
// position file:line:col. The examples are not tested here: see CheckExamples.
func ParseRules(name string, src []byte) (*Rules, error) {
	p := rulesParser{name}
	if len(src) > MaxRulesFile {
		return nil, fault.New(fault.ValidationError, "the policy file has more than %d bytes", MaxRulesFile).WithField(name)
	}
	root, err := p.document(src)
	if err != nil {
		return nil, err
	}
	r := &Rules{File: name, Default: RuleAllow, Text: string(src)}
	err = p.fields(root, []string{"version", "default", "rules"}, func(key string, v *yaml.Node) error {
		switch key {
		case "version":
			if v.Kind != yaml.ScalarNode || v.Tag != "!!int" || v.Value != "1" {
				return p.wrong(v, "the only version is 1")
			}
			return nil
		case "default":
			return p.action(v, &r.Default)
		default:
			return p.rules(v, r)
		}
	})
	if err != nil {
		return nil, err
	}
	if !has(root, "version") {
		return nil, p.wrong(root, "the version is missing").WithHint("begin with version: 1")
	}
	return r, nil
}

// rulesParser parses a policy file. name is the file name in error positions.
type rulesParser struct{ name string }

func (p rulesParser) at(n *yaml.Node) string {
	return fmt.Sprintf("%s:%d:%d", p.name, n.Line, n.Column)
}

func (p rulesParser) wrong(n *yaml.Node, format string, args ...any) *fault.Error {
	return fault.New(fault.ValidationError, format, args...).WithField(p.at(n))
}

// document returns the only document of the file.
func (p rulesParser) document(src []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(src))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, fault.New(fault.ValidationError, "the policy file is empty").WithField(p.name + ":1:1").WithHint("begin with version: 1")
	} else if err != nil {
		return nil, p.syntax(err)
	}
	if err := dec.Decode(&more); err == nil {
		return nil, p.wrong(&more, "the file holds more than one document")
	} else if !errors.Is(err, io.EOF) {
		return nil, p.syntax(err)
	}
	if err := p.rejectAliases(&doc); err != nil {
		return nil, err
	}
	return doc.Content[0], nil
}

// syntax converts an error of the YAML parser, which contains only a line, to an error with a position.
func (p rulesParser) syntax(err error) error {
	message, line := strings.TrimPrefix(err.Error(), "yaml: "), "1"
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(message); m != nil {
		line, message = m[1], strings.TrimPrefix(message, m[0])
	}
	return fault.New(fault.InvalidFormat, "%s", message).WithField(p.name + ":" + line + ":1").
		WithHint("quote patterns that begin with a star: \"*.pem\"")
}

// rejectAliases rejects anchors and aliases, so that each rule is readable without the rest of the file.
func (p rulesParser) rejectAliases(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return p.wrong(n, "anchors and aliases are not allowed").WithHint("quote patterns that begin with a star: \"*.pem\"")
	}
	for _, inner := range n.Content {
		if err := p.rejectAliases(inner); err != nil {
			return err
		}
	}
	return nil
}

// fields calls set with each value of a mapping. It rejects unknown and duplicate keys.
func (p rulesParser) fields(n *yaml.Node, known []string, set func(key string, v *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return p.wrong(n, "this must hold keys and values").WithHint("the keys are %s", strings.Join(known, ", "))
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case !slices.Contains(known, key.Value):
			err := p.wrong(key, "there is no key %q here", key.Value)
			if hint := spell.Hint(key.Value, known); hint != "" {
				return err.WithHint("%s", hint)
			}
			return err.WithHint("the keys are %s", strings.Join(known, ", "))
		case seen[key.Value]:
			return p.wrong(key, "the key %s occurs twice", key.Value)
		}
		seen[key.Value] = true
		if err := set(key.Value, value); err != nil {
			return err
		}
	}
	return nil
}

func has(n *yaml.Node, key string) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return true
		}
	}
	return false
}

// list calls add with each item of a list. It rejects an empty list and a list of more than limit items.
func (p rulesParser) list(n *yaml.Node, limit int, add func(item *yaml.Node) error) error {
	switch {
	case n.Kind != yaml.SequenceNode:
		return p.wrong(n, "this must be a list")
	case len(n.Content) == 0:
		return p.wrong(n, "the list is empty").WithHint("leave the key out")
	case len(n.Content) > limit:
		return p.wrong(n, "the list has more than %d items", limit)
	}
	for _, item := range n.Content {
		if err := add(item); err != nil {
			return err
		}
	}
	return nil
}

func (p rulesParser) text(n *yaml.Node, to *string) error {
	switch {
	case n.Kind != yaml.ScalarNode || n.Tag != "!!str":
		return p.wrong(n, "this must be text").WithHint("put it in quotes")
	case n.Value == "" || n.Value != strings.TrimSpace(n.Value):
		return p.wrong(n, "the text is empty, or begins or ends with a space")
	case len(n.Value) > maxPattern:
		return p.wrong(n, "the text has more than %d bytes", maxPattern)
	case strings.ContainsFunc(n.Value, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return p.wrong(n, "the text holds a control character")
	}
	*to = n.Value
	return nil
}

func (p rulesParser) choice(n *yaml.Node, to *string, known ...string) error {
	if err := p.text(n, to); err != nil || slices.Contains(known, *to) {
		return err
	}
	err := p.wrong(n, "%q is none of %s", *to, strings.Join(known, ", "))
	if hint := spell.Hint(*to, known); hint != "" {
		return err.WithHint("%s", hint)
	}
	return err
}

func (p rulesParser) action(n *yaml.Node, to *Action) error {
	return p.choice(n, (*string)(to), string(RuleAllow), string(RuleAsk), string(RuleDeny))
}

func (p rulesParser) rules(n *yaml.Node, r *Rules) error {
	names := map[string]bool{defaultRule: true}
	return p.list(n, maxRules, func(item *yaml.Node) error {
		rule, err := p.rule(item)
		if err != nil {
			return err
		}
		if names[rule.Name] {
			return p.wrong(item, "the name %s is taken", rule.Name)
		}
		names[rule.Name] = true
		r.List = append(r.List, rule)
		return nil
	})
}

// criteria returns the keys of the criteria of a rule. A rule needs at least one of them.
func criteria() []string {
	return []string{"tools", "effects", "paths", "hosts", "commands", "agents", "recipients"}
}

func (p rulesParser) rule(n *yaml.Node) (Rule, error) {
	r := Rule{Line: n.Line}
	known := append([]string{"name", "action", "reason", "examples"}, criteria()...)
	if err := p.fields(n, known, func(key string, v *yaml.Node) error { return p.field(&r, key, v) }); err != nil {
		return Rule{}, err
	}
	for _, key := range []string{"name", "action"} {
		if !has(n, key) {
			return Rule{}, p.wrong(n, "the rule has no %s", key)
		}
	}
	if !slices.ContainsFunc(criteria(), func(key string) bool { return has(n, key) }) {
		return Rule{}, p.wrong(n, "the rule %s has no criterion", r.Name).
			WithHint("give one of %s, or use default", strings.Join(criteria(), ", "))
	}
	return r, nil
}

func (p rulesParser) field(r *Rule, key string, v *yaml.Node) error {
	switch key {
	case "name":
		return p.ruleName(v, &r.Name)
	case "action":
		return p.action(v, &r.Action)
	case "reason":
		return p.text(v, &r.Reason)
	case "effects":
		return p.list(v, maxPatterns, func(item *yaml.Node) error {
			var effect string
			err := p.choice(item, &effect, string(tools.Read), string(tools.Idempotent), string(tools.Write), string(tools.Destructive))
			r.Effects = append(r.Effects, tools.Effect(effect))
			return err
		})
	case "examples":
		return p.examples(r, v)
	case "tools":
		return p.patterns(v, &r.Tools, wordFlaw)
	case "agents":
		return p.patterns(v, &r.Agents, wordFlaw)
	case "paths":
		return p.patterns(v, &r.Paths, pathFlaw)
	case "hosts":
		return p.patterns(v, &r.Hosts, hostFlaw)
	case "recipients":
		return p.patterns(v, &r.Recipients, recipientFlaw)
	default:
		return p.patterns(v, &r.Commands, commandFlaw)
	}
}

// ruleName parses the name of a rule, which appears in errors and approvals.
func (p rulesParser) ruleName(n *yaml.Node, to *string) error {
	if err := p.text(n, to); err != nil {
		return err
	}
	if !regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`).MatchString(*to) {
		return p.wrong(n, "%q is not a valid name of a rule", *to).WithHint("use up to 64 of the characters a-z 0-9 _ -")
	}
	return nil
}

// patterns parses a list of patterns. flaw returns why a pattern can never match, or "".
func (p rulesParser) patterns(n *yaml.Node, to *[]string, flaw func(string) string) error {
	return p.list(n, maxPatterns, func(item *yaml.Node) error {
		var pattern string
		if err := p.text(item, &pattern); err != nil {
			return err
		}
		if why := flaw(pattern); why != "" {
			return p.wrong(item, "%q never matches: %s", pattern, why)
		}
		*to = append(*to, pattern)
		return nil
	})
}

// The functions whose names end in Flaw return why a pattern can never match, or "".

func wordFlaw(pattern string) string {
	if strings.Contains(pattern, " ") {
		return "it holds a space"
	}
	return ""
}

func pathFlaw(pattern string) string {
	switch {
	case !doublestar.ValidatePattern(pattern):
		return "it is not a glob pattern"
	case strings.HasSuffix(pattern, "/"):
		return "it ends with a slash; leave it out"
	case strings.HasPrefix(pattern, "~"):
		return "~ is not expanded; give the path from the root on, or an absolute one"
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(pattern, "/"), "/") {
		if part == "" || part == "." || part == ".." {
			return "a real path has no empty part, no . and no .."
		}
	}
	return ""
}

func hostFlaw(pattern string) string {
	host, port := splitHost(pattern)
	switch {
	case strings.ContainsAny(pattern, "/@ ?#"):
		return "it is not a host; leave out the scheme, the user and the path"
	case strings.ContainsFunc(pattern, func(r rune) bool { return r > 0x7e }):
		return "names are compared in ASCII; write it as xn--…"
	case strings.Trim(port, "0123456789") != "":
		return "the port is not a number"
	case regexp.MustCompile(`^\*[^.-]`).MatchString(host):
		return "write *.example.com for all hosts below example.com, and example.com for itself"
	case host == "" || strings.Contains(host, "..") || strings.HasPrefix(host, "."):
		return "it has an empty part"
	}
	return ""
}

func commandFlaw(pattern string) string {
	switch {
	case strings.Contains(pattern, "  "):
		return "words are joined by one space"
	case regexp.MustCompile(`(^| )(&&|\|\|?|;|&)( |$)`).MatchString(pattern):
		return "each simple command is matched by itself"
	}
	return ""
}

// examples parses the examples of a rule.
func (p rulesParser) examples(r *Rule, n *yaml.Node) error {
	return p.fields(n, []string{"match", "no_match"}, func(key string, v *yaml.Node) error {
		to := &r.Match
		if key == "no_match" {
			to = &r.NoMatch
		}
		return p.list(v, maxExamples, func(item *yaml.Node) error {
			e := Example{At: p.at(item)}
			err := p.fields(item, []string{"tool", "args", "agent"}, func(key string, v *yaml.Node) error { return p.example(&e, key, v) })
			if err == nil && e.Tool == "" {
				err = p.wrong(item, "the example has no tool")
			}
			*to = append(*to, e)
			return err
		})
	})
}

func (p rulesParser) example(e *Example, key string, v *yaml.Node) error {
	switch key {
	case "tool":
		return p.text(v, &e.Tool)
	case "agent":
		return p.text(v, &e.Agent)
	}
	var args map[string]any
	if v.Kind != yaml.MappingNode {
		return p.wrong(v, "the arguments must be keys and values")
	}
	if err := v.Decode(&args); err != nil {
		return p.wrong(v, "these are not valid arguments: %s", err)
	}
	var raw bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false) // people compare the arguments with the file: && must stay &&
	if err := encoder.Encode(args); err != nil {
		return p.wrong(v, "the arguments are not valid JSON: %s", err)
	}
	e.Args = bytes.TrimSpace(raw.Bytes())
	return nil
}

package config

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The limits of the fields of a provider. All of them together have a number of bytes as JSON.
const (
	maxFields     = 32
	maxFieldBytes = 16 << 10
)

// modelFields converts the fields of a provider to JSON.
func (p place) modelFields(provider string, g givenProvider) (map[string]json.RawMessage, error) {
	if len(g.Fields) > maxFields {
		return nil, p.invalid("the provider %s has more than %d fields", provider, maxFields)
	}
	var fields map[string]json.RawMessage
	size := 0
	for name, node := range g.Fields {
		if !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`).MatchString(name) {
			return nil, p.invalid("%q is no name of a field of the provider %s: use letters, digits, _, . and -, at most 64", name, provider)
		}
		value, problem := jsonOf(&node)
		if problem != "" {
			return nil, p.invalid("the field %s of the provider %s %s", name, provider, problem)
		}
		if own := ownField(g.Wire, name, value); own != "" {
			return nil, p.invalid("the field %s of the provider %s is set by orch itself", own, provider).
				WithHint("the conversation, the tools and the limits of tokens come from the agent")
		}
		if size += len(name) + len(value); size > maxFieldBytes {
			return nil, p.invalid("the fields of the provider %s have more than %d bytes", provider, maxFieldBytes)
		}
		if fields == nil {
			fields = map[string]json.RawMessage{}
		}
		fields[name] = value
	}
	return fields, nil
}

// jsonOf returns a YAML node as JSON, and what is wrong if it has no such form.
func jsonOf(n *yaml.Node) (json.RawMessage, string) {
	datesAsText(n)
	var value any
	if err := n.Decode(&value); err != nil {
		return nil, "cannot be read: " + strings.TrimPrefix(err.Error(), "yaml: ")
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, "has no form in JSON"
	}
	return text, ""
}

// datesAsText makes dates, which JSON does not have, texts as they are written.
func datesAsText(n *yaml.Node) {
	if n.ShortTag() == "!!timestamp" {
		n.Tag = "!!str"
	}
	for _, child := range n.Content {
		datesAsText(child)
	}
}

// ownField returns the part of a field that the protocol of a provider determines, or "". Names are compared as tolerant servers
// do: without regard to case and underscores.
func ownField(wire, name string, value json.RawMessage) string {
	if slices.Contains(ownFields(wire), plainName(name)) {
		return name
	}
	if wire != "gemini" || plainName(name) != "generationconfig" {
		return ""
	}
	var inner map[string]json.RawMessage
	if json.Unmarshal(value, &inner) != nil {
		return name
	}
	for part := range inner {
		if slices.Contains([]string{"maxoutputtokens", "candidatecount"}, plainName(part)) {
			return name + "." + part
		}
	}
	return ""
}

// ownFields returns the fields of a protocol that make the conversation, its form and its limits. With them the settings would
// break agents or their budgets.
func ownFields(wire string) []string {
	return map[string][]string{
		"openai":    {"model", "messages", "tools", "functions", "stream", "streamoptions", "maxtokens", "maxcompletiontokens", "n"},
		"anthropic": {"model", "messages", "system", "tools", "mcpservers", "stream", "maxtokens"},
		"gemini":    {"model", "contents", "systeminstruction", "tools"},
	}[wire]
}

func plainName(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

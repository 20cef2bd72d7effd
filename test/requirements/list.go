// Package requirements parses the list of orch's requirements and finds the tests that mention them.
package requirements

import (
	"bytes"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ListFile is the path of the list, relative to the root of the module.
const ListFile = "docs/requirements.yaml"

// Rule is one requirement.
type Rule struct {
	ID, Text string
}

// Group is a section of the list.
type Group struct {
	Title string
	Rules []Rule
}

// List is the list of rules in file order.
type List []Group

// Load reads the list below root.
func Load(root fs.FS) (List, error) {
	data, err := fs.ReadFile(root, ListFile)
	if err != nil {
		return nil, err
	}
	var file struct {
		Groups []struct {
			Title string    `yaml:"title"`
			Rules yaml.Node `yaml:"rules"`
		} `yaml:"groups"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		return nil, fmt.Errorf("%s: %w", ListFile, err)
	}
	var list List
	for _, g := range file.Groups {
		group := Group{Title: g.Title}
		for pair := range slices.Chunk(g.Rules.Content, 2) {
			group.Rules = append(group.Rules, Rule{ID: pair[0].Value, Text: pair[1].Value})
		}
		list = append(list, group)
	}
	return list, nil
}

// IDs returns the ids of all rules in list order.
func (l List) IDs() []string {
	var ids []string
	for _, group := range l {
		for _, rule := range group.Rules {
			ids = append(ids, rule.ID)
		}
	}
	return ids
}

// idFormat matches a valid id. All ids of a kind have the same length, so that they can be sorted as strings.
var idFormat = regexp.MustCompile(`^(S[0-4]-\d{3}|[XA]-\d{2}|[TMO]-\d)$`)

// Check returns the errors in the list: malformed, unsorted and duplicate ids, and rules that are not sentences.
func (l List) Check() []string {
	var findings []string
	found := func(id, what string) { findings = append(findings, fmt.Sprintf("%s: %s %s", ListFile, id, what)) }
	seen := map[string]bool{}
	for _, group := range l {
		for i, rule := range group.Rules {
			if !idFormat.MatchString(rule.ID) {
				found(rule.ID, "is no id of a known kind")
			}
			if seen[rule.ID] {
				found(rule.ID, "is there twice")
			}
			if i > 0 && kind(rule.ID) == kind(group.Rules[i-1].ID) && rule.ID < group.Rules[i-1].ID {
				found(rule.ID, "stands behind "+group.Rules[i-1].ID)
			}
			if !strings.HasSuffix(rule.Text, ".") || strings.Contains(rule.Text, "\n") {
				found(rule.ID, "has no sentence")
			}
			seen[rule.ID] = true
		}
	}
	return findings
}

// kind returns the kind of an id: the part before its number, such as S0.
func kind(id string) string {
	before, _, _ := strings.Cut(id, "-")
	return before
}

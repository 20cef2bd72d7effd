// Command update writes providers.json of package secrets from the rules of gitleaks. The script scripts/secret-rules
// fetches these rules and calls it.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

func main() {
	version := flag.String("version", "", "the `version` of gitleaks that the rules are from")
	out := flag.String("out", "classify/secrets/providers.json", "the `file` to write")
	flag.Parse()
	if err := update(flag.Arg(0), *version, *out); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "update:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

// source is the part of a gitleaks configuration that is imported.
type source struct {
	Rules []sourceRule `toml:"rules"`
}

type sourceRule struct {
	ID         string
	Regex      string
	Path       string
	Entropy    float64
	Keywords   []string
	Allowlists []struct {
		Regexes     []string
		RegexTarget string `toml:"regexTarget"`
	}
}

// Rule is a rule in the format of package secrets.
type Rule struct {
	ID       string   `json:"id"`
	Keywords []string `json:"keywords"`
	Fold     bool     `json:"fold,omitempty"`
	Name     string   `json:"name,omitempty"`
	Value    string   `json:"value,omitempty"`
	Regex    string   `json:"regex,omitempty"`
	Ends     bool     `json:"ends,omitempty"`
	Entropy  float64  `json:"entropy,omitempty"`
	Allow    []string `json:"allow,omitempty"`
}

// document is the content of providers.json.
type document struct {
	Source  string `json:"source"`
	License string `json:"license"`
	Rules   []Rule `json:"rules"`
}

func update(from, version, out string) error {
	if from == "" || version == "" {
		return errors.New("usage: update -version VERSION gitleaks.toml")
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var config source
	if err := toml.Unmarshal(text, &config); err != nil {
		return err
	}
	doc := document{
		Source:  "config/gitleaks.toml of github.com/gitleaks/gitleaks " + version + ", rewritten by classify/secrets/update",
		License: "MIT, Copyright (c) 2019 Zachary Rice; see LICENSE.gitleaks",
	}
	for _, r := range config.Rules {
		if !wanted(r) {
			continue
		}
		rules, err := rewrite(r)
		if err != nil {
			return fmt.Errorf("%s: %w", r.ID, err)
		}
		doc.Rules = append(doc.Rules, rules...)
	}
	return write(out, doc)
}

func write(out string, doc document) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "\t")
	if err := enc.Encode(doc); err != nil {
		return err
	}
	return os.WriteFile(out, b.Bytes(), 0o644) //nolint:gosec // a source file, readable like the others
}

// wanted reports whether to import a rule. It excludes rules for public identifiers, rules for only one kind of file,
// and rules that package secrets implements in code.
func wanted(r sourceRule) bool {
	for _, public := range []string{"-client-id", "-public-key", "-pub-key", "-pub-api-key", "-access-id", "-api-id"} {
		if strings.HasSuffix(r.ID, public) {
			return false
		}
	}
	own := []string{
		"generic-api-key", "private-key", "jwt", "curl-auth-header", "curl-auth-user", "kubernetes-secret-yaml",
		"freemius-secret-key", "sidekiq-sensitive-url", "sourcegraph-access-token", "facebook-access-token",
		"azure-ad-client-secret", "hashicorp-tf-api-token", "maxmind-license-key", "microsoft-teams-webhook", "slack-webhook-url",
	}
	return r.Path == "" && r.Regex != "" && !slices.Contains(own, r.ID)
}

// Parts of the regular expressions of gitleaks. beforeName to betweenEnd surround the name of a provider in rules of
// the form NAME = VALUE. behindIt follows a token.
const (
	beforeName   = `(?i)[\w.-]{0,50}?(?:`
	beforeCased  = `[\w.-]{0,50}?(?i:[\w.-]{0,50}?(?:`
	betweenBegin = `)(?:[ \t\w.-]{0,20})[\s'"]{0,3}`
	betweenEnd   = `(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}(`
	behindIt     = `(?:[\x60'"\s;]|\\[nr]|$)`
	orElse       = behindIt + "|"
)

// rewrite converts a rule of gitleaks. It returns two rules if the expression has two alternatives: NAME = VALUE, and
// the token itself.
func rewrite(r sourceRule) ([]Rule, error) {
	head, rest, twofold := strings.Cut(r.Regex, orElse)
	if !twofold || !strings.HasPrefix(head, beforeName) {
		rule, err := rewriteOne(r, r.Regex)
		return []Rule{rule}, err
	}
	named, err := rewriteOne(r, head+behindIt)
	if err != nil {
		return nil, err
	}
	shaped, err := rewriteOne(r, rest)
	return []Rule{named, shaped}, err
}

// rewriteOne converts a rule with a single form.
func rewriteOne(r sourceRule, regex string) (Rule, error) {
	rule := Rule{ID: r.ID, Keywords: r.Keywords, Fold: true, Entropy: r.Entropy}
	for _, list := range r.Allowlists {
		if list.RegexTarget == "" || list.RegexTarget == "secret" {
			rule.Allow = append(rule.Allow, list.Regexes...)
		}
	}
	if named(&rule, regex) {
		return rule, nil
	}
	return rule, shaped(&rule, regex)
}

// named sets the fields of a rule of the form NAME = VALUE. It returns false if regex does not have that form.
func named(rule *Rule, regex string) bool {
	fold, between := "(?i)", betweenBegin+betweenEnd
	rest, ok := strings.CutPrefix(regex, beforeName)
	if !ok {
		fold, between = "", betweenBegin+")"+betweenEnd
		rest, ok = strings.CutPrefix(regex, beforeCased)
	}
	name, value, found := strings.Cut(rest, between)
	value, ended := strings.CutSuffix(value, ")"+behindIt)
	if !ok || !found || !ended {
		return false
	}
	rule.Value = fold + value
	if strings.ContainsAny(name, `[(?`) {
		rule.Name = name
	} else { // the keywords of some rules match the value instead of the name
		rule.Keywords = strings.Split(strings.ToLower(name), "|")
	}
	return true
}

// shaped sets the fields of a rule with an expression that describes the token itself.
func shaped(rule *Rule, regex string) error {
	regex = strings.Replace(regex, `(?i)\b`, `\b(?i)`, 1)
	core := strings.TrimPrefix(regex, `\b`)
	for _, end := range []string{behindIt, `(?:[\x60'"\s;]|\\[nr]|$|\b)`, `(?:[^\w-]|\z)`, `\b`} {
		if trimmed, ok := strings.CutSuffix(core, end); ok {
			core, rule.Ends = trimmed, true
			break
		}
	}
	rule.Regex = core
	tree, err := syntax.Parse(core, syntax.Perl)
	if err != nil {
		return err
	}
	start := lead(tree)
	if usable(start.texts) {
		slices.Sort(start.texts)
		rule.Keywords, rule.Fold = slices.Compact(start.texts), start.fold
		return nil
	}
	return errors.New("no match begins with a text that can be searched for: write the rule into more.json, in two parts, and leave this one out")
}

// usable reports whether the strings are rare enough to be keywords.
func usable(texts []string) bool {
	return len(texts) > 0 && !slices.ContainsFunc(texts, func(s string) bool { return len(s) < 2 || strings.HasPrefix(s, "http") })
}

// leading contains the strings with which the matches of an expression begin: every match begins with one of texts.
type leading struct {
	texts []string
	fold  bool
	// whole is true if the strings are complete matches.
	whole bool
}

// maxTexts bounds the number of strings in a leading, longest their length in bytes.
const maxTexts, longest = 16, 12

// lead returns the beginnings of the matches of an expression.
func lead(re *syntax.Regexp) leading {
	switch re.Op {
	case syntax.OpLiteral:
		fold := re.Flags&syntax.FoldCase != 0
		text := string(re.Rune)
		if fold {
			text = strings.ToLower(text)
		}
		return leading{[]string{text}, fold, true}
	case syntax.OpCharClass:
		return leadOfClass(re.Rune)
	case syntax.OpCapture:
		return lead(re.Sub[0])
	case syntax.OpConcat:
		return leadOfAll(re.Sub)
	case syntax.OpAlternate:
		return leadOfAny(re.Sub)
	case syntax.OpEmptyMatch, syntax.OpWordBoundary:
		return leading{[]string{""}, false, true}
	default:
		return leading{texts: []string{""}}
	}
}

func leadOfClass(ranges []rune) leading {
	var texts []string
	for i := 0; i < len(ranges); i += 2 {
		for c := ranges[i]; c <= ranges[i+1]; c++ {
			if len(texts) == maxTexts {
				return leading{texts: []string{""}}
			}
			texts = append(texts, string(c))
		}
	}
	return leading{texts, false, true}
}

func leadOfAll(list []*syntax.Regexp) leading {
	all := leading{[]string{""}, false, true}
	for _, re := range list {
		next := lead(re)
		if len(all.texts)*len(next.texts) > maxTexts {
			all.whole = false
		}
		if !all.whole || len(all.texts[0]) >= longest {
			return leading{all.texts, all.fold, false}
		}
		var texts []string
		for _, a := range all.texts {
			for _, b := range next.texts {
				texts = append(texts, a+b)
			}
		}
		all = leading{texts, all.fold || next.fold && next.texts[0] != "", next.whole}
	}
	if all.fold {
		for i, text := range all.texts {
			all.texts[i] = strings.ToLower(text)
		}
	}
	return all
}

func leadOfAny(list []*syntax.Regexp) leading {
	found := leading{whole: true}
	for _, re := range list {
		next := lead(re)
		found.texts = append(found.texts, next.texts...)
		found.fold = found.fold || next.fold
		found.whole = found.whole && next.whole
	}
	if len(found.texts) > maxTexts {
		return leading{texts: []string{""}}
	}
	return found
}

package secrets

import (
	_ "embed"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// providersJSON contains the rules of gitleaks, imported by scripts/secret-rules (MIT, see LICENSE.gitleaks). moreJSON
// contains the rules of this package.
var (
	//go:embed providers.json
	providersJSON []byte
	//go:embed more.json
	moreJSON []byte
)

// rule describes a kind of secret by regular expressions. Either Regex describes the form of the secret, or Keywords
// and Name describe the name to which it is assigned and Value the value. The secret is the first group that matches,
// or the whole match.
type rule struct {
	ID string `json:"id"`
	// Keywords are strings. Every match contains at least one of them. They are case-insensitive if Fold is set.
	Keywords []string `json:"keywords"`
	Fold     bool     `json:"fold"`
	// Name matches the beginning of the name. It is empty if the keyword alone identifies the name.
	Name  string `json:"name"`
	Value string `json:"value"`
	Regex string `json:"regex"`
	// Before matches up to Back bytes before the keyword, for a secret that does not begin with the keyword. It is only
	// tried if Regex matches. Its first group is the beginning of the secret.
	Before string `json:"before"`
	Back   int    `json:"back"`
	// Anywhere is true if the secret may follow a letter or a digit, because its form is distinctive.
	Anywhere bool `json:"anywhere"`
	// Ends is true if no word character may follow.
	Ends bool `json:"ends"`
	// Entropy is the minimum entropy of a secret, in bits per byte.
	Entropy float64 `json:"entropy"`
	// Allow lists expressions for values that are not secrets.
	Allow []string `json:"allow"`

	compiled func() expressions
}

// expressions are the compiled expressions of a rule.
type expressions struct {
	name, value, regex, before *regexp.Regexp
	allow                      []*regexp.Regexp
}

// providers returns the keys of the rules in the embedded files.
func providers() []key {
	var keys []key
	for _, text := range [][]byte{moreJSON, providersJSON} {
		var list struct{ Rules []*rule }
		if err := json.Unmarshal(text, &list); err != nil {
			panic("secrets: the embedded rules cannot be read: " + err.Error())
		}
		for _, r := range list.Rules {
			keys = append(keys, r.keys()...)
		}
	}
	return keys
}

func (r *rule) keys() []key {
	r.compiled = sync.OnceValue(r.compile)
	find := r.shaped
	if r.Value != "" {
		find = r.named
	}
	var keys []key
	for _, word := range r.Keywords {
		longer := func(other string) bool { return word != other && strings.HasPrefix(word, other) }
		if slices.ContainsFunc(r.Keywords, longer) {
			continue // the shorter keyword finds it, too
		}
		keys = append(keys, key{rule: strings.ReplaceAll(r.ID, "-", "_"), text: word, fold: r.Fold, find: find, begins: r.Value == "" && r.Before == "" && !r.Anywhere})
	}
	return keys
}

func (r *rule) compile() expressions {
	var e expressions
	anchored := func(text, end string) *regexp.Regexp { return regexp.MustCompile(`\A(?:` + text + `)` + end) }
	switch {
	case r.Value != "":
		e.value = anchored(r.Value, `\z`)
		if r.Name != "" {
			e.name = anchored(`(?i)`+r.Name, "")
		}
	default:
		e.regex = anchored(r.Regex, "")
	}
	if r.Before != "" {
		e.before = regexp.MustCompile(`(?:` + r.Before + `)\z`)
	}
	for _, text := range r.Allow {
		e.allow = append(e.allow, regexp.MustCompile(text))
	}
	return e
}

// longest bounds the length of a token after the beginning of its keyword, in bytes. Only the beginning of a longer
// token is found.
const longest = 1200

// shaped matches a token by its form.
func (r *rule) shaped(data []byte, at int) (begin, end int, ok bool) {
	if r.Before == "" && !r.Anywhere && !boundaryOrUnderscore(data, at) {
		return 0, 0, false
	}
	m := r.compiled().regex.FindSubmatchIndex(data[at:min(len(data), at+longest)])
	if m == nil {
		return 0, 0, false
	}
	matchEnd := at + m[1]
	begin, end = group(m)
	begin, end = at+begin, at+end
	if r.Before != "" {
		begin, ok = r.tokenStart(data, at, begin)
	}
	if r.Before != "" && !ok || r.Ends && matchEnd < len(data) && isWord(data[matchEnd]) {
		return at, matchEnd, false
	}
	if !r.Ends && end == matchEnd {
		end = runTo(data, end, longest, isWord)
	}
	return begin, end, r.secret(data[begin:end])
}

// tokenStart returns the beginning of the secret that has its keyword at offset at. It returns false if Before does not
// match the preceding text. inner is the beginning of the secret according to Regex.
func (r *rule) tokenStart(data []byte, at, inner int) (int, bool) {
	from := max(0, at-r.Back)
	m := r.compiled().before.FindSubmatchIndex(data[from:at])
	if m == nil || isWord(data[from+m[0]]) && !boundary(data, from+m[0]) {
		return 0, false
	}
	switch {
	case len(m) > 2 && m[2] >= 0:
		return from + m[2], true
	case inner > at:
		return inner, true
	}
	return from + m[0], true
}

// group returns the first participating group of a match, or the whole match.
func group(m []int) (begin, end int) {
	for i := 2; i+1 < len(m); i += 2 {
		if m[i] >= 0 && m[i+1] > m[i] {
			return m[i], m[i+1]
		}
	}
	return m[0], m[1]
}

// secret reports whether the text of a match is a secret.
func (r *rule) secret(text []byte) bool {
	if r.Entropy > 0 && entropy(text) <= r.Entropy || placeholder(text) || reference(text) {
		return false
	}
	for _, re := range r.compiled().allow {
		if re.Match(text) {
			return false
		}
	}
	return true
}

// The text between the name of a provider and the value: the rest of the name, quotes, an operator.
var (
	nameRest   = oneOf("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.- \t")
	closing    = oneOf("\\\"'` \t])")
	operators  = oneOf("=>:|,?")
	opening    = oneOf("\\\"'` \t\r\n=")
	endOfValue = oneOf("\\\"'` \t\r\n;,&<>(){}[]")
)

// named matches a value that is assigned to the name of its provider.
func (r *rule) named(data []byte, at int) (begin, end int, ok bool) {
	const rest, quotes, sign, longestValue = 20, 8, 4, 256
	name := at + 1 // the rest of the keyword matches like the rest of the name
	if r.Name != "" {
		m := r.compiled().name.FindIndex(data[at:min(len(data), at+64)])
		if m == nil {
			return 0, 0, false
		}
		name = at + m[1]
	}
	name = runTo(data, name, rest+len(r.Keywords[0]), nameRest)
	name = runTo(data, name, quotes, closing)
	begin = runTo(data, name, sign, operators)
	if begin == name {
		return 0, 0, false
	}
	begin = runTo(data, begin, quotes, opening)
	end = runTo(data, begin, longestValue, func(c byte) bool { return !endOfValue(c) })
	text := data[begin:end]
	return begin, end, mixed(text) && r.compiled().value.Match(text) && r.secret(text)
}
